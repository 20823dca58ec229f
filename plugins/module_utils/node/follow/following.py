# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new bundle is applied, or refused and recorded as such; a tombstone makes the machine leave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ..config.document import loads, secrets_of, unwrap
from ..dataclass import replace
from ..engine.records.left import record_left
from ..engine.records.state import Store, store_of
from ..engine.run_log import note_failure
from ..errors import FlexNodeError
from ..machine.clock import back_off, stamp
from ..machine.host import Host
from ..machine.program import COMMAND
from ..net.answer import shown
from ..operations.leave import DRAIN_SECONDS, leave
from ..operations.obtain import obtain, stored_config
from ..operations.outcome import taint_warnings
from ..operations.reconcile import EVERYTHING, reconcile
from ..operations.refusal import TRANSIENT, fingerprint
from ..procedures.arc.departure import leave_azure
from ..pull.install import install_after
from ..sources.errors import Unforeseen
from ..sources.source import Seen, is_tombstone
from ..sources.watched import LONGEST, REPLACED, Blocked, News, Watched, is_machine
from ..status.publish import publish
from .credential import with_secrets
from .report import heal

Say = Callable[[str], None]
FIRST_PAUSE = 60.0  # seconds before the first retry after a transient failure; doubled each time
NOT_FOLLOWED = 3  # exit status: the new document was refused, or failed


def follow(host: Host, store: Store, watched: Watched, news: News, say: Say) -> int:
    """Apply a bundle. The caller holds the lease."""
    watched = replace(
        watched,
        etag=news.etag,
        digest=news.digest,
        not_before=0.0,
        settled=False,
        found=bool(watched.resource),
        missing_since=0.0,
        waiting=news.waiting,
        older="",
    )
    applied = store.applied_if_intact()
    try:
        bundle: Mapping[str, Any] = loads(news.body, where=shown(watched.url))
        if is_tombstone(bundle):
            return depart(host, say, DELETED_MACHINE if is_machine(watched.resource) else DELETED)
        watched = replace(watched, version=str(bundle.get("configVersion") or "") or None)
        if watched.resource and not is_machine(watched.resource):
            bundle, watched = with_secrets(host, store, watched, bundle, news)
        obtained = obtain(host, Seen(bundle, watched), watched.over)
        run = reconcile(obtained, EVERYTHING, progress=say, register=news.registers, patience=0)
    except FlexNodeError as error:
        if error.waits:
            return wait_for_turn(host, store, watched, error, say)
        return not_applied(host, store, watched, error, say)
    except Exception as fault:  # noqa: BLE001 - nobody would know, and every poll would fail with it again
        return not_applied(host, store, watched, unforeseen(fault, store, news.body, say), say)
    same = applied is not None and fingerprint(applied) == fingerprint(obtained.document)
    follows_again(host, store, watched, earlier=watched.still_refused() if same else None)
    for warning in (*run.warnings, *taint_warnings(run), *install_after(obtained, say)):
        say(f"warning: {warning}")
    say(f"configuration {watched.version or 'without a version'} is applied: {run.summary}")
    return 0


def not_applied(host: Host, store: Store, watched: Watched, error: FlexNodeError, say: Say) -> int:
    """Record a document that was refused, or failed, so that the status says so, and not every poll tries."""
    note_failure(host, store.journal, error, f"{COMMAND} poll")
    heal(store)
    blocked = blocked_by(error, watched, host.clock.now())
    settled = blocked.retry_at is None
    store.set_source(replace(watched, settled=settled, blocked=blocked).as_dict())
    store.set_monitoring(failed_with(blocked, host))
    publish(host, store)
    say(f"{error}\nconfiguration {watched.version or 'without a version'} is not applied")
    return NOT_FOLLOWED


def unforeseen(fault: Exception, store: Store, body: bytes, say: Say) -> FlexNodeError:
    """An exception that nobody expects, as an error with its type and text. Its place goes to the journal."""
    import traceback

    known, texts = [store.remembered()[0] or {}], []
    with contextlib.suppress(FlexNodeError):
        known.append(unwrap(loads(body))[0])
    secrets = sorted({secret for document in known for secret in secrets_of(document)}, key=len, reverse=True)
    for text in ("".join(traceback.format_exception(fault)), f"{type(fault).__name__}: {fault}"):
        for secret in secrets:
            text = text.replace(secret, "<secret>")
        texts.append(text)
    say(texts[0])
    return Unforeseen("an unexpected failure", why=" ".join(texts[1].split()))


