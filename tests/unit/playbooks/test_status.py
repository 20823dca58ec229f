# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `status` as Ansible runs it: a table of all machines, an exit status, a report."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.unit.controller.fleets import NOT_ROOT, an_answer
from tests.unit.playbooks.stage import Stage

# Nobody listens at this port: SSH fails at once.
AWAY = {
    "ansible_connection": "ssh",
    "ansible_host": "127.0.0.1",
    "ansible_port": 1,
    "ansible_ssh_common_args": "-o BatchMode=yes -o ConnectTimeout=2",
}
TEMPLATE = "{{ lookup('ansible.builtin.pipe', 'printf tak%s en') }}"


def shown(stage: Stage) -> list[list[str]]:
    """The lines of the table, as words."""
    block = stage.output.partition("TASK [Show the status (")[2].partition("TASK [")[0]
    lines = (line.strip().removeprefix("- ").strip("\"',") for line in block.splitlines())
    return [line.split() for line in lines if "  " in line]


def row(stage: Stage, host: str) -> list[str]:
    (found,) = (words for words in shown(stage) if words[0] == host)
    return found


def test_a_fleet_that_is_right(stage: Stage) -> None:
    stage.answer(flexnode_status_info=an_answer("edge-1"))
    stage.play("aks.flexnode.status", {"a": {}, "b": {}})
    assert stage.status == 0, stage.output
    assert next(words for words in shown(stage) if words[0] == "HOST")[:4] == [
        "HOST",
        "NODE",
        "CLUSTER",
        "STATUS",
    ]
    assert row(stage, "a")[1:5] == ["edge-1", "plant", "Ready", "1.34.4"]
    assert row(stage, "b")[-2:] == ["-", "-"]


def test_a_machine_that_is_not_right_fails_and_the_table_says_why(stage: Stage) -> None:
    stage.answer(flexnode_status_info=an_answer("edge-1", "FLEX-1501", "kubelet.service not running"))
    stage.play("aks.flexnode.status", {"a": {}})
    assert stage.status != 0
    assert row(stage, "a")[-4:] == ["FLEX-1501", "kubelet.service", "not", "running"]
    assert re.search(r"fatal: \[a\].*FLEX-1501: kubelet\.service not running", stage.output, re.DOTALL)


@pytest.mark.parametrize("others", [{}, {"b": {}}])
def test_a_machine_that_can_not_be_reached_has_a_row(stage: Stage, others: dict[str, Any]) -> None:
    stage.answer(flexnode_status_info=an_answer("edge-2"))
    stage.play("aks.flexnode.status", {"a": AWAY, **others})
    assert stage.status != 0
    assert row(stage, "a")[1:5] == ["-", "-", "not", "reachable"]
    assert "Unreachable" in row(stage, "a")
    assert re.search(r"fatal: \[a\].*Unreachable: ", stage.output, re.DOTALL)
    for host in others:
        assert row(stage, host)[3] == "Ready"
        assert row(stage, host)[-2:] == ["-", "-"]
        assert re.search(rf"^{host} .* failed=0 ", stage.output, re.MULTILINE)


def test_a_machine_that_answers_with_an_error_has_a_row(stage: Stage) -> None:
    stage.answer(flexnode_status_info={"failed": True, **NOT_ROOT})
    stage.play("aks.flexnode.status", {"a": {}})
    assert stage.status != 0
    assert row(stage, "a")[-5:] == ["FLEX-1306", "FLEX-1306:", "root", "is", "needed"]


@pytest.mark.parametrize("kind", ["html", "json"])
def test_a_report_is_written_where_the_command_was_typed(stage: Stage, kind: str) -> None:
    stage.answer(flexnode_status_info=an_answer("edge-1", "Drift", TEMPLATE))
    stage.play("aks.flexnode.status", {"a": {}, "b": AWAY}, "-e", f"flexnode_report=fleet.{kind}")
    text = (stage.directory / f"fleet.{kind}").read_text()
    assert "Unreachable" in text
    assert "Drift" in text
    assert "taken" not in text + stage.output, "what a machine says is never a template"
    if kind == "json":
        assert {one["host"] for one in json.loads(text)["machines"]} == {"a", "b"}


def test_check_mode_writes_no_report(stage: Stage) -> None:
    stage.answer(flexnode_status_info=an_answer("edge-1"))
    stage.play("aks.flexnode.status", {"a": {}}, "--check", "-e", "flexnode_report=fleet.html")
    assert stage.status == 0, stage.output
    assert not (stage.directory / "fleet.html").exists()


def test_a_report_of_another_kind_is_refused_before_any_machine_is_asked(stage: Stage) -> None:
    stage.play("aks.flexnode.status", {"a": {}}, "-e", "flexnode_report=fleet.pdf")
    assert stage.status != 0
    assert "use a name that ends in .html or .json" in stage.output
    assert stage.calls == []
