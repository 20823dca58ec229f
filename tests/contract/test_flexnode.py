# SPDX-License-Identifier: GPL-3.0-or-later
"""flexNodeConfig: the contract of the resource provider."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError

from testbed import Testbed
from testbed.azure import Azure
from testbed.basics.clock import wait_for
from tests.contract.conftest import Worker
from tests.contract.sdk import Sdk, code

SECRET = "a-secret-nobody-may-see"
PRINCIPAL = {
    "clientId": "12345678-1234-4234-8234-123456789012",
    "clientSecret": SECRET,
    "clientTenant": "12345678-1234-4234-8234-123456789013",
}
PROPERTIES = {
    "continuousMonitoring": True,
    "azureAuth": {"method": "servicePrincipal", "servicePrincipal": PRINCIPAL},
    "versions": {"kubernetes": "1.34.4", "containerd": "2.3.4"},
    "nodeConfig": {"maxPods": 50, "labels": {"site": "lab-1"}, "taints": ["edge=true:NoSchedule"]},
}


@pytest.fixture
def clients(sdk: Worker, azure: Azure) -> Any:
    """A contributor, in a cluster without nodes of ours."""
    made = sdk("Contributor")
    for page in made.pages(made.node()):
        for one in page:
            if one["name"].startswith("contract-"):
                made.send("DELETE", one["id"])
    return made


def fetch(bed: Testbed, url: str, **headers: str) -> requests.Response:
    """What a machine does with a configUrl."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, headers=headers, verify=str(bed.ca_file), timeout=10)


def tokens(bed: Testbed) -> set[str]:
    """The bootstrap tokens of the cluster, by id."""
    path = "/api/v1/namespaces/kube-system/secrets"
    items = bed.cluster.api().get(path, fieldSelector="type=bootstrap.kubernetes.io/token")["items"]
    return {item["metadata"]["name"].removeprefix("bootstrap-token-") for item in items}


def token_of(bundle: requests.Response) -> str:
    """The id of the token in a bundle."""
    return str(bundle.json()["config"]["azure"]["bootstrapToken"]["token"]).partition(".")[0]


def test_put_creates_then_replaces(bed: Testbed, clients: Sdk) -> None:
    first = clients.put("contract-1", PROPERTIES, configUrl="true")
    assert first.status_code == 201
    body = first.json()
    assert body["name"] == "contract-1"
    assert body["id"] == clients.node("contract-1")
    assert body["properties"]["provisioningState"] == "Succeeded"
    assert body["properties"]["nodeConfig"] == PROPERTIES["nodeConfig"]
    second = clients.put("contract-1", PROPERTIES, configUrl="true")
    assert second.status_code == 200
    versions = [int(answer.json()["properties"]["configVersion"]) for answer in (first, second)]
    assert versions[0] < versions[1]
    assert versions[0] == pytest.approx(datetime.datetime.now().timestamp(), abs=60)
    assert fetch(bed, body["properties"]["configUrl"]).status_code == 403, "each PUT makes a fresh URL"
    assert fetch(bed, second.json()["properties"]["configUrl"]).status_code == 200


def test_the_url_is_told_to_who_asks_for_it(clients: Sdk) -> None:
    assert "configUrl" not in clients.put("contract-1").json()["properties"]


def test_the_bundle_is_a_whole_configuration(bed: Testbed, azure: Azure, clients: Sdk) -> None:
    answer = clients.put("contract-1", PROPERTIES, configUrl="true").json()["properties"]
    bundle = fetch(bed, answer["configUrl"]).json()
    assert bundle["configVersion"] == answer["configVersion"]
    config = bundle["config"]
    assert config["azure"]["targetCluster"]["resourceId"] == azure.cluster_id
    assert config["azure"]["servicePrincipal"] == PRINCIPAL
    assert config["kubernetes"] == {"version": "1.34.4"}
    assert config["containerd"] == {"version": "2.3.4"}
    assert config["node"]["maxPods"] == 50
    assert config["node"]["kubelet"]["serverURL"] == bed.cluster.server
    assert config["agent"] == {"nodeName": "contract-1"}


def test_the_token_is_real_and_lives_for_a_day(bed: Testbed, clients: Sdk) -> None:
    answer = clients.put("contract-1", configUrl="true").json()["properties"]
    bundle = fetch(bed, answer["configUrl"])
    assert token_of(bundle) in tokens(bed)
    token = bundle.json()["config"]["azure"]["bootstrapToken"]["token"]
    assert bed.cluster.whoami(token) == f"system:bootstrap:{token_of(bundle)}"
    expires = datetime.datetime.strptime(answer["configUrlExpires"], "%Y-%m-%dT%H:%M:%SZ")
    left = expires.replace(tzinfo=datetime.timezone.utc) - datetime.datetime.now(datetime.timezone.utc)
    assert left.total_seconds() == pytest.approx(86400, abs=60)


