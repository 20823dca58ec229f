# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller knows of a fleet: one list in, one answer a machine out."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.fleet import (
    handed_over,
    node_documents,
    table,
    with_clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED

PLANT = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
HOSTVARS: dict[str, dict[str, Any]] = {
    "edge-1": {
        "flexnode_config_source": "rp",
        "flexnode_cluster_id": PLANT,
        "flexnode_config": {"node": {"labels": {"site": "a", "rack": "1"}}},
        "flexnode_host_config": {"node": {"labels": {"site": "b"}}},
    },
    "edge-2": {
        "flexnode_config_source": "cluster",
        "flexnode_config": {
            "agent": {"nodeName": "second"},
            "azure": {"targetCluster": {"resourceId": PLANT}},
        },
    },
    "edge-3": {},
}


def test_a_host_has_its_own_settings_over_those_of_its_group() -> None:
    (node,) = node_documents(HOSTVARS, HOSTVARS, ["rp"])
    assert node == {
        "name": "edge-1",
        "cluster_id": PLANT,
        "document": {
            "node": {"labels": {"site": "b", "rack": "1"}},
            "agent": {"nodeName": "edge-1"},
        },
    }


def test_the_name_and_the_cluster_may_come_from_the_configuration() -> None:
    nodes = node_documents(HOSTVARS, HOSTVARS, ["cluster"], documents=False)
    assert nodes == [{"name": "second", "cluster_id": PLANT}]


def test_a_host_without_a_source_is_inline_and_without_a_filter_all_count() -> None:
    assert [node["name"] for node in node_documents(HOSTVARS, HOSTVARS, ["inline"])] == ["edge-3"]
    assert len(node_documents(HOSTVARS, HOSTVARS)) == 3


ARC = {"arc": {"enabled": True}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, True),
        ({"azure": ARC}, False),
        ({"azure": {"arc": {"enabled": False}}}, True),
        ({"azure": {"servicePrincipal": {"clientId": "c"}}}, False),
        ({"azure": {"managedIdentity": {}}}, False),  # the system-assigned one
        ({"azure": ARC, "kubernetesAuth": {"method": "bootstrapToken"}}, True),
        ({"azure": ARC, "kubernetesAuth": {"useAzureAuth": False}}, True),
        ({"kubernetesAuth": {"method": "arc"}}, False),
        ({"kubernetesAuth": {"useAzureAuth": True}}, False),
        ({"azure": ARC, "kubernetesAuth": {"profile": "token"}}, False),
        ({"azureAuth": {"method": "managedIdentity"}}, False),
        ({"azure": {"managedIdentity": None}}, True),
        ({"azure": {**ARC, "managedIdentity": {}}}, False),  # one of them has to be chosen
    ],
)
def test_who_brings_an_identity_needs_no_token(document: dict[str, Any], expected: bool) -> None:
    hostvars = {"a": {"flexnode_config_source": "cluster", "flexnode_config": document}}
    found = node_documents(hostvars, hostvars, ["cluster"], documents=False, tokens=True)
    assert [node["token"] for node in found] == [expected]
    assert set(found[0]) == {"name", "cluster_id", "token"}
    (whole,) = node_documents(hostvars, hostvars, ["cluster"])
    (answered,) = with_clusters([whole], [], [{"name": "a", "joined": True}])
    assert ("bootstrapToken" in answered["document"].get("azure", {})) == expected


@pytest.mark.parametrize("other", ["rp", "cluster", "blob"])
def test_hosts_that_would_be_the_same_node_are_refused(other: str) -> None:
    shared = {"agent": {"nodeName": "twin"}}
    hostvars: dict[str, dict[str, Any]] = {
        "a": {"flexnode_config_source": "rp", "flexnode_cluster_id": PLANT, "flexnode_config": shared},
        "b": {"flexnode_config_source": other, "flexnode_config": shared},
        "c": {"flexnode_config_source": "inline", "flexnode_config": shared},
    }
    with pytest.raises(ValueError, match="several hosts of this run are Node twin: give each an agent"):
        node_documents(hostvars, hostvars, ["rp"])
    assert len(node_documents(["a", "c"], hostvars, ["rp"])) == 1, "what is resolved elsewhere is no matter"


