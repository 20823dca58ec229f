# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of a module to the source that they name; secrets of documents are masked in results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..node.config.document import loads, placeholders, restore_secrets, secrets_of, unwrap
from ..node.config.parse import parse
from ..node.config.types.addresses import only_certificates
from ..node.engine.records.state import Store
from ..node.errors import ConfigInvalid
from ..node.machine.clock import Clock
from ..node.net.http_client import HttpClient
from ..node.net.proxies import Proxies
from ..node.net.proxy import proxies
from ..node.sources.source import Inline, Source, Stored, Url

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

Document = Mapping[str, Any]


def document_of(module: AnsibleModule) -> dict[str, Any]:
    """The option `document`, parsed; its secrets are masked in the result of the module."""
    document = loads(module.params["document"], where="document")
    mask_secrets(module, document)
    return document


def mask_secrets(module: AnsibleModule, document: Document) -> None:
    """Mask the secrets of a document, or of the one in a bundle, in everything that the module returns."""
    try:
        module.no_log_values.update(secrets_of(unwrap(document)[0]))
    except ConfigInvalid:  # reported when the document is read
        module.no_log_values.update(secrets_of(document))


def source_of(
    options: Mapping[str, Any], document: Document, store: Store, clock: Clock, *, attempts: int = 4
) -> tuple[Source, Document]:
    """The source that the options name, and the settings that are merged over its document.

    document: the parsed option `document`. store: of this machine. attempts: requests of a URL.
    """
    if options["source"] == "url":
        ca = only_certificates(options["url_ca_cert"] or "")
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