def test_etags_spare_a_machine_the_download(bed: Testbed, clients: Sdk) -> None:
    url = clients.put("contract-1", configUrl="true").json()["properties"]["configUrl"]
    first = fetch(bed, url)
    assert fetch(bed, url, **{"If-None-Match": first.headers["ETag"]}).status_code == 304


def test_no_answer_shows_a_secret(bed: Testbed, clients: Sdk) -> None:
    put = clients.put("contract-1", PROPERTIES, configUrl="true")
    bundle = fetch(bed, put.json()["properties"]["configUrl"])
    token = bundle.json()["config"]["azure"]["bootstrapToken"]["token"]
    answers = [put.text(), clients.send("GET", clients.node("contract-1")).text()]
    answers += [json.dumps(page) for page in clients.pages(clients.node())]
    for text in answers:
        assert SECRET not in text
        assert token not in text
        assert PRINCIPAL["clientId"] in text


def test_get_shows_configuration_and_status(bed: Testbed, clients: Sdk) -> None:
    clients.put("contract-1", PROPERTIES)
    found = clients.send("GET", clients.node("contract-1")).json()["properties"]
    assert found["config"]["node"]["kubelet"]["serverURL"] == bed.cluster.server
    assert found["config"]["node"]["labels"] == {"site": "lab-1"}
    (ready,) = found["status"]["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "NotJoined")


def test_status_is_what_the_node_says(bed: Testbed, clients: Sdk) -> None:
    clients.put("contract-9")
    api = bed.cluster.api()
    annotations = {
        "flexnode.aks.azure.com/applied-config-version": "1708123456",
        "flexnode.aks.azure.com/last-config-applied": "2026-11-15T07:00:00Z",
        "flexnode.aks.azure.com/status": json.dumps({"reason": "Drift", "message": "1 item", "drift": 1}),
    }
    api.post("/api/v1/nodes", {"metadata": {"name": "contract-9", "annotations": annotations}})
    try:
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": "2026-11-15T07:01:00Z",
            "lastTransitionTime": "2026-11-15T07:00:30Z",
        }
        status = {"conditions": [condition], "nodeInfo": {"kubeletVersion": "v1.34.4"}}
        api.patch("/api/v1/nodes/contract-9/status", {"status": status})

        def seen() -> dict[str, Any]:
            found: dict[str, Any] = clients.send("GET", clients.node("contract-9")).json()["properties"][
                "status"
            ]
            return found

        wait_for("the status", lambda: "lastSeen" in seen(), 5)
        found = seen()
        assert found["conditions"][0]["status"] == "True"
        assert found["appliedConfigVersion"] == "1708123456"
        assert found["lastConfigApplied"] == "2026-11-15T07:00:00Z"
        assert found["lastSeen"] == "2026-11-15T07:01:00Z"
        assert found["kubeletVersion"] == "v1.34.4"
        assert (found["reason"], found["message"], found["drift"]) == ("Drift", "1 item", 1)
        listed = [
            one for page in clients.pages(clients.node()) for one in page if one["name"] == "contract-9"
        ]
        assert [one["properties"]["status"] for one in listed] == [found]
    finally:
        api.delete("/api/v1/nodes/contract-9")


def test_a_list_comes_in_pages(azure: Azure, clients: Sdk) -> None:
    azure.settings(page_size=2)
    for number in range(5):
        clients.put(f"contract-{number}")
    pages = [[one["name"] for one in page] for page in clients.pages(clients.node())]
    assert len(pages) >= 3
    assert {len(page) for page in pages[:-1]} == {2}
    found = [name for page in pages for name in page if name.startswith("contract-")]
    assert found == [f"contract-{number}" for number in range(5)]


def test_regenerate_makes_a_new_url_and_kills_the_old(bed: Testbed, clients: Sdk) -> None:
    put = clients.put("contract-1", PROPERTIES, configUrl="true").json()["properties"]
    old = token_of(fetch(bed, put["configUrl"]))
    answer = clients.send("POST", f"{clients.node('contract-1')}/regenerateToken", {}).json()
    assert set(answer) == {"configVersion", "configUrl", "configUrlExpires"}
    assert int(answer["configVersion"]) > int(put["configVersion"])
    fresh = fetch(bed, answer["configUrl"])
    assert fresh.json()["config"]["azure"]["servicePrincipal"] == PRINCIPAL
    assert fetch(bed, put["configUrl"]).status_code == 403
    assert old not in tokens(bed)
    assert token_of(fresh) in tokens(bed)


