# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-pull in the playbooks: after the join, only where there is something to do."""

from __future__ import annotations

from typing import Any

from tests.unit.playbooks.stage import Stage

NODE = {"name": "edge-1", "kubeletVersion": "1.34.4", "containerRuntime": "containerd 2.2.9"}
JOINED = {"changed": True, "node": NODE, "summary": "joined", "timings": {}, "drains": False, "actions": []}
CLUSTER = (
    "/subscriptions/12345678-1234-1234-1234-123456789abc/resourceGroups/rg"
    "/providers/Microsoft.ContainerService/managedClusters/plant"
)
CA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BTUNBUUU9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
DOCUMENT = {
    "azure": {
        "targetCluster": {"resourceId": CLUSTER},
        "bootstrapToken": {"token": "abcdef.0123456789abcdef"},
    },
    "kubernetes": {"version": "1.34.4"},
    "node": {"kubelet": {"serverURL": "https://127.0.0.1:6443", "caCertData": CA}},
}
HOSTS: dict[str, dict[str, Any]] = {"edge-1": {"flexnode_config": DOCUMENT}}


def components(stage: Stage) -> list[list[str]]:
    return [given.get("components", []) for name, given in stage.calls if name == "flexnode_reconcile"]


def test_a_fleet_without_a_repository_has_no_call_more(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**JOINED, "pull_pending": False})
    stage.play("aks.flexnode.bootstrap", HOSTS)
    assert stage.status == 0, stage.output
    assert components(stage) == [[]]
    assert "flexnode_wheelhouse" not in [name for name, _given in stage.calls]


def test_it_is_installed_after_the_join(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**JOINED, "pull_pending": True})
    stage.play("aks.flexnode.bootstrap", HOSTS)
    assert stage.status == 0, stage.output
    assert components(stage) == [[], ["pull"]]


def test_the_wheels_of_the_controller_are_copied(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**JOINED, "pull_pending": True}, flexnode_wheelhouse={"targets": {}})
    (stage.directory / "wheels").mkdir()
    target = stage.directory / "machine"
    stage.play(
        "aks.flexnode.bootstrap",
        HOSTS,
        "-e",
        f"__pull_directory={target}",
        flexnode_pull_wheelhouse=str(stage.directory / "wheels"),
    )
    assert stage.status == 0, stage.output
    names = [name for name, _given in stage.calls]
    assert names.index("flexnode_wheelhouse") < len(names) - 1
    assert target.is_dir()


def test_a_failure_is_shown_and_does_not_fail_the_machine(stage: Stage) -> None:
    """The join itself answers from the same module, so that here the role runs alone."""
    failed = {"failed": True, "msg": "FLEX-1201: a wheel can't be downloaded", "error": {"code": "FLEX-1201"}}
    stage.answer(flexnode_reconcile=failed)
    playbook = stage.directory / "only_pull.yml"
    playbook.write_text("- hosts: all\n  gather_facts: false\n  roles: [aks.flexnode.pull]\n")
    stage.play(str(playbook), HOSTS)
    assert stage.status == 0, stage.output
    assert "WARNING: ansible-pull is not installed as configured" in stage.output
    assert "FLEX-1201" in stage.output


def test_a_module_that_crashed_fails_the_machine(stage: Stage) -> None:
    """It has no code and wrote no status: a warning without a reason would hide it."""
    stage.answer(
        flexnode_reconcile={"failed": True, "msg": "MODULE FAILURE", "module_stderr": "Traceback ..."}
    )
    playbook = stage.directory / "only_pull.yml"
    playbook.write_text("- hosts: all\n  gather_facts: false\n  roles: [aks.flexnode.pull]\n")
    stage.play(str(playbook), HOSTS)
    assert stage.status != 0
    assert "MODULE FAILURE" in stage.output
