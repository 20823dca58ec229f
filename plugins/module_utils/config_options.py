# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that say where a configuration comes from, and the configuration that they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .node.config.document import loads, restore_secrets, secrets_of
from .node.config.parse import parse
from .node.config.types.setting import Purpose
from .node.engine.state import store_of
from .node.machine.host import Host
from .node.net.http_client import HttpClient, Proxies
from .node.net.proxy import proxies
from .node.operations.obtain import Obtained, obtain
from .node.sources.source import Inline, Source, Stored, Url

SOURCES = ("inline", "url", "stored")
OPTIONS: dict[str, dict[str, Any]] = {
    "source": {"type": "str", "choices": list(SOURCES)},
    "document": {"type": "str", "default": "{}", "no_log": True},
    "url": {"type": "str", "no_log": True},
    "url_ca_cert": {"type": "str"},
    "durable": {"type": "bool", "default": False},
}
NEEDED = [("source", "url", ("url",))]


def obtain_given(
    module: Any,
    host: Host,
    *,
    purpose: Purpose = "join",
    look: Callable[[Mapping[str, Any]], None] | None = None,
) -> Obtained:
    """Obtain what a module's options mean; from then on its secrets are masked in all that it says.

    look: sees the document before it is stored, and may refuse it.
    """
    given = module.params
    document = loads(given["document"], where="document")
    module.no_log_values.update(secrets_of(document))
    source: Source = Inline(document)
    if given["source"] == "url":
        ca = given["url_ca_cert"] or ""
        client = HttpClient(ca_pem=ca, proxies=given_proxies(host, document), clock=host.clock)
        source = Url(given["url"], client, ca)
    elif given["source"] == "stored":
        source = Stored(store_of(host))

    def seen(document: Mapping[str, Any]) -> None:
        module.no_log_values.update(secrets_of(document))
        if look:
            look(document)

    obtained = obtain(
        host,
        source,
        {} if given["source"] == "inline" else document,
        purpose=purpose,
        durable=given["durable"],
        check=module.check_mode,
        review=seen,
    )
    for warning in obtained.warnings:
        module.warn(warning)
    return obtained


def given_proxies(host: Host, document: Mapping[str, Any]) -> Proxies | None:
    """The proxy of the document that is given: the way to the rest of it."""
    if not document.get("proxy"):
        return None
    # No document without a version; the way to it does not depend on which.
    part: Mapping[str, Any] = {"proxy": document["proxy"], "kubernetes": {"version": "1.0.0"}}
    stored, _whole = store_of(host).remembered()
    if stored:  # a password that is only marked is there
        part = restore_secrets(part, stored)
    return proxies(parse(part, purpose="prepare", pollable=True))