def test_delete_revokes_and_says_so(bed: Testbed, clients: Sdk) -> None:
    url = clients.put("contract-1", configUrl="true").json()["properties"]["configUrl"]
    token = token_of(fetch(bed, url))
    answer = clients.send("DELETE", clients.node("contract-1"))
    assert answer.status_code == 200
    assert answer.json()["status"] == "Deleted"
    assert set(answer.json()["cleanup"].values()) == {True}
    assert fetch(bed, url).status_code == 403
    assert token not in tokens(bed)
    assert clients.send("DELETE", clients.node("contract-1")).status_code == 204


def test_what_does_not_exist(azure: Azure, clients: Sdk) -> None:
    for method, path in (("GET", clients.node("none")), ("POST", f"{clients.node('none')}/regenerateToken")):
        with pytest.raises(HttpResponseError) as caught:
            clients.send(method, path)
        assert (caught.value.status_code, code(caught.value)) == (404, "ResourceNotFound")


def test_a_node_of_no_cluster(azure: Azure, sdk: Worker) -> None:
    clients = sdk("Contributor", scope=f"/subscriptions/{azure.subscription_id}")
    with pytest.raises(HttpResponseError) as caught:
        clients.send("GET", clients.node("contract-1", f"{azure.cluster_id}-2"))
    assert (caught.value.status_code, code(caught.value)) == (404, "ResourceNotFound")


def test_ids_are_the_same_in_small_and_capital_letters(clients: Sdk) -> None:
    clients.put("contract-1")
    path = (
        clients.node("CONTRACT-1")
        .replace("resourceGroups", "resourcegroups")
        .replace("flexNodeConfig", "FLEXNODECONFIG")
    )
    assert clients.send("GET", path).json()["name"] == "contract-1"


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        ({"nodeConfig": {"maxpods": 3}}, "maxpods"),
        ({"azureAuth": {"method": "password"}}, "azureAuth.method"),
        (
            {"azureAuth": {"method": "servicePrincipal", "servicePrincipal": {"clientId": "x"}}},
            "clientSecret",
        ),
        ({"continuousMonitoring": True}, "azureAuth.method"),
        ({"kubernetesAuth": {"useAzureAuth": True}}, "azureAuth.method"),
        ({"versions": "1.34"}, "versions"),
    ],
)
def test_properties_that_are_not_right(clients: Sdk, properties: Any, names: str) -> None:
    with pytest.raises(HttpResponseError, match=names) as caught:
        clients.put("contract-1", properties)
    assert (caught.value.status_code, code(caught.value)) == (400, "InvalidRequestContent")


def test_a_name_that_is_none(clients: Sdk) -> None:
    with pytest.raises(HttpResponseError, match="InvalidResourceName"):
        clients.put("edge_1")


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", "", "flexNodeConfig/read"),
        ("GET", "/contract-1", "flexNodeConfig/read"),
        ("PUT", "/contract-1", "flexNodeConfig/write"),
        ("DELETE", "/contract-1", "flexNodeConfig/delete"),
        ("POST", "/contract-1/regenerateToken", "flexNodeConfig/regenerateToken/action"),
    ],
)
def test_every_call_needs_its_right(sdk: Worker, method: str, path: str, action: str) -> None:
    clients = sdk()
    with pytest.raises(HttpResponseError, match=f"managedClusters/{action}'") as caught:
        clients.send(method, f"{clients.node()}{path}", {})
    assert caught.value.status_code == 403


def settled(clients: Sdk) -> bool:
    """Whether nothing is being done with the node any more."""
    found = clients.send("GET", clients.node("contract-1")).json()
    return bool(found["properties"]["provisioningState"] == "Succeeded")


def test_writes_that_take_their_time(bed: Testbed, azure: Azure, clients: Sdk) -> None:
    azure.settings(operation_seconds=5)
    first = clients.put("contract-1", configUrl="true")
    assert first.status_code == 201
    assert first.json()["properties"]["provisioningState"] == "Creating"
    assert first.headers["Azure-AsyncOperation"]
    assert "configUrl" not in first.json()["properties"]
    with pytest.raises(HttpResponseError, match="in progress") as caught:
        clients.put("contract-1")
    assert (caught.value.status_code, code(caught.value)) == (409, "OperationNotAllowed")
    wait_for("the end of the operation", lambda: settled(clients), 30)
    azure.settings(operation_seconds=0.5)
    done = clients.poll("PUT", clients.node("contract-1"), {"properties": {}})
    assert done.json()["properties"]["provisioningState"] == "Succeeded"
    again = clients.poll("POST", f"{clients.node('contract-1')}/regenerateToken", {})
    assert fetch(bed, again.json()["configUrl"]).status_code == 200
    clients.poll("DELETE", clients.node("contract-1"))
    with pytest.raises(HttpResponseError, match="ResourceNotFound"):
        clients.send("GET", clients.node("contract-1"))
