# SPDX-License-Identifier: GPL-3.0-or-later
"""Example inventories that build groups, read by the real ansible-inventory: for AWX, and for any project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
PROJECT = ROOT / "awx" / "project"
GROUPS = EXAMPLES / "groups.constructed.yml"


def groups(*sources: Path) -> dict[str, Any]:
    """What ansible-inventory makes of these files, in this order."""
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "--list"]
    command += [word for source in sources for word in ("-i", str(source))]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=ROOT)
    assert "WARNING" not in shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def machine(**labels: str) -> dict[str, Any]:
    return {"flexnode_host_config": {"node": {"labels": labels}}}


def test_groups_by_ring_site_and_label(tmp_path: Path) -> None:
    """The labels of a machine over those of all; the ring by the label of rollouts, or by the short one."""
    hosts = {
        "edge-1": machine(**{"aks.flexnode/ring": "canary"}),
        "edge-2": machine(ring="canary", site="lab-2"),
        "edge-3": machine(**{"aks.flexnode/ring": "early", "ring": "canary"}),
        "edge-4": {},
    }
    shared = {"flexnode_config": {"node": {"labels": {"site": "lab-1", "rack": "a"}}}}
    source = tmp_path / "machines.yml"
    source.write_text(yaml.safe_dump({"aks_flexnode": {"hosts": hosts, "vars": shared}}))
    found = groups(source, GROUPS)
    members = {name: part["hosts"] for name, part in found.items() if "hosts" in part}
    assert members["ring_canary"] == ["edge-1", "edge-2"]
    assert members["ring_early"] == ["edge-3"]
    assert members["ring_rest"] == ["edge-4"]
    assert members["site_lab_1"] == ["edge-1", "edge-3", "edge-4"]
    assert members["site_lab_2"] == ["edge-2"]
    assert members["label_rack_a"] == list(hosts)
    assert members["label_aks_flexnode_ring_canary"] == ["edge-1"]


def test_machines_without_any_label_have_groups_too(tmp_path: Path) -> None:
    source = tmp_path / "machines.yml"
    source.write_text(yaml.safe_dump({"aks_flexnode": {"hosts": {"edge-1": {}}}}))
    found = groups(source, GROUPS)
    assert found["ring_rest"]["hosts"] == found["site_none"]["hosts"] == ["edge-1"]


@pytest.mark.parametrize("name", ["edge_hosts", "edge_hosts_azure"])
def test_they_can_be_added_to_the_other_examples(name: str) -> None:
    found = groups(EXAMPLES / name, GROUPS)
    assert found["ring_rest"]["hosts"] == found["aks_flexnode"]["hosts"]


def test_examples_and_the_project_of_awx_are_the_same() -> None:
    pairs = {
        "groups.constructed.yml": "inventory/90_groups.constructed.yml",
        "machines.azure_rm.yml": "inventory_azure/flexnode.azure_rm.yml",
    }
    for example, of_project in pairs.items():
        assert yaml.safe_load((EXAMPLES / example).read_text()) == yaml.safe_load(
            (PROJECT / of_project).read_text()
        )
