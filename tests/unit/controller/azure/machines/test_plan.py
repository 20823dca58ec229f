# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which machines are created or changed, from the settings of hosts."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import PoolUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.plan import (
    Machine,
    Wanted,
    by_node,
    decide,
    defaults_of,
    pool_goal,
    wanted_machines,
    wanted_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.pool import (
    WantedPool,
    differences,
    is_newer,
    known_settings,
    pool_name,
    properties_of,
    require_flexnodes,
    require_not_newer,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.errors import (
    MachineUnusable,
    MaxPodsFixed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import Goal

POOL = Goal("1.36.2", 75, {"pool": "edge"}, ("pool=edge:NoSchedule",))


def a_machine(state: str = "Succeeded", **kubernetes: Any) -> Machine:
    goal = {
        "orchestratorVersion": "1.36.2",
        "maxPods": 75,
        "nodeLabels": {"pool": "edge"},
        "nodeName": "edge-1",
    }
    properties = {"eTag": "e1", "provisioningState": state, "kubernetes": {**goal, **kubernetes}}
    return Machine.of({"id": "/p/machines/edge-1", "name": "edge-1", "properties": properties})


def test_a_new_machine_has_the_values_of_the_pool() -> None:
    action = decide(Wanted("edge-1"), POOL, None)
    assert (action.kind, action.goal) == ("created", POOL)


def test_explicit_settings_are_the_goal_of_a_new_machine() -> None:
    wanted = Wanted("edge-1", "1.35.7", 50, {"site": "lab"}, ())
    action = decide(wanted, POOL, None)
    assert action.goal == Goal("1.35.7", 50, {"pool": "edge", "site": "lab"}, ())


def test_without_explicit_settings_the_machine_keeps_its_own() -> None:
    changed_in_azure = a_machine(
        orchestratorVersion="1.35.7", nodeLabels={"a": "b"}, nodeTaints=["x=y:NoExecute"]
    )
    action = decide(Wanted("edge-1"), POOL, changed_in_azure)
    assert (action.kind, action.changes) == ("unchanged", False)
    assert action.goal == Goal("1.35.7", 75, {"a": "b"}, ("x=y:NoExecute",), "e1")


@pytest.mark.parametrize(
    ("wanted", "reasons"),
    [
        pytest.param(Wanted("edge-1", version="1.36.2"), [], id="same version"),
        pytest.param(Wanted("edge-1", version="1.36"), [], id="any patch of the same version"),
        pytest.param(Wanted("edge-1", version="1.36.3"), ["Kubernetes 1.36.2 -> 1.36.3"], id="version"),
        pytest.param(Wanted("edge-1", labels={}), [], id="labels of the pool"),
        pytest.param(Wanted("edge-1", labels={"site": "a"}), ["label site=a"], id="label"),
        pytest.param(Wanted("edge-1", taints=("a=b:NoSchedule",)), ["taint a=b:NoSchedule"], id="taint"),
        pytest.param(Wanted("edge-1", max_pods=75), [], id="same maxPods"),
    ],
)
def test_only_what_differs_is_written(wanted: Wanted, reasons: list[str]) -> None:
    action = decide(wanted, POOL, a_machine())
    assert list(action.reasons) == reasons
    assert action.changes == bool(reasons)


def test_the_label_of_the_service_is_no_difference() -> None:
    machine = a_machine(nodeLabels={"pool": "edge", "kubernetes.azure.com/managed": "false"})
    assert decide(Wanted("edge-1", labels={}), POOL, machine).kind == "unchanged"


def test_a_changed_max_pods_is_an_error_that_says_recreate() -> None:
    with pytest.raises(MaxPodsFixed, match="recreate the machine") as caught:
        decide(Wanted("edge-1", max_pods=50), POOL, a_machine(), "/p")
    assert caught.value.where == "/p/machines/edge-1"


def test_a_machine_that_someone_else_is_changing_is_not_written() -> None:
    with pytest.raises(MachineUnusable, match="Updating"):
        decide(Wanted("edge-1"), POOL, a_machine("Updating"))


def test_a_failed_machine_is_written_again() -> None:
    action = decide(Wanted("edge-1"), POOL, a_machine("Failed"))
    assert (action.kind, action.reasons) == ("updated", ("its last change failed",))


def test_a_machine_is_found_by_the_name_of_its_node() -> None:
    resource = {"name": "Flex_01", "properties": {"kubernetes": {"nodeName": "edge-1"}}}
    assert by_node([resource])["edge-1"].name == "Flex_01"


def test_options_are_read_and_all_problems_told() -> None:
    found = wanted_machines(
        [{"name": "Edge-1", "version": "v1.36.2", "labels": {"kubernetes.azure.com/x": "y"}}]
    )
    assert found == [Wanted("edge-1", "1.36.2", None, {}, None)]
    with pytest.raises(ConfigInvalid) as caught:
        wanted_machines([{"name": "a.b"}, {"name": "x" * 41}, {"name": "c"}, {"name": "C"}])
    assert [problem.path for problem in caught.value.problems] == [
        "machines[0].agent.nodeName",
        "machines[1].agent.nodeName",
        "machines[3].name",
    ]


def test_labels_that_are_no_texts_are_refused_and_not_rewritten() -> None:
    options = [{"name": "a", "labels": {"gpu": True, "rev": 1.10}}, {"name": "b", "labels": {"site": "lab"}}]
    with pytest.raises(ConfigInvalid) as caught:
        wanted_machines([*options, {"name": "c", "labels": {"row": 7}}])
    assert [problem.path for problem in caught.value.problems] == [
        'machines[0].labels["gpu"]',
        'machines[0].labels["rev"]',
        'machines[2].labels["row"]',
    ]
    assert "it must be in quotes" in str(caught.value)
    with pytest.raises(ConfigInvalid, match=r'labels\["gpu"\] is true, but it must be in quotes'):
        WantedPool.of({**OPTIONS, "labels": {"gpu": True}})


def test_settings_of_a_document_that_belong_to_the_machine() -> None:
    document = {"kubernetes": {"version": "1.36.2"}, "node": {"labels": {}, "kubelet": {"verbosity": 2}}}
    assert wanted_of(document, "edge-1") == {"name": "edge-1", "version": "1.36.2", "labels": {}}
    assert wanted_of({}, "edge-1") == {"name": "edge-1"}


def test_values_of_a_pool() -> None:
    properties = {"orchestratorVersion": "1.36", "currentOrchestratorVersion": "1.36.2", "maxPods": 75}
    assert pool_goal({"properties": properties}) == Goal("1.36.2", 75)
    assert defaults_of({"version": "1.36.2", "max_pods": 75}) == Goal("1.36.2", 75)
    assert defaults_of(None) is None


# -- pools --------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = dict.fromkeys(("version", "max_pods", "labels", "taints", "max_unavailable"))


def test_only_what_azure_accepts_is_sent_and_nothing_empty() -> None:
    wanted = WantedPool.of(
        {**OPTIONS, "version": "1.36.2", "labels": {}, "taints": [], "max_unavailable": "10%"}
    )
    assert properties_of(wanted.over(known_settings(None))) == {
        "type": "FlexNodes",
        "mode": "User",
        "orchestratorVersion": "1.36.2",
        "upgradeSettings": {"maxUnavailable": "10%"},
    }


def test_what_is_not_asked_for_stays_as_it_is() -> None:
    pool = {"properties": {"orchestratorVersion": "1.36.2", "maxPods": 75, "nodeTaints": ["a=b:NoSchedule"]}}
    known = known_settings(pool)
    settings = WantedPool.of({**OPTIONS, "labels": {"site": "lab"}}).over(known)
    assert differences(known, settings) == ["labels"]
    assert properties_of(settings)["nodeTaints"] == ["a=b:NoSchedule"]
    assert "nodeTaints" not in properties_of(WantedPool.of({**OPTIONS, "taints": []}).over(known))


@pytest.mark.parametrize(
    ("known", "wanted", "differs"),
    [
        ("1.36.2", "1.36.2", False),
        ("1.36.2", "1.36", False),
        ("1.36", "1.36.2", False),  # 1.36.2 is what runs
        ("1.36", "1.36.3", True),
        ("1.36.2", "1.37", True),
    ],
)
def test_versions_of_a_pool(known: str, wanted: str, *, differs: bool) -> None:
    before, after = ({"version": version} for version in (known, wanted))
    assert differences(before, after, "1.36.2") == (["version"] if differs else [])


def test_names_of_pools_are_checked() -> None:
    assert pool_name("edge1") == "edge1"
    for wrong in ("Edge", "edge-1", "1edge", "e" * 13, ""):
        with pytest.raises(ConfigInvalid, match="pool"):
            pool_name(wrong)


def test_a_pool_of_another_type_is_refused() -> None:
    with pytest.raises(PoolUnusable, match="VirtualMachineScaleSets, not FlexNodes"):
        require_flexnodes({"properties": {"type": "VirtualMachineScaleSets"}}, "/p")


def test_a_version_above_the_control_plane_is_refused() -> None:
    with pytest.raises(PoolUnusable, match=r"1\.37\.0 is newer than the control plane"):
        require_not_newer("1.37.0", "1.36.2", "/p")
    require_not_newer("1.36.2", "1.36.2", "/p")
    require_not_newer("1.37.0", "", "/p")  # the control plane can't be read
    assert [is_newer("1.37", "1.36.9"), is_newer("1.36", "1.36.0"), is_newer("nonsense", "1.36.0")] == [
        True,
        False,
        False,
    ]
