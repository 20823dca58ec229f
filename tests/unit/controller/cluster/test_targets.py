# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whose Node it is: by the machine id that its kubelet reports; without a Node, by the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import OtherCluster
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import Access
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.targets import (
    Target,
    is_cluster_of,
    require_cluster,
    require_machine,
    targets_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.certificates import fingerprints

OURS, THEIRS = "0123456789abcdef" * 2, "fedcba9876543210" * 2
SERVER = "https://plant.example:443"


def pem(content: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("names", "nodes", "expected"),
    [
        (["a", " b", "a"], [], [Target("a"), Target("b")]),
        ([], [{"name": "a", "machine_id": OURS}], [Target("a", OURS)]),
        (["a", "c"], [{"name": "a", "machine_id": OURS}, {"name": "b"}], [Target("a", OURS), Target("c")]),
        # One name in two clusters: each is looked at.
        (
            ["a"],
            [{"name": "a", "kubeconfig": "/n"}, {"name": "a", "kubeconfig": "/s"}],
            [Target("a", kubeconfig="/n"), Target("a", kubeconfig="/s")],
        ),
        ([], [{"name": "a"}, {"name": "a", "machine_id": None}], [Target("a")]),
    ],
)
def test_names_choose_and_nodes_say_more(
    names: list[str], nodes: list[dict[str, Any]], expected: list[Target]
) -> None:
    assert targets_of(names, nodes) == expected


@pytest.mark.parametrize(
    ("known", "reported", "accepted"),
    [
        (OURS, OURS, True),
        (OURS.upper(), f"{OURS}\n", True),
        (OURS, THEIRS, False),
        ("", THEIRS, True),
        (OURS, "", True),
        (OURS, None, True),
        ("uninitialized", THEIRS, True),
        (OURS, "uninitialized", True),
    ],
)
def test_a_node_is_that_of_the_machine(known: str, reported: str | None, accepted: bool) -> None:
    node = {"status": {"nodeInfo": {"machineID": reported}}}
    target = Target("edge-1", known, SERVER)
    if accepted:
        require_machine(target, node, "https://other.example")
        return
    with pytest.raises(OtherCluster) as raised:
        require_machine(target, node, "https://other.example", otherwise="kubectl delete node edge-1")
    said = str(raised.value)
    for part in (
        "FLEX-1904: Node edge-1 in this cluster is another machine, and was not changed (https://other.example)",
        "fedcba98...",
        "01234567...",
        f"the cluster of this machine ({SERVER})",
        "If it is certainly the Node of this machine: kubectl delete node edge-1",
    ):
        assert part in said
    assert THEIRS not in said


@pytest.mark.parametrize("told", ["", "uninitialized"])
def test_an_id_that_a_machine_leaves_out_proves_nothing(told: str) -> None:
    node = {"status": {"nodeInfo": {"machineID": THEIRS}}}
    with pytest.raises(OtherCluster, match=r"may be another machine.*this machine has told none"):
        require_machine(Target("edge-1", told), node, SERVER, proven=True)
    require_machine(Target("edge-1", told), {}, SERVER, proven=True)


@pytest.mark.parametrize("node", [{}, {"status": None}, {"status": {"nodeInfo": None}}])
def test_a_node_that_never_reported_is_not_compared(node: dict[str, Any]) -> None:
    require_machine(Target("edge-1", OURS), node, SERVER)


@pytest.mark.parametrize(
    ("api_server", "trusted", "server", "ca", "same"),
    [
        (SERVER, "", "https://PLANT.example./", "", True),
        (SERVER, "", "https://plant.example:6443", "", False),
        (SERVER, "QUJD", "https://rancher.example/k8s/clusters/c-1", "QUJD", True),
        (SERVER, "QUJD", "https://rancher.example/k8s/clusters/c-1", "REVG", False),
        (SERVER, "QUJD", "https://rancher.example", "", False),
        (SERVER, "QUJD", SERVER, "REVG", True),
        ("", "QUJD", SERVER, "REVG", False),
        ("", "QUJD", SERVER, "", True),
        ("", "", SERVER, "REVG", True),
        ("https://plant.example:port", "", SERVER, "", False),
    ],
    ids=[
        "spelling",
        "port",
        "gateway",
        "other gateway",
        "unknown CA",
        "new CA",
        "CA only",
        "can't be told",
        "nothing known",
        "no port",
    ],
)
def test_the_cluster_of_a_machine(api_server: str, trusted: str, server: str, ca: str, same: bool) -> None:
    digests = tuple(fingerprints((pem("R0hJ") + pem(trusted)).encode())) if trusted else ()
    target = Target("edge-1", api_server=api_server, ca_sha256=digests)
    access = Access(server, pem(ca) if ca else "")
    assert is_cluster_of(target, access) is same
    if same:
        require_cluster(target, access)
        return
    with pytest.raises(OtherCluster, match="this cluster has no Node edge-1") as raised:
        require_cluster(target, access, otherwise="kubectl delete node edge-1")
    assert server in str(raised.value)
    assert (api_server or "another CA") in raised.value.why
    assert raised.value.fix.endswith("or type there: kubectl delete node edge-1")
