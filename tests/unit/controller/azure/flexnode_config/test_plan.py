# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A document as properties, and what is to be done about a node: tables of cases."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.plan import (
    Action,
    FlexNode,
    checked,
    decide,
    decide_absent,
    differences,
    has_secret,
    known_properties,
    properties_of,
    shown,
)
from tests.unit.controller.fake_azure import CLIENT, SECRET, TENANT, document_of

PRINCIPAL = {"clientId": CLIENT, "clientSecret": SECRET, "clientTenant": TENANT}
WHOLE: dict[str, Any] = {
    "continuousMonitoring": True,
    "azure": {"servicePrincipal": PRINCIPAL, "targetCluster": {"resourceId": "/ignored"}},
    "kubernetesAuth": {"useAzureAuth": True},
    "kubernetes": {"version": "1.34.4", "urlTemplate": "https://mirror.example/{version}"},
    "containerd": {"version": "2.2.9"},
    "runc": {"version": "1.4.3"},
    "cni": {"version": "1.9.1", "mode": "bridge"},
    "npd": {"version": "1.35.2"},
    "node": {
        "maxPods": 50,
        "labels": {"site": "lab-1"},
        "taints": [{"key": "gpu", "effect": "NoSchedule"}, "a=b:NoExecute"],
        "kubelet": {"verbosity": 3},
    },
    "proxy": {"https": "http://user:password@proxy.example"},
}


def test_a_whole_document() -> None:
    assert properties_of(WHOLE) == {
        "continuousMonitoring": True,
        "azureAuth": {"method": "servicePrincipal", "servicePrincipal": PRINCIPAL},
        "kubernetesAuth": {"useAzureAuth": True},
        "versions": {
            "kubernetes": "1.34.4",
            "containerd": "2.2.9",
            "runc": "1.4.3",
            "cni": "1.9.1",
            "npd": "1.35.2",
        },
        "nodeConfig": {
            "maxPods": 50,
            "labels": {"site": "lab-1"},
            "taints": ["gpu:NoSchedule", "a=b:NoExecute"],
            "kubelet": {"verbosity": 3},
        },
    }


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, {"continuousMonitoring": False}),
        ({"continuousMonitoring": "true"}, {"continuousMonitoring": True}),
        (
            {"azure": {"managedIdentity": {}}},
            {
                "continuousMonitoring": False,
                "azureAuth": {"method": "managedIdentity", "managedIdentity": {}},
            },
        ),
        (
            {"azure": {"arc": {"autoRegister": True}, "servicePrincipal": PRINCIPAL}},
            {
                "continuousMonitoring": False,
                "azureAuth": {"method": "arc", "arc": {"enabled": True}, "servicePrincipal": PRINCIPAL},
            },
        ),
        ({"azure": {"arc": {"enabled": False, "tags": {}}}}, {"continuousMonitoring": False}),
        (
            {"kubernetesAuth": {"method": "arc"}},
            {
                "continuousMonitoring": False,
                "azureAuth": {"method": "arc"},
                "kubernetesAuth": {"method": "arc"},
            },
        ),
        # A token is the provider's to make.
        (
            {"azure": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}},
            {"continuousMonitoring": False},
        ),
        ({"azure": None, "node": {"labels": None}}, {"continuousMonitoring": False}),
    ],
)
def test_parts_of_a_document(document: dict[str, Any], expected: dict[str, Any]) -> None:
    assert properties_of(document) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"kubernetes": {"version": "1.34.5"}}, ["versions.kubernetes"]),
        ({"kubernetes": {"version": "v1.34.4"}}, []),
        ({"node": {"maxPods": "50"}}, []),
        ({"node": {"maxPods": 51}}, ["nodeConfig.maxPods"]),
        ({"node": {"labels": {}}}, ["nodeConfig.labels"]),
        ({"node": {"labels": {"site": "lab-1", "more": "x"}}}, ["nodeConfig.labels"]),
        ({"node": {"taints": ["a=b:NoExecute", "gpu:NoSchedule"]}}, []),
        ({"node": {"taints": []}}, ["nodeConfig.taints"]),
        ({"node": {"kubelet": {"verbosity": 4}}}, ["nodeConfig.kubelet.verbosity"]),
        ({"continuousMonitoring": False}, ["continuousMonitoring"]),
        ({"azure": {"servicePrincipal": {**PRINCIPAL, "clientSecret": "other"}}}, []),
        (
            {"azure": {"servicePrincipal": {**PRINCIPAL, "clientId": TENANT}}},
            ["azureAuth.servicePrincipal.clientId"],
        ),
        ({"azure": {"servicePrincipal": {**PRINCIPAL, "clientId": CLIENT.upper()}}}, []),
    ],
)
@pytest.mark.parametrize("form", ["echoed", "config"])
def test_what_differs(form: str, change: dict[str, Any], expected: list[str]) -> None:
    stored = properties_of({key: value for key, value in WHOLE.items() if key not in ("runc", "cni", "npd")})
    told = {"properties": stored if form == "echoed" else {"config": document_of(stored)}}
    document = {key: value for key, value in WHOLE.items() if key not in ("runc", "cni", "npd")}
    for key, value in change.items():
        document[key] = {**document[key], **value} if isinstance(value, dict) else value
    known = known_properties(told)
    assert known is not None
    assert differences(properties_of(document), known) == expected


