# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options of a module, and the way to the configuration that they mean."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.config_options import obtain_given
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, serving

URL = "https://bundles.example/edge-1?sig=s3cret"


@dataclass
class Module:
    """What is used of an AnsibleModule."""

    params: dict[str, Any]
    check_mode: bool = False
    no_log_values: set[str] = field(default_factory=set)


def asked_at_proxy(machine: Machine, proxy: dict[str, Any], url: str = URL, stored: bool = False) -> set[str]:
    """What a proxy is asked for when a configuration is fetched that can't be had."""
    with serving(lambda _: Answer(status=502)) as server:
        if stored:
            machine.store.set_current_config({"proxy": {"https": server.url}}, None)
        given = {key: server.url if value == "HERE" else value for key, value in proxy.items()}
        params = {
            "source": "url",
            "url": url,
            "url_ca_cert": None,
            "document": json.dumps({"proxy": given} if given else {}),
            "durable": False,
        }
        with pytest.raises(ConfigUnreachable):
            obtain_given(Module(params), machine.host)
    return set(server.asked)


@pytest.mark.parametrize("no", [[], "corp.example, 10.0.0.0/8"])
def test_the_first_fetch_goes_through_the_proxy_that_is_given(machine: Machine, no: Any) -> None:
    asked = asked_at_proxy(machine, {"https": "HERE", "no": no})
    assert asked == {"CONNECT bundles.example:443"}


@pytest.mark.parametrize("no", [["127.0.0.2"], "corp.example,127.0.0.2"])
def test_and_directly_where_it_says_so(machine: Machine, no: Any) -> None:
    assert asked_at_proxy(machine, {"https": "HERE", "no": no}, "https://127.0.0.2:1/x") == set()


def test_a_proxy_that_is_only_marked_is_the_one_that_is_stored(machine: Machine) -> None:
    asked = asked_at_proxy(machine, {"https": REDACTED}, stored=True)
    assert asked == {"CONNECT bundles.example:443"}