def finish(host: Host, store: Store, watched: Watched, say: Say) -> int:
    """Complete what an interrupted or held run left, from the stored document. The caller holds the lease."""
    try:
        obtained = stored_config(host, pollable=True)
        run = reconcile(obtained, EVERYTHING, progress=say, patience=0)
    except FlexNodeError as error:
        return not_completed(host, store, watched, error, say)
    except Exception as fault:  # noqa: BLE001 - as above
        return not_completed(host, store, watched, unforeseen(fault, store, b"", say), say)
    follows_again(host, store, watched)
    for warning in install_after(obtained, say):
        say(f"warning: {warning}")
    say(f"an interrupted change is complete: {run.summary}")
    return 0


def not_completed(host: Host, store: Store, watched: Watched, error: FlexNodeError, say: Say) -> int:
    """Record that an interrupted change could not be completed."""
    blocked = blocked_by(error, watched, host.clock.now())
    store.set_source(replace(Watched.of(store.source()) or watched, blocked=blocked).as_dict())
    store.set_monitoring(failed_with(blocked, host))
    publish(host, store)
    say(str(error))
    return NOT_FOLLOWED


def wait_for_turn(host: Host, store: Store, watched: Watched, error: FlexNodeError, say: Say) -> int:
    """Other nodes come first, or nobody knows: the next poll asks again. Said and reported once."""
    line = " ".join(f"{error.code} {error.what}{f': {error.why}' if error.why else ''}".split())
    known = Watched.of(store.source())
    store.set_source(replace(watched, settled=False, blocked=None, waiting=line).as_dict())
    if store.monitoring():
        store.set_monitoring({})
    if known is None or known.waiting != line:
        publish(host, store)
        say(f"configuration {watched.version or 'without a version'} waits: {line}")
    return 0


def follows_again(host: Host, store: Store, watched: Watched, *, earlier: Blocked | None = None) -> None:
    """What was wrong before is history. Reconcile has settled the source, and published the rest.

    earlier: what was refused before, and is not to be tried again should a cache return it.
    """
    current = Watched.of(store.source()) or watched
    if current.blocked or current.earlier != earlier or store.monitoring():
        store.set_source(replace(current, blocked=None, earlier=earlier).as_dict())
        store.set_monitoring({})
        publish(host, store)


def failed_with(blocked: Blocked, host: Host) -> dict[str, Any]:
    """What the status says of monitoring."""
    return {"ok": False, "code": blocked.code, "message": blocked.message, "since": stamp(host.clock)}


def blocked_by(error: FlexNodeError, watched: Watched, now: float) -> Blocked:
    """The record of a document that was not applied, and when it is retried, if ever."""
    known = watched.blocked
    attempts = known.attempts + 1 if known and known.digest == watched.digest else 1
    pause = back_off(FIRST_PAUSE, attempts, LONGEST)
    return Blocked(
        watched.digest,
        watched.version,
        error.code,
        " ".join(f"{error.what}: {error.why}".split()),  # one line, for the status
        attempts,
        now + pause if isinstance(error, TRANSIENT) else None,
    )


DELETED = "the configuration of this node was deleted: it leaves the cluster"
DELETED_MACHINE = "the machine of this node was deleted from its pool: it leaves the cluster"
INTERRUPTED = "this node was leaving the cluster when it was interrupted: it continues"


def depart(host: Host, say: Say, reason: str = DELETED) -> int:
    """The node leaves, as with unbootstrap: because of a tombstone, or to finish what was interrupted."""
    say(reason)
    watched = Watched.of(store_of(host).source_if_intact())
    report = leave(
        host,
        drain_seconds=DRAIN_SECONDS,
        progress=say,
        aks_deletes=bool(watched and watched.deleting and watched.marked != REPLACED),
        in_azure=lambda config: leave_azure(host, config, say),
    )
    record_left(host, report.node, stamp(host.clock), report.complaints)
    for line in report.complaints:
        say(line)
    say("this machine is no longer a node")
    return 1 if report.complaints else 0