def test_labels_that_the_provider_added_are_no_difference() -> None:
    known = {"nodeConfig": {"labels": {"site": "lab", "kubernetes.azure.com/managed": "false"}}}
    assert differences({"nodeConfig": {"labels": {"site": "lab"}}}, known) == []
    assert differences({}, {"nodeConfig": {}}) == []


@pytest.mark.parametrize(
    ("node", "path"),
    [
        ({"labels": {"site": "lab"}}, "nodeConfig.labels"),
        ({"taints": ["a=b:NoExecute"]}, "nodeConfig.taints"),
    ],
)
def test_taking_the_last_label_or_taint_away_is_a_difference(node: dict[str, Any], path: str) -> None:
    known = known_properties({"properties": {"config": document_of({"nodeConfig": node})}})
    assert known is not None
    assert differences(properties_of({}), known) == [path]
    assert differences(properties_of({"node": node}), known) == []


WANTED = properties_of(WHOLE)
SAME = FlexNode("edge-1", "17", "Succeeded", True, WANTED)
NEW = FlexNode("edge-1", "17", "Succeeded", False, WANTED)
OTHER = FlexNode("edge-1", "17", "Succeeded", True, {**WANTED, "versions": {}})
FAILED = FlexNode("edge-1", "17", "Failed", True, WANTED)


@pytest.mark.parametrize(
    ("existing", "anyway", "need_url", "kind"),
    [
        (None, False, True, "created"),
        (None, False, False, "created"),
        (SAME, False, True, "unchanged"),
        (SAME, False, False, "unchanged"),
        (SAME, True, True, "updated"),
        (NEW, False, True, "regenerated"),
        (NEW, False, False, "unchanged"),
        (NEW, True, True, "updated"),
        (OTHER, False, True, "updated"),
        (FAILED, False, True, "updated"),
    ],
)
def test_what_is_to_be_done(existing: FlexNode | None, anyway: bool, need_url: bool, kind: str) -> None:
    assert decide(WANTED, existing, secret_anyway=anyway, need_url=need_url).kind == kind


READY = FlexNode("edge-1", "17", "Succeeded", True, WANTED, ready=True)
READY_OTHER = FlexNode("edge-1", "17", "Succeeded", True, {**WANTED, "versions": {}}, ready=True)


@pytest.mark.parametrize(
    ("existing", "joined", "by_token", "kind"),
    [
        (SAME, None, True, "unchanged"),
        (SAME, True, True, "unchanged"),
        (SAME, False, True, "regenerated"),  # reinstalled: its last status is history
        (NEW, True, True, "regenerated"),
        (READY, None, True, "unchanged"),
        (READY, True, True, "unchanged"),
        (READY, False, True, "refused"),  # on another machine: two kubelets would share one Node
        (READY_OTHER, False, True, "refused"),
        (READY_OTHER, None, True, "updated"),
        (READY, False, False, "regenerated"),  # it has an identity, and repairs what it lost
        (None, False, True, "created"),
    ],
)
def test_what_the_machine_says_of_itself_counts(
    existing: FlexNode | None, joined: bool | None, by_token: bool, kind: str
) -> None:
    options = {"secret_anyway": False, "need_url": True}
    action = decide(WANTED, existing, **options, joined=joined, by_token=by_token)
    assert action.kind == kind
    assert action.changes == (kind not in ("unchanged", "refused"))


