# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of a module to the source that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .node.config.document import placeholders, restore_secrets
from .node.config.parse import parse
from .node.engine.records.state import Store
from .node.machine.clock import Clock
from .node.net.http_client import HttpClient
from .node.net.proxies import Proxies
from .node.net.proxy import proxies
from .node.sources.source import Inline, Source, Stored, Url

Document = Mapping[str, Any]


def source_of(
    options: Mapping[str, Any], document: Document, store: Store, clock: Clock, *, attempts: int = 4
) -> tuple[Source, Document]:
    """The source that the options name, and the settings that are merged over its document.

    document: the parsed option `document`. store: of this machine. attempts: requests of a URL.
    """
    if options["source"] == "url":
        ca = options["url_ca_cert"] or ""
        client = HttpClient(
            ca_pem=ca, proxies=document_proxies(document, store), clock=clock, attempts=attempts
        )
        return Url(options["url"], client, ca), document
    if options["source"] == "stored":
        return Stored(store), document
    return Inline(document), {}


def document_proxies(document: Document, store: Store) -> Proxies | None:
    """The proxy that the options name: the rest of the document is fetched through it."""
    if not document.get("proxy"):
        return None
    # The parser requires a version; the proxy does not depend on it.
    part: Document = {"proxy": document["proxy"], "kubernetes": {"version": "1.0.0"}}
    if placeholders(part):
        stored, _intact = store.remembered()
        part = restore_secrets(part, stored or {})
    return proxies(parse(part, purpose="prepare", pollable=True))
