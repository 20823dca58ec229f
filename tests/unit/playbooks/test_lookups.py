# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are lookups, for example of a vault: which are evaluated, for which machines, how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from tests.unit.playbooks.stage import READY, Stage, done

MACHINES = tuple(f"e{number}" for number in range(10))
OUTSIDE = MACHINES[2:]
OWN_NAME = "node-' ~ inventory_hostname ~ '"


def lookup(log: Path, value: str) -> str:
    """A template that writes down for which machine it is evaluated."""
    command = f"echo ' ~ inventory_hostname ~ ' >> {log}; echo {value}"
    return "{{ lookup('ansible.builtin.pipe', '" + command + "') }}"


@pytest.fixture
def vault(stage: Stage) -> dict[str, Any]:
    """Variables of all machines: a secret, a setting and the name of the Node, which come from lookups."""
    stage.answer(
        flexnode_status_info={"status": {"phase": "NodeJoined", "node": READY}},
        flexnode_reconcile=done(),
    )
    return {
        "flexnode_client_secret": lookup(stage.directory / "secrets", "s3cret"),
        "flexnode_host_config": {"node": {"maxPods": lookup(stage.directory / "settings", "40")}},
        "flexnode_config": {"agent": {"nodeName": lookup(stage.directory / "names", OWN_NAME)}},
    }


def evaluated(log: Path) -> Counter[str]:
    return Counter(log.read_text().split()) if log.exists() else Counter()


@pytest.mark.parametrize("playbook", ["update", "bootstrap"])
def test_secrets_of_machines_outside_the_run_are_not_read(
    stage: Stage, vault: dict[str, Any], playbook: str
) -> None:
    """Each batch of an update read the secrets of the whole inventory: a call of the vault for each."""
    options = ("--limit", ",".join(MACHINES[:2]), "-e", "flexnode_serial=1")
    stage.play(f"aks.flexnode.{playbook}", {name: {} for name in MACHINES}, *options, **vault)
    assert stage.status == 0, stage.output
    secrets, settings, names = (evaluated(stage.directory / log) for log in ("secrets", "settings", "names"))
    assert set(secrets) == set(settings) == set(MACHINES) - set(OUTSIDE)
    # Names and pod ranges are compared with those of all machines, once.
    assert {name: names[name] for name in OUTSIDE} == dict.fromkeys(OUTSIDE, 1)


def test_a_name_outside_the_run_is_found_before_the_first_batch(stage: Stage, vault: dict[str, Any]) -> None:
    same = {"flexnode_config": {"agent": {"nodeName": "plant"}}}
    fleet = {"e0": {}, "e1": same, "e2": {**same, "flexnode_client_secret": "{{ no_such_vault }}"}}
    stage.play("aks.flexnode.update", fleet, "--limit", "e0,e1", "-e", "flexnode_serial=1", **vault)
    assert stage.status != 0
    assert "e1, e2: all of these would be Node plant" in stage.output
    assert [name for name, _given in stage.calls if name == "flexnode_reconcile"] == []


def test_what_a_machine_outside_the_run_has_in_a_vault_need_not_be_readable(stage: Stage) -> None:
    """Another site has a vault of its own: its machine's name is compared all the same."""
    sealed = VaultLib().encrypt(b"s3cret", VaultSecret(b"another site's"))
    beside = stage.directory / "host_vars"
    beside.mkdir()
    lines = "".join(f"          {line}\n" for line in sealed.decode().splitlines())
    (beside / "e2.yml").write_text(
        f"flexnode_config:\n  agent: {{nodeName: plant}}\n  azure:\n    servicePrincipal:\n"
        f"      clientSecret: !vault |\n{lines}"
    )
    stage.answer(flexnode_status_info={"status": {"phase": "NodeJoined", "node": READY}})
    fleet = {"e1": {"flexnode_config": {"agent": {"nodeName": "plant"}}}, "e2": {}}
    stage.play("aks.flexnode.update", fleet, "--limit", "e1")
    assert stage.status != 0
    assert "e1, e2: all of these would be Node plant" in stage.output, stage.output