def test_a_secret_is_sent_anyway_only_where_there_is_one() -> None:
    plain = properties_of({"kubernetes": {"version": "1.34.4"}})
    existing = FlexNode("edge-1", "17", "Succeeded", True, plain)
    assert decide(plain, existing, secret_anyway=True, need_url=True) == Action("unchanged")


def test_absent() -> None:
    assert decide_absent(SAME).kind == "deleted"
    assert decide_absent(None).kind == "unchanged"


def test_nothing_shown_is_a_secret() -> None:
    assert has_secret(WANTED)
    assert SECRET not in str(shown(WANTED))
    assert shown(WANTED)["azureAuth"]["servicePrincipal"]["clientSecret"] == "<minted at apply>"


@pytest.mark.parametrize(
    ("conditions", "joined"),
    [
        ([], False),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": True}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Other", "status": "True"}], False),
    ],
)
def test_joined_is_ready(conditions: list[dict[str, Any]], joined: bool) -> None:
    resource = {"name": "plant/edge-1", "properties": {"status": {"conditions": conditions}}}
    assert FlexNode.of(resource) == FlexNode("edge-1", joined=joined, ready=joined)


@pytest.mark.parametrize(
    ("reason", "told", "joined"),
    [
        ("KubeletNotReady", {"lastSeen": "2026-02-26T15:30:45Z"}, True),
        ("KubeletNotReady", {"appliedConfigVersion": "16"}, True),
        ("KubeletNotReady", {}, False),
        ("NodeNotFound", {"lastSeen": "2026-02-26T15:30:45Z", "appliedConfigVersion": "16"}, False),
    ],
    ids=["seen", "applied", "never", "has-left"],
)
def test_a_node_that_is_not_ready_may_have_joined(reason: str, told: dict[str, str], joined: bool) -> None:
    condition = {"type": "Ready", "status": "Unknown", "reason": reason}
    found = FlexNode.of({"name": "edge-1", "properties": {"status": {"conditions": [condition], **told}}})
    assert (found.joined, found.ready) == (joined, False)


def test_problems_are_found_before_azure_is_asked() -> None:
    problems = checked("edge-1", {"node": {"maxPods": 9000}, "nodes": {}})
    assert {problem.path for problem in problems} == {"edge-1.node.maxPods", "edge-1.nodes"}
    assert checked("edge-1", {"node": {"maxPods": 50}}) == []


@pytest.mark.parametrize(
    "azure", [{"managedIdentity": {}}, {"tenantId": TENANT, "arc": {"enabled": True}}], ids=["vm", "arc"]
)
def test_what_the_provider_fills_in_is_not_missing(azure: dict[str, Any]) -> None:
    """It creates the bootstrap token, and it knows the region of the cluster."""
    document = {"continuousMonitoring": True, "azure": {"tenantId": TENANT, **azure}}
    assert checked("edge-1", {**document, "kubernetesAuth": {"method": "bootstrapToken"}}) == []
    assert checked("edge-1", {**document, "kubernetesAuth": {"useAzureAuth": True}}) == []


def test_other_spellings_are_the_same_properties() -> None:
    document = {"azure": {"arc": {"enabled": True}}, "kubernetesAuth": {"method": "arc"}}
    spelled = {"azure": {"arc": {"enabled": "True"}}, "kubernetesAuth": {"method": "Arc"}}
    assert properties_of(spelled) == properties_of(document)
    assert properties_of({"azureAuth": {"method": "ARC"}}) == properties_of({"azureAuth": {"method": "arc"}})
    assert properties_of({"continuousMonitoring": "true"})["continuousMonitoring"] is True
