# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a configuration comes from. Every source ends in the same document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..config.document import loads, unwrap
from ..engine.state import Store
from ..errors import ConfigInvalid, ConfigMissing, ConfigUnreachable, Problem
from ..net.http_client import HttpClient, HttpFailure, shown
from .watched import Watched, digest_of


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document as its source gives it, with the number the source gave it."""

    document: Mapping[str, Any]
    version: str | None = None
    etag: str = ""  # what the server calls this very content
    digest: str = ""


class Source(Protocol):
    """All that a source must be able to do."""

    def fetch(self) -> Fetched: ...


@dataclass(frozen=True, slots=True)
class Inline:
    """The document itself: inventory variables, or a file that was read for us."""

    document: Mapping[str, Any]

    def fetch(self) -> Fetched:
        """Nothing to fetch."""
        return Fetched(*unwrap(self.document))


@dataclass(frozen=True, slots=True)
class Stored:
    """The document that is on the machine."""

    store: Store

    def fetch(self) -> Fetched:
        """Read it; its secrets are in it."""
        document = self.store.current_config()
        if document is None:
            raise ConfigMissing(
                "no configuration is stored on this machine",
                where=self.store.directory,
                why="it has never been a node, has left, or was reinstalled since",
                fix="give it a new one. Of a flexNodeConfig resource: ansible-playbook "
                "aks.flexnode.config_tokens -i INVENTORY -l HOST, then bootstrap or `aks-flex-node join` "
                "with the new address. Else: run bootstrap with a new configuration",
            )
        return Fetched(document, self.store.config_version())


@dataclass(frozen=True, slots=True)
class Seen:
    """What a poll found at the address that this machine follows."""

    bundle: Mapping[str, Any]
    watched: Watched  # that address, with what was seen now

    def fetch(self) -> Fetched:
        """It is here already."""
        return Fetched(*unwrap(self.bundle))


@dataclass(frozen=True, slots=True)
class Url:
    """A configuration bundle at an address that is itself a secret."""

    url: str
    client: HttpClient
    ca: str = ""  # of its server, to be remembered with a durable address

    def fetch(self) -> Fetched:
        """Get it and read it; the address is never shown with its query."""
        if not self.url.startswith("https://"):
            raise ConfigUnreachable(
                "a configuration is only fetched over TLS",
                where=shown(self.url),
                why="it holds credentials, and this address is not https",
                fix="serve it over https; a private CA can be given (flexnode_config_url_ca_cert, --ca-cert)",
            )
        try:
            answer = self.client.request("GET", self.url)
        except ValueError as error:  # nothing that could be asked
            raise ConfigUnreachable("the address of the configuration is not one", why=str(error)) from error
        except HttpFailure as failure:
            gone = failure.status in (401, 403, 404, 410)
            raise ConfigUnreachable(
                "the configuration can't be fetched",
                where=failure.url,
                why=failure.reason,
                fix=failure.advice
                or (
                    "the address is wrong, expired or already used: ask for a new one. Of a flexNodeConfig "
                    "resource: ansible-playbook aks.flexnode.config_tokens, then bootstrap or `aks-flex-node "
                    "join` with the new address"
                    if gone
                    else "give the server's CA (flexnode_config_url_ca_cert, --ca-cert)"
                    if failure.tls
                    else "check the network and the address, then run this again"
                ),
            ) from failure
        bundle = loads(answer.body.decode(errors="replace"), where=shown(self.url))
        if is_tombstone(bundle):
            hint = "its owner deleted it: ask for a new one, or unbootstrap"
            raise ConfigInvalid(
                [Problem("tombstone", "true", "a configuration", hint)], where=shown(self.url)
            )
        return Fetched(*unwrap(bundle), answer.headers.get("ETag", ""), digest_of(answer.body))


def is_tombstone(bundle: Mapping[str, Any]) -> bool:
    """Whether the owner of a configuration says, in so many words, that this node is to leave."""
    return bundle.get("tombstone") is True
