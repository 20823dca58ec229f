# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_identity_binding against the emulated Azure and a real cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testbed import Testbed
from testbed.azure import Principal
from tests.contract.modules.conftest import Person

MODULE = "flexnode_identity_binding"
ADMIN = "Azure Kubernetes Service Cluster Admin Role"
USER = "Azure Kubernetes Service Cluster User Role"


@pytest.fixture
def machine(bed: Testbed) -> Iterator[Principal]:
    """The identity of a machine."""
    one = bed.azure.app_registration(f"machine {uuid.uuid4()}")
    yield one
    bed.azure.settings()
    bed.azure.remove_registration(one.name)


def test_a_machine_may_obtain_a_certificate_and_then_nothing(
    bed: Testbed, person: Callable[..., Person], machine: Principal
) -> None:
    someone = person(ADMIN)
    node = {"name": "edge-1", "principal_id": machine.object_id}
    given: dict[str, Any] = {"cluster_id": bed.azure.cluster_id, "nodes": [node]}
    assert someone.do(MODULE, check=True, **given)["changed"]
    assert not bound(bed, machine)
    done = someone.do(MODULE, **given)
    assert done["nodes"] == [{**node, "cluster_id": bed.azure.cluster_id}]
    assert bound(bed, machine) == {
        "system:node-bootstrapper",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
    }
    assert not someone.do(MODULE, **given)["changed"]
    assert someone.do(MODULE, state="absent", **given)["changed"]
    assert not bound(bed, machine)
    assert not someone.do(MODULE, state="absent", **given)["changed"]


def bound(bed: Testbed, machine: Principal) -> set[str]:
    """The ClusterRoles of an identity."""
    columns = "custom-columns=ROLE:.roleRef.name,WHO:.subjects[*].name"
    rows = bed.cluster.kubectl("get", "clusterrolebindings", "--no-headers", f"--output={columns}")
    return {row.split()[0] for row in rows.splitlines() if row.split()[1] == machine.object_id}


def test_who_has_no_way_to_the_cluster_is_told_the_role(
    bed: Testbed, person: Callable[..., Person], machine: Principal
) -> None:
    node = {"name": "edge-1", "principal_id": machine.object_id}
    given: dict[str, Any] = {"cluster_id": bed.azure.cluster_id, "nodes": [node]}
    answer = person("Reader").run(MODULE, **given)
    assert answer["error"]["code"] == "FLEX-1702"
    assert f'--role "{ADMIN}"' in answer["msg"]
    bed.azure.settings(disable_local_accounts=True)
    assert person(USER).run(MODULE, **given)["error"]["code"] == "FLEX-1505"


def test_a_kubeconfig_and_a_known_identity_need_no_azure(
    bed: Testbed, person: Callable[..., Person], machine: Principal
) -> None:
    someone = person()
    bed.azure.forget_requests()
    node = {"name": "edge-1", "principal_id": machine.object_id}
    given: dict[str, Any] = {"kubeconfig": str(bed.cluster.kubeconfig), "nodes": [node]}
    assert someone.do(MODULE, **given)["changed"]
    assert someone.do(MODULE, state="absent", **given)["changed"]
    assert bed.azure.requests() == []
