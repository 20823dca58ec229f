# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Obtain a configuration: fetch, merge, check, store. Every source ends here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..catalogue.artifacts import artifacts_of
from ..config.available import check_available, check_profile
from ..config.document import as_read, canonical, merge, redact, restore_secrets
from ..config.parse import parse
from ..config.types.setting import Purpose
from ..dataclass import asdict, dataclass, replace
from ..engine.records.state import Store, store_of
from ..errors import (
    ConfigInvalid,
    ConfigMissing,
    ConfigUnreachable,
    FlexNodeError,
    Problem,
    StateNewer,
    shown,
)
from ..machine.clock import Clock, stamp
from ..machine.facts import architecture
from ..machine.host import Host
from ..net.proxy import proxies
from ..node_object.advice import advise
from ..node_object.this_node import ThisNode
from ..secret import REDACTED
from ..sources.followed import watched_source, with_resource
from ..sources.source import Source, Stored
from ..sources.watched import Watched
from ..status.publish import publish
from .checks import check_fixed, check_secrets, check_token, check_unjoined, has_joined
from .pool_token import is_unneeded, without_placeholder, without_token


@dataclass(frozen=True)
class Obtained:
    """A checked configuration, the node that it describes, and where its state is stored."""

    node: ThisNode
    store: Store
    document: Mapping[str, Any]
    version: str | None = None
    changed: bool = False
    warnings: tuple[str, ...] = ()
    source: Watched | None = None  # what is polled from now on
    fetched: bool = False  # it came from a source, and is not stored yet
    origin: str = ""  # where it comes from, as whoever runs this calls it; for advice

    @property
    def is_polled(self) -> bool:
        """Whether it came from a source that can be polled."""
        return self.source is not None if self.fetched else self.store.polls

    def keep(self) -> None:
        """Store the document as the current one: it was accepted."""
        if not self.fetched:
            return
        self.store.set_current_config(self.document, self.version)
        # After the document: source.json must never describe a document that is not stored.
        self.store.set_source(self.source.as_dict() if self.source else None)

    def refuse(self, error: FlexNodeError) -> None:
        """Keep a document that was refused beside the current one, with the reason; nothing was changed."""
        if self.fetched:
            remember_refused(self.store, self.document, self.version, error, self.node.host.clock)

    @property
    def public(self) -> dict[str, Any]:
        """The document without its secrets."""
        return redact(self.document)


def obtain(
    host: Host,
    source: Source,
    overrides: Mapping[str, Any],
    *,
    purpose: Purpose = "join",
    check: bool = False,
    durable: bool = False,
    origin: str = "",
    review: Callable[[Mapping[str, Any]], None] | None = None,
) -> Obtained:
    """Fetch a document, merge `overrides` over it and check it. It is stored once it is accepted (`keep`).

    durable: the URL of the source stays valid, and can be polled.
    origin: where the configuration comes from, as whoever runs this calls it.
    review: called with the document; it may refuse it.
    """
    known = store_of(host)
    stored, intact = known.remembered()  # a damaged document is replaced from its source
    if purpose == "prepare":
        check_unjoined(host, known, stored)
    warnings: list[str] = []
    try:
        fetched = source.fetch()
    except ConfigUnreachable as error:
        if not intact or stored is None or not has_joined(host, stored):
            raise
        # A joined node does not need its source: the URL may have expired after the join.
        why = f"{error.what} ({error.where}): {error.why}"
        warnings.append(f"{why}. This machine has joined and keeps its stored configuration")
        source = Stored(known)
        fetched = source.fetch()
    # What is stored is looked into by polls, which don't parse it.
    document = as_read(merge(fetched.document, overrides))
    if stored and REDACTED in canonical(document):
        document = restore_secrets(document, stored)
    document = without_placeholder(document)
    watched = watched_source(known, source, fetched, overrides, durable=durable)
    try:
        if not check:  # in check mode secrets have not been created yet
            check_secrets(document, known)
        config = parse(document, purpose=purpose, pollable=watched is not None)
        before = Watched.of(known.source_if_intact())
        watched = with_resource(watched, before, source, fetched, config, host, overrides)
        # What is prepared polls nothing yet.
        check_available(config, pollable=watched is not None or purpose == "prepare")
        if not check and purpose == "join":
            check_profile(config)
        if known.directory != config.paths.data_dir and (known.journal.entries() or stored):
            accepted, hint = f"{known.directory}, or unbootstrap first to move it", "this machine is a node"
            raise ConfigInvalid([Problem("paths.dataDir", shown(config.paths.data_dir), accepted, hint)])
        node, store = ThisNode.of(host, config), store_of(host, config.paths.data_dir)
        if config.azure.target_agent_pool_name:
            from ..sources.machines import machine_name

            machine_name(node.name)
        if is_unneeded(node, store):
            document = without_token(document)
            node = ThisNode.of(host, parse(document, purpose=purpose, pollable=watched is not None))
        if purpose != "prepare":
            check_token(node, store)
            check_fixed(node, store, stored)
        if review:
            review(document)
        artifacts_of(config, architecture())  # what can't be installed is refused before it is stored
    except FlexNodeError as error:
        advise(error, origin)
        if not check and known.applied_if_intact() is not None:
            remember_refused(known, document, fetched.version, error, host.clock)
            publish(host, known)
        raise
    changed = not intact or stored is None or canonical(stored) != canonical(document)
    proxy = asdict(proxies(config)) if config.proxy.http or config.proxy.https else {}
    return Obtained(
        node,
        store,
        document,
        fetched.version,
        changed,
        tuple(warnings),
        replace(watched, proxy=proxy) if watched else None,
        fetched=True,
        origin=origin,
    )


def remember_refused(
    store: Store, document: Mapping[str, Any], version: str | None, error: FlexNodeError, clock: Clock
) -> None:
    """Keep a refused document beside the current one. One that was rolled back is kept instead: it blocks."""
    if isinstance(error, StateNewer) or store.refused().get("blocks"):
        return
    reason = {"code": error.code, "message": " ".join(f"{error.what}: {error.why}".split())}
    store.refuse(document, {**reason, "since": stamp(clock), "version": version})


def store_config(host: Host, source: Source, overrides: Mapping[str, Any], **options: Any) -> Obtained:
    """Obtain a configuration and store it, without applying it."""
    obtained = obtain(host, source, overrides, **options)
    if not options.get("check"):
        obtained.keep()
    return obtained


def stored_config(
    host: Host,
    document: Mapping[str, Any] | None = None,
    *,
    purpose: Purpose = "join",
    pollable: bool = False,
) -> Obtained:
    """The stored configuration; on a machine without one (check mode on a fresh host) `document`.

    pollable: accept continuousMonitoring even if no durable URL is stored.
    """
    store, document = stored_document(host, document)
    config = parse(document, purpose=purpose, pollable=pollable or store.polls)
    return Obtained(ThisNode.of(host, config), store, document)


def stored_document(host: Host, document: Mapping[str, Any] | None) -> tuple[Store, Mapping[str, Any]]:
    """The store of this machine and its document, unless `document` is passed.

    A document that is passed as a module option has no secrets: they are read from the stored one.
    """
    data_dir = ((document or {}).get("paths") or {}).get("dataDir")
    store = store_of(host, data_dir)
    if document is None:
        stored = store.current_config()
        if stored is None:
            raise ConfigMissing("no configuration is stored on this machine", where=store.directory)
        return store, stored
    stored, _intact = store.remembered()
    return store, without_placeholder(restore_secrets(document, stored) if stored else document)
