# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_config, flexnode_config_info and flexnode_token against the emulated Azure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from testbed import Testbed
from testbed.azure import Fault
from tests.contract.modules.conftest import Person

PLANTED = "Pl4nted-node-s3cret"
PRINCIPAL = {
    "clientId": "11111111-2222-3333-4444-555555555555",
    "clientSecret": PLANTED,
    "clientTenant": "66666666-7777-4888-9999-aaaaaaaaaaaa",
}
DOCUMENT: dict[str, Any] = {
    "azure": {"servicePrincipal": PRINCIPAL},
    "node": {"labels": {"site": "lab"}, "taints": ["edge=yes:NoSchedule"], "maxPods": 50},
}
TEN = [{"name": f"edge-{n}", "document": DOCUMENT} for n in range(10)]


def calls(bed: Testbed, method: str, pattern: str) -> int:
    return sum(
        one.method == method and bool(re.search(pattern, one.path, re.IGNORECASE))
        for one in bed.azure.requests()
    )


def present(person: Person, nodes: Any = TEN, **more: Any) -> dict[str, Any]:
    return person.do("flexnode_config", cluster_id=person.bed.azure.cluster_id, nodes=nodes, **more)


def test_ten_nodes_cost_one_login_one_list_and_a_write_each(bed: Testbed, contributor: Person) -> None:
    bed.azure.forget_requests()
    first = present(contributor)
    assert {node["action"] for node in first["nodes"]} == {"created"}
    assert len({node["config_url"] for node in first["nodes"]}) == 10
    counted = [
        calls(bed, "POST", "/token$"),
        calls(bed, "GET", "/flexNodeConfig$"),
        calls(bed, "GET", "/flexNodeConfig/"),
        calls(bed, "PUT", "/flexNodeConfig/"),
    ]
    assert counted == [1, 1, 0, 10]


def test_a_second_run_writes_nothing(bed: Testbed, contributor: Person) -> None:
    present(contributor, TEN[:3])
    bed.azure.forget_requests()
    again = present(contributor, TEN[:3], need_url=False)
    assert (again["changed"], {node["action"] for node in again["nodes"]}) == (False, {"unchanged"})
    assert calls(bed, "PUT", "") + calls(bed, "POST", "regenerate") == 0
    # Not joined, and an address is needed: a new one, but no write.
    renewed = present(contributor, TEN[:3])
    assert {node["action"] for node in renewed["nodes"]} == {"regenerated"}
    assert (calls(bed, "PUT", ""), calls(bed, "POST", "regenerateToken$")) == (0, 3)


def test_check_mode_asks_for_no_change(bed: Testbed, contributor: Person) -> None:
    bed.azure.forget_requests()
    planned = present(contributor, TEN[:2], check=True)
    assert {node["config_url"] for node in planned["nodes"]} == {"<minted at apply>"}
    assert {one.method for one in bed.azure.requests() if "flexnodeconfig" in one.path.lower()} == {"GET"}
    assert PLANTED not in str(planned)


def test_a_change_is_named_and_written(bed: Testbed, contributor: Person) -> None:
    present(contributor, TEN[:1])
    other = [{"name": "edge-0", "document": {**DOCUMENT, "node": {"labels": {"site": "plant"}}}}]
    (node,) = present(contributor, other)["nodes"]
    assert (node["action"], node["reasons"]) == ("updated", ["nodeConfig.labels", "nodeConfig.taints"])
    told = contributor.do("flexnode_config_info", cluster_id=bed.azure.cluster_id, names=["edge-0"])
    assert told["nodes"][0]["config"]["node"]["labels"] == {"site": "plant"}
    assert PLANTED not in str(told)


def test_a_list_of_many_pages(bed: Testbed, contributor: Person) -> None:
    present(contributor, TEN[:5])
    bed.azure.settings(page_size=2)
    told = contributor.do("flexnode_config_info", cluster_id=bed.azure.cluster_id)
    assert [node["name"] for node in told["nodes"]] == [f"edge-{n}" for n in range(5)]


