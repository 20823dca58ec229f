# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of a configuration: inline, stored, URL, and what a poll found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..config.document import loads, unwrap
from ..dataclass import dataclass
from ..engine.records.state import Store
from ..errors import ConfigInvalid, ConfigMissing, ConfigUnreachable, Problem
from ..net.answer import COPY_URL, HttpFailure, shown
from ..net.tls import INSTALL_CAS, lacks_system_cas
from .watched import Watched, digest_of

if TYPE_CHECKING:
    from ..net.http_client import HttpClient


@dataclass(frozen=True)
class Fetched:
    """A document as its source returns it, with the source's version."""

    document: Mapping[str, Any]
    version: str | None = None
    etag: str = ""  # the server's name of this content
    digest: str = ""


class Source(Protocol):
    """What every source can do."""

    def fetch(self) -> Fetched: ...


@dataclass(frozen=True)
class Inline:
    """The document itself: from inventory variables, or from a file."""

    document: Mapping[str, Any]

    def fetch(self) -> Fetched:
        """Nothing to fetch."""
        return Fetched(*unwrap(self.document))


@dataclass(frozen=True)
class Stored:
    """The document that is stored on the machine."""

    store: Store

    def fetch(self) -> Fetched:
        """Read it, secrets included."""
        document = self.store.current_config()
        if document is None:
            raise ConfigMissing(
                "no configuration is stored on this machine",
                where=self.store.directory,
                why="it has never been a node, has left, or was reinstalled since",
                fix="create a new one. For a flexNodeConfig resource: ansible-playbook "
                "aks.flexnode.config_tokens -i INVENTORY -l HOST, then bootstrap or `aks-flex-node join` "
                "with the new URL. Otherwise: run playbook aks.flexnode.bootstrap with a new configuration",
            )
        return Fetched(document, self.store.config_version())


@dataclass(frozen=True)
class Refused(Stored):
    """The document that was rolled back, to be tried again."""

    def fetch(self) -> Fetched:
        """Read it, secrets included; the stored one if none was rolled back."""
        refused = self.store.refused()
        return (
            Fetched(refused["document"], refused.get("version"))
            if refused.get("blocks")
            else Stored.fetch(self)
        )


@dataclass(frozen=True)
class Seen:
    """What a poll found at the URL that this machine follows."""

    bundle: Mapping[str, Any]
    watched: Watched  # that URL, with what was found now

    def fetch(self) -> Fetched:
        """Already fetched."""
        return Fetched(*unwrap(self.bundle))


@dataclass(frozen=True)
class Url:
    """A configuration bundle at a URL that is itself a secret."""

    url: str
    client: HttpClient
    ca: str = ""  # of its server, stored with a durable URL

    def fetch(self) -> Fetched:
        """Request and read it; the URL is never shown with its query."""
        if not self.url.startswith("https://"):
            raise ConfigUnreachable(
                "a configuration is only fetched over TLS",
                where=shown(self.url),
                why="it holds credentials, and this URL is not https",
                fix="serve it over https; a private CA can be set (flexnode_config_url_ca_cert, --ca-cert)",
            )
        try:
            answer = self.client.request("GET", self.url)
        except ValueError:  # its text quotes a part of the URL
            raise ConfigUnreachable(
                "the configuration URL is not a URL", why="it has no usable host", fix=COPY_URL
            ) from None
        except HttpFailure as failure:
            gone = failure.status in (401, 403, 404, 410)
            raise ConfigUnreachable(
                "the configuration can't be fetched",
                where=failure.url,
                why=failure.reason,
                fix=failure.advice
                or (
                    "the URL is wrong, expired or already used: request a new one. For a flexNodeConfig "
                    "resource: ansible-playbook -i INVENTORY "
                    "aks.flexnode.config_tokens, then bootstrap or `aks-flex-node "
                    "join` with the new URL"
                    if gone
                    else INSTALL_CAS
                    if failure.tls and not self.ca and lacks_system_cas()
                    else "set the server's CA (flexnode_config_url_ca_cert, --ca-cert)"
                    if failure.tls
                    else "check the network and the URL, then run this again"
                ),
            ) from failure
        bundle = loads(answer.body.decode(errors="replace"), where=shown(self.url))
        if is_tombstone(bundle):
            accepted = "the URL of a new configuration, or unbootstrap this machine"
            wrong = Problem("tombstone", "true", accepted, "its owner deleted this configuration")
            raise ConfigInvalid([wrong], where=shown(self.url))
        return Fetched(*unwrap(bundle), answer.headers.get("ETag", ""), digest_of(answer.body))


def is_tombstone(bundle: Mapping[str, Any]) -> bool:
    """Whether a bundle is a tombstone: its owner deleted the configuration, and the node must leave."""
    return bundle.get("tombstone") is True


def is_bundle(source: Source, fetched: Fetched) -> bool:
    """Whether a document may come from a resource provider: a bundle, and not a bare document."""
    if isinstance(source, Inline):
        return "config" in source.document
    return isinstance(source, Url) or fetched.version is not None
