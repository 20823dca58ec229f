# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""This node: its name, and one API client that is reused until the kubelet's credential changes."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import Forbidden
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.this_node import ThisNode
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import IDENTITY


def this_node(machine: Machine, *changes: dict[str, Any]) -> ThisNode:
    return ThisNode.of(machine.host, parse(joining(*changes), pollable=True))


def test_the_name_is_the_configured_one_else_the_host_name(debian: Machine) -> None:
    debian.put("/proc/sys/kernel/hostname", "Edge-7\n")
    assert this_node(debian).name == "edge-7"
    assert this_node(debian, {"agent": {"nodeName": "press-2"}}).name == "press-2"


def test_one_client_until_the_certificate_changes(machine: Machine, pki: Pki) -> None:
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as api:
        server = {"serverURL": api.server.url, "caCertData": b64encode(pki.ca_pem.encode()).decode()}
        node = this_node(machine, {"agent": {"nodeName": "edge-1"}, "node": {"kubelet": server}})
        assert not node.has_credential
        with pytest.raises(Forbidden):
            node.read()
        machine.put(IDENTITY, pki.client.read_bytes(), 0o600)
        assert node.has_credential
        assert (node.read() or {})["metadata"] == api.nodes["edge-1"]["metadata"]
        first = node.api()
        assert node.api() is first
        assert node.api(attempts=1) is not first
        machine.path(IDENTITY).unlink()
        machine.put(IDENTITY, pki.client.read_bytes() + b"\n", 0o600)
        assert node.api() is not first