def test_long_running_operations_are_followed(bed: Testbed, contributor: Person) -> None:
    bed.azure.settings(operation_seconds=1)
    (node,) = present(contributor, TEN[:1], poll_interval=1)["nodes"]
    assert node["config_url"].startswith("https://")
    ids: dict[str, Any] = {"cluster_id": bed.azure.cluster_id, "poll_interval": 1}
    (issued,) = contributor.do("flexnode_token", names=["edge-0"], **ids)["nodes"]
    assert issued["config_url"] != node["config_url"]
    gone = contributor.do("flexnode_config", nodes=[{"name": "edge-0"}], state="absent", **ids)
    assert gone["nodes"][0]["action"] == "deleted"
    assert contributor.do("flexnode_config_info", **ids)["nodes"] == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(path="flexNodeConfig", status=429, retry_after=2, times=3), id="429"),
        pytest.param(Fault(path="flexNodeConfig", status=503, times=3), id="503"),
        pytest.param(Fault(path="flexNodeConfig", method="PUT", drop=True, times=2), id="dropped"),
        pytest.param(Fault(path="flexNodeConfig", method="PUT", lose_answer=True, times=1), id="answer-lost"),
        pytest.param(Fault(path="/token", status=503, times=2), id="sign-in"),
    ],
)
def test_bad_days_of_azure_are_survived(bed: Testbed, contributor: Person, fault: Fault) -> None:
    bed.azure.forget_requests()
    bed.azure.fail(fault)
    assert len(present(contributor, TEN[:4])["nodes"]) == 4
    refused = [one for one in bed.azure.requests() if one.status == 429]
    for one in refused:
        following = [
            later.time
            for later in bed.azure.requests()
            if later.time > one.time and (later.method, later.path) == (one.method, one.path)
        ]
        assert min(following) - one.time >= 2, "Retry-After was not obeyed"


def test_a_missing_permission_says_who_what_where_and_how(
    bed: Testbed, person: Callable[..., Person]
) -> None:
    reader = person("Reader")
    answer = reader.run("flexnode_config", cluster_id=bed.azure.cluster_id, nodes=TEN[:2])
    message, principal = answer["msg"], reader.principal
    assert answer["error"]["code"] == "FLEX-1702"
    assert principal.object_id in message
    assert principal.client_id in message
    assert "Microsoft.ContainerService/managedClusters/flexNodeConfig/write" in message
    role = re.search('--role "([^"]+)"', message)
    assert role
    assert f"--scope {bed.azure.cluster_id}" in message
    # What the message says to do is enough.
    bed.azure.grant(principal, role[1])
    assert reader.do("flexnode_config", cluster_id=bed.azure.cluster_id, nodes=TEN[:2])["changed"]
    reader.do("flexnode_config", cluster_id=bed.azure.cluster_id, nodes=TEN[:2], state="absent")


def test_a_cluster_that_does_not_exist(bed: Testbed, contributor: Person) -> None:
    bed.azure.grant(contributor.principal, "Contributor", f"/subscriptions/{bed.azure.subscription_id}")
    nowhere = bed.azure.cluster_id.replace("managedClusters/testbed", "managedClusters/nowhere")
    assert contributor.run("flexnode_config_info", cluster_id=nowhere)["error"]["code"] == "FLEX-1703"


@pytest.mark.exhaustive  # Ansible itself; test_cluster.py keeps one of these in make test
def test_a_secret_is_nowhere_even_at_the_highest_verbosity(bed: Testbed, contributor: Person) -> None:
    given = {"cluster_id": bed.azure.cluster_id, "nodes": TEN[:1], "update_secret": "always"}
    shown = contributor.ansible("flexnode_config", given, "-vvvv", "--diff")
    assert '"changed": true' in shown
    assert "sig=" not in shown, "the result holds the URL, so that no output shows it"
    assert [secret for secret in (PLANTED, contributor.principal.secret) if secret in shown] == []
