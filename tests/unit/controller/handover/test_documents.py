# SPDX-License-Identifier: GPL-3.0-or-later
"""How each machine gets the configuration that was resolved on the controller."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.documents import (
    handovers,
    on_their_own,
    taken_names,
    with_clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    Machine,
    machine_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.table import table
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.document import read
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED

PLANT = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"


def machine(name: str, source: str = "cluster", **document: Any) -> Machine:
    return Machine(name, source, name, PLANT, document)


def test_settings_of_a_node_go_over_those_of_its_cluster_whatever_the_case_of_the_id() -> None:
    of_cluster = {"kubernetes": {"version": "1.34.4"}, "node": {"maxPods": 110}}
    cluster = {"id": PLANT.upper(), "document": of_cluster}
    found = with_clusters([machine("a", node={"maxPods": 50})], [cluster], [])
    assert found["a"] == {"kubernetes": {"version": "1.34.4"}, "node": {"maxPods": 50}}


@pytest.mark.parametrize("source", ["rp", "cluster", "blob"])
def test_a_machine_can_be_checked_before_its_source_is_asked(source: str) -> None:
    """Whatever the inventory says; what only the source knows is left out."""
    follows = {"continuousMonitoring": True, "azure": {"arc": {"enabled": True}}, "cni": {"mode": "none"}}
    found = on_their_own([machine("a", source, **follows), machine("b", source)])
    for host in ("a", "b"):
        assert (found[host]["source"], found[host]["purpose"]) == ("inline", "prepare")
        read_ = read(Host(), found[host]["document"], pollable=False, purpose="prepare")
        assert read_.config is not None
        assert read_.findings == ()
        assert "kube-proxy" in found[host]["placeholders"]  # needs a name that only the source knows
    pinned = on_their_own([machine("c", source, kubernetes={"version": "1.34.4"})])
    assert pinned["c"]["document"]["kubernetes"]["version"] == "1.34.4"


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ({"name": "a", "joined": False, "token": "abcdef.0123456789abcdef"}, "abcdef.0123456789abcdef"),
        ({"name": "a", "joined": True}, REDACTED),
    ],
    ids=["created", "joined: it has its own"],
)
def test_a_token_is_only_for_a_machine_that_has_not_joined(answer: dict[str, Any], token: str) -> None:
    found = with_clusters([machine("a")], [], [answer])
    assert found["a"]["azure"]["bootstrapToken"]["token"] == token


def test_a_machine_with_an_identity_gets_no_token() -> None:
    found = with_clusters(
        [machine("a", azure={"arc": {"enabled": True}})], [], [{"name": "a", "joined": True}]
    )
    assert "bootstrapToken" not in found["a"]["azure"]


def test_a_token_of_the_inventory_takes_precedence() -> None:
    own = machine("a", azure={"bootstrapToken": {"token": "own000.0123456789abcdef"}})
    found = with_clusters([own], [], [{"name": "a", "token": "abcdef.0123456789abcdef"}])
    assert found["a"]["azure"]["bootstrapToken"]["token"] == "own000.0123456789abcdef"


def test_every_source_hands_over_in_its_way() -> None:
    names = ("new", "old", "checked", "to-be")
    blobs = ("third", "fourth", "fifth")
    found = handovers(
        [
            *(machine(name, "rp") for name in names),
            machine("second"),
            *(machine(name, "blob") for name in blobs),
            Machine("by-url", "url", url="https://z/1", durable=True, document={"proxy": None}),
            Machine("plain", document={"node": {"maxPods": 5}}),
        ],
        documents={"second": {"kubernetes": {"version": "1.34.4"}}},
        configs=[
            {"name": "new", "config_url": "https://x/1"},
            {"name": "old", "config_url": ""},
            {"name": "checked", "config_url": REDACTED, "joined": True},
            {"name": "to-be", "config_url": REDACTED, "joined": False},
        ],
        blobs=[
            {"name": "third", "url": "https://y/1"},
            {"name": "fourth", "url": REDACTED},
            {"name": "fifth", "url": REDACTED},
        ],
        tokens=[{"name": "fourth", "joined": False}, {"name": "fifth", "joined": True}],
    )
    shown = {host: (one["source"], one["url"], one["durable"]) for host, one in found.items()}
    assert shown == {
        "new": ("url", "https://x/1", False),
        "old": ("stored", "", False),
        "checked": ("stored", "", False),
        "to-be": ("pending", "", False),
        "second": ("inline", "", False),
        "third": ("url", "https://y/1", True),
        "fourth": ("pending", "", True),
        "fifth": ("stored", "", True),
        "by-url": ("url", "https://z/1", True),
        "plain": ("inline", "", False),
    }
    assert found["second"]["document"] == {"kubernetes": {"version": "1.34.4"}}
    assert found["third"]["document"] == {}, "the blob holds all of it"
    assert found["by-url"]["document"] == {"proxy": None}
    assert found["plain"]["document"] == {"node": {"maxPods": 5}}


def test_a_table_lines_up_and_shows_what_is_not_known() -> None:
    rows = [
        {"name": "edge-1", "provisioning_state": "Succeeded", "ready": True, "config_version": "17"},
        {"name": "a-long-name", "provisioning_state": "Succeeded", "ready": False},
    ]
    assert table(rows) == [
        "NODE         STATE      READY  VERSION  APPLIED  LAST SEEN  LEFTOVERS  REASON  MESSAGE",
        "edge-1       Succeeded  yes    17       -        -          -          -       -",
        "a-long-name  Succeeded  no     -        -        -          -          -       -",
    ]


def test_a_column_may_lie_deeper_and_say_what_its_absence_means() -> None:
    rows = [{"host": "a", "status": {"node": {"name": "n"}, "drift": ["x", "y"]}}, {"host": "b"}]
    columns = [["HOST", "host"], ["NODE", "status.node.name", "not reachable"], ["DRIFT", "status.drift"]]
    assert table(rows, columns) == [
        "HOST  NODE           DRIFT",
        "a     n              x, y",
        "b     not reachable  -",
    ]


def test_nodes_of_one_name_in_two_clusters_get_their_own() -> None:
    """Each machine joined the cluster of the other when answers were found by name alone."""
    east, west = PLANT, f"{PLANT}-2"
    machines = [Machine("east", "rp", "edge-1", east), Machine("west", "rp", "edge-1", west)]
    answers = [
        {"name": "edge-1", "cluster_id": east, "config_url": "https://x/east"},
        {"name": "edge-1", "cluster_id": west.upper(), "config_url": "https://x/west"},
    ]
    found = handovers(machines, documents={}, configs=answers)
    assert {host: one["url"] for host, one in found.items()} == {
        "east": "https://x/east",
        "west": "https://x/west",
    }
    joining = [Machine("east", "cluster", "edge-1", east), Machine("west", "cluster", "edge-1", west)]
    tokens = [
        {"name": "edge-1", "cluster_id": east, "token": "easttt.0123456789abcdef"},
        {"name": "edge-1", "cluster_id": west, "token": "westtt.0123456789abcdef"},
    ]
    documents = with_clusters(joining, [], tokens)
    assert documents["east"]["azure"]["bootstrapToken"]["token"].startswith("easttt")
    assert documents["west"]["azure"]["bootstrapToken"]["token"].startswith("westtt")


@pytest.mark.parametrize(
    ("enabled", "uses"), [(True, True), ("true", True), (False, False), ("false", False), ("False", False)]
)
def test_the_vpn_is_brought_up_where_the_node_has_one(enabled: bool | str, uses: bool) -> None:
    variables = {"flexnode_config": {"azure": {"vpn": {"enabled": enabled}}}}
    found = handovers([machine_of("a", variables, lambda _path: {})], documents={})
    assert found["a"]["vpn"] is uses


@pytest.mark.parametrize("document", [{"azure": "x"}, {"azure": {"vpn": ["x"]}}, {"node": ["x"]}], ids=str)
def test_a_part_of_the_wrong_shape_is_no_traceback(document: dict[str, Any]) -> None:
    """The inventory's checks name it; this is all that is left of it."""
    assert handovers([Machine("a", document=document)], documents={})["a"]["vpn"] is False


@pytest.mark.parametrize("source", ["cluster", "blob", "rp"])
def test_a_name_is_taken_if_its_node_is_ready_without_this_machine(source: str) -> None:
    machines = [
        *(machine(name, source) for name in ("a", "b", "c")),
        machine("arc", source, azure={"arc": {"enabled": True}}),
    ]
    ready = {"action": "refused"} if source == "rp" else {"joined": True}
    answers = [{"name": name, **ready} for name in ("a", "b", "arc")] + [{"name": "c", "joined": False}]
    taken = taken_names(machines, answers, {"a", "c", "arc"})
    assert list(taken) == ["a"]
    assert "Node a is Ready, and this machine has not joined. Set another name" in taken["a"]
    assert "kubectl delete node a. Then run this again" in taken["a"]
    assert taken_names(machines, answers, ()) == {}
