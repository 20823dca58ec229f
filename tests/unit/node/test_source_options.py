# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the options of a module to the source that they name, and through which proxy it is reached."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored, Url
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.source_options import source_of
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, answer_json, serving

URL = "https://bundles.example/edge-1?sig=s3cret"


def asked_at_proxy(machine: Machine, proxy: dict[str, Any], url: str = URL, stored: bool = False) -> set[str]:
    """The requests that a proxy receives while a configuration is fetched that does not exist."""
    with serving(lambda _: Answer(status=502)) as server:
        if stored:
            machine.store.set_current_config({"proxy": {"https": server.url}}, None)
        settings = {key: server.url if value == "HERE" else value for key, value in proxy.items()}
        options = {"source": "url", "url": url, "url_ca_cert": None}
        document = {"proxy": settings} if settings else {}
        source, overrides = source_of(options, document, machine.store, machine.host.clock)
        assert overrides == document
        with pytest.raises(ConfigUnreachable):
            source.fetch()
    return set(server.asked)


@pytest.mark.parametrize("no", [[], "corp.example, 10.0.0.0/8"])
def test_a_url_is_fetched_through_the_proxy_of_the_options(machine: Machine, no: Any) -> None:
    asked = asked_at_proxy(machine, {"https": "HERE", "no": no})
    assert asked == {"CONNECT bundles.example:443"}


@pytest.mark.parametrize("no", [["127.0.0.2"], "corp.example,127.0.0.2"])
def test_a_url_of_proxy_no_is_fetched_directly(machine: Machine, no: Any) -> None:
    assert asked_at_proxy(machine, {"https": "HERE", "no": no}, "https://127.0.0.2:1/x") == set()


def test_a_placeholder_for_a_proxy_is_replaced_by_the_stored_one(machine: Machine) -> None:
    asked = asked_at_proxy(machine, {"https": REDACTED}, stored=True)
    assert asked == {"CONNECT bundles.example:443"}


def test_a_ca_with_a_comment_in_any_language_is_trusted(machine: Machine, pki: Pki) -> None:
    with serving(lambda _: answer_json({"config": {}}), pki.server_context()) as server:
        options = {"source": "url", "url": server.url, "url_ca_cert": f"# Autorité\n{pki.ca_pem}"}
        source, _overrides = source_of(options, {}, machine.store, machine.host.clock)
        assert source.fetch().document == {}
    assert isinstance(source, Url)
    assert source.ca.isascii(), "polls use it as it is"


def test_an_inline_document_has_no_overrides_and_a_stored_one_does(machine: Machine) -> None:
    document = {"node": {"maxPods": 50}}
    clock = machine.host.clock
    assert source_of({"source": "inline"}, document, machine.store, clock) == (Inline(document), {})
    assert source_of({"source": "stored"}, document, machine.store, clock) == (
        Stored(machine.store),
        document,
    )