@pytest.mark.parametrize("source", ["rp", "blob"])
def test_a_file_that_would_not_count_is_refused(source: str) -> None:
    hostvars = {"a": {"flexnode_config_source": source, "flexnode_config_file": "node.yml"}}
    with pytest.raises(ValueError, match="a: flexnode_config_file is not read"):
        node_documents(hostvars, hostvars)


def node(name: str, **document: Any) -> dict[str, Any]:
    return {"name": name, "cluster_id": PLANT, "document": document}


def test_settings_of_a_node_go_over_those_of_its_cluster_whatever_the_case_of_the_id() -> None:
    said = {"kubernetes": {"version": "1.34.4"}, "node": {"maxPods": 110}}
    cluster = {"id": PLANT.upper(), "document": said}
    (found,) = with_clusters([node("a", node={"maxPods": 50})], [cluster], [])
    assert found["document"] == {"kubernetes": {"version": "1.34.4"}, "node": {"maxPods": 50}}


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ({"name": "a", "joined": False, "token": "abcdef.0123456789abcdef"}, "abcdef.0123456789abcdef"),
        ({"name": "a", "joined": True}, REDACTED),
    ],
    ids=["minted", "joined: it has its own"],
)
def test_a_token_is_minted_only_for_who_has_not_joined(answer: dict[str, Any], token: str) -> None:
    (found,) = with_clusters([node("a")], [], [answer])
    assert found["document"]["azure"]["bootstrapToken"]["token"] == token


def test_a_token_of_the_users_own_counts() -> None:
    own = node("a", azure={"bootstrapToken": {"token": "own000.0123456789abcdef"}})
    (found,) = with_clusters([own], [], [{"name": "a", "token": "abcdef.0123456789abcdef"}])
    assert found["document"]["azure"]["bootstrapToken"]["token"] == "own000.0123456789abcdef"


def test_every_source_hands_over_in_its_way() -> None:
    handed = handed_over(
        [
            {"name": "new", "config_url": "https://x/1"},
            {"name": "old", "config_url": ""},
            {"name": "checked", "config_url": REDACTED, "joined": True},
            {"name": "to-be", "config_url": REDACTED, "joined": False},
        ],
        [node("second", kubernetes={"version": "1.34.4"})],
        [
            {"name": "third", "url": "https://y/1"},
            {"name": "fourth", "url": REDACTED},
            {"name": "fifth", "url": REDACTED},
        ],
        [{"name": "fourth", "joined": False}, {"name": "fifth", "joined": True}],
    )
    assert handed == {
        "new": {"source": "url", "url": "https://x/1"},
        "old": {"source": "stored"},
        "checked": {"source": "stored"},
        "to-be": {"source": "pending"},
        "second": {"source": "inline", "document": {"kubernetes": {"version": "1.34.4"}}},
        "third": {"source": "url", "url": "https://y/1", "durable": True},
        "fourth": {"source": "pending", "durable": True},
        "fifth": {"source": "stored", "durable": True},
    }


def test_a_table_lines_up_and_shows_what_is_not_known() -> None:
    rows = [
        {"name": "edge-1", "provisioning_state": "Succeeded", "ready": True, "config_version": "17"},
        {"name": "a-long-name", "provisioning_state": "Succeeded", "ready": False},
    ]
    assert table(rows) == [
        "NODE         STATE      READY  VERSION  APPLIED  LAST SEEN  REASON",
        "edge-1       Succeeded  yes    17       -        -          -",
        "a-long-name  Succeeded  no     -        -        -          -",
    ]
