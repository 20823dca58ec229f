# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Versions that machines would refuse, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory import versions
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import InventoryInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.versions import (
    require_versions,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NotInCatalogue, VersionSkew

PLANT = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
SHA = "a" * 64
KNOWN = "this collection's list of known versions"


def known(version: str) -> list[dict[str, Any]]:
    return [{"id": PLANT.upper(), "kubernetes_version": version}]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kubernetes": {"version": "1.34.4"}},
        {"containerd": {"version": "2.3.99", "sha256": SHA}},
        {"npd": {"version": "0.8.20", "sha256": {"arm64": SHA}}},
        {"mirror": {"catalogue": {"runc": {"1.9.9": {"amd64": SHA}}}}, "runc": {"version": "1.9.9"}},
        {
            "kubernetes": {
                "version": "1.34.99",
                "sha256": dict.fromkeys(("kubelet", "kubectl", "kubeadm"), SHA),
            }
        },
        {"kubernetes": None, "node": {"maxPods": "wrong"}},  # not a matter of versions
        {"containerd": {"version": "two"}},  # reported by the document's own checks
    ],
)
def test_versions_that_a_machine_accepts(document: dict[str, Any]) -> None:
    require_versions([Machine("a", "rp", document=document)], [])


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ({"kubernetes": {"version": "1.34.99"}}, r"Kubernetes 1.34.99 \(kubelet, kubectl, kubeadm\)"),
        ({"containerd": {"version": "2.3.99"}}, "containerd 2.3.99"),
        ({"runc": {"version": "1.9.9"}}, "runc 1.9.9"),
        ({"cni": {"version": "9.9.9"}}, "cni-plugins 9.9.9"),
    ],
)
def test_a_version_that_is_not_in_the_catalogue(document: dict[str, Any], what: str) -> None:
    with pytest.raises(NotInCatalogue, match=rf"a: {what} for amd64 is not in {KNOWN}: .+ \(FLEX-1204\)\n"):
        require_versions([Machine("a", "rp", document=document)], [])


@pytest.mark.parametrize(("kubelet", "cluster"), [("1.35.4", "1.34.4"), ("1.31.14", "1.35.4")])
def test_a_kubelet_that_does_not_fit_to_its_cluster(kubelet: str, cluster: str) -> None:
    machine = Machine("a", "blob", cluster_id=PLANT, document={"kubernetes": {"version": kubelet}})
    with pytest.raises(VersionSkew, match=f"kubelet {kubelet} is not supported by API server {cluster}"):
        require_versions([machine], known(cluster))
    require_versions([machine], known("1.34" if kubelet == "1.35.4" else "not a version"))
    require_versions([machine], [])


def test_the_version_of_the_cluster_counts_where_none_is_chosen() -> None:
    with pytest.raises(NotInCatalogue, match=r"Kubernetes 1\.34\.99"):
        require_versions([Machine("a", "cluster", cluster_id=PLANT)], known("1.34.99"))
    with pytest.raises(InventoryInvalid, match=r"a: kubernetes\.version is missing"):
        require_versions([Machine("a", cluster_id=PLANT)], known("1.34.99"))


def test_all_findings_of_all_machines_are_in_one_table() -> None:
    bad = [Machine(f"edge-{n}", "rp", document={"runc": {"version": "1.9.9"}}) for n in range(6)]
    other = Machine("mill", "blob", cluster_id=PLANT, document={"kubernetes": {"version": "1.35.4"}})
    with pytest.raises(InventoryInvalid) as caught:
        require_versions([*bad, other], known("1.34.4"))
    text = str(caught.value)
    assert text.startswith("FLEX-1106: the configuration of 7 machines is not valid: 2 errors:\n")
    assert "edge-0, edge-1, edge-2, edge-3, +2" in text
    assert "mill: kubelet 1.35.4 is not supported by API server 1.34.4: it is newer (FLEX-1506)\n" in text
    assert "\nThis run changed nothing.\nfix: correct these settings in the inventory" in text


def test_what_else_is_wrong_in_these_documents_is_in_the_same_table() -> None:
    """A user who corrects the version must not learn of the next mistake in the next run."""
    wrong = {"runc": {"version": "1.9.9"}, "node": {"maxPodz": 50, "taints": ["a=b:Never"]}}
    fine = Machine("mill", document={"node": {"maxPodz": 50}})  # refused by itself, on the machine
    with pytest.raises(InventoryInvalid) as caught:
        require_versions([Machine("edge-1", document=wrong), fine], [])
    rows = str(caught.value).splitlines()
    assert any("edge-1" in row and "node.maxPodz" in row and "maxPods" in row for row in rows), rows
    assert any("edge-1" in row and "node.taints[0]" in row for row in rows), rows
    assert not any("mill" in row for row in rows)


def test_what_the_cluster_fills_in_is_not_missing() -> None:
    document = {
        "runc": {"version": "1.9.9"},
        "azure": {"arc": {"enabled": True}},
    }  # its place is the cluster's
    with pytest.raises(NotInCatalogue, match="1 error:"):
        require_versions([Machine("a", "cluster", document=document)], [])


def test_machines_with_the_same_software_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr(versions, "refused", lambda *args: checked.append(args) or [])
    fleet = [
        Machine(f"edge-{n}", document={"cni": {"mode": "bridge", "podCIDR": f"10.244.{n}.0/24"}})
        for n in range(200)
    ]
    require_versions(fleet, [])
    assert len(checked) == 1
