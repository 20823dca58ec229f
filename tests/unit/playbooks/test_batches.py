# SPDX-License-Identifier: GPL-3.0-or-later
"""How many machines a play works on at once: flexnode_serial in the keyword `serial` of a play."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.aks.flexnode.plugins.filter.batches import batches
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import wrong_values
from tests.unit.playbooks.stage import Stage

GOOD: list[tuple[Any, list[Any]]] = [
    (3, [3]),
    ("3", [3]),
    (" 3 ", [3]),
    ("10%", ["10%"]),
    ("10 %", ["10%"]),
    ("100%", ["100%"]),
    (200, [200]),
    ([1, "10%"], [1, "10%"]),
    (["1", "10%"], [1, "10%"]),
    ((1, 2), [1, 2]),
    ('[1, "10%"]', [1, "10%"]),
    ("[1, '10%']", [1, "10%"]),
    ("[5]", [5]),
    ("1,10%", [1, "10%"]),
    ("1, 10%, 50%", [1, "10%", "50%"]),
]
BAD: list[Any] = [
    *(0, -1, "0", "-1", "abc", "2.5", 2.5, "0%", "101%", "2.5%", "%", "10%%", "+2", "1e3"),
    *([], "[]", "[1", "1,", "1,,2", [1, 0], [1, None], [[1]], "1,abc", True, "true", {}, {"a": 1}),
    "\u0663",  # a digit, but not one of ours
]


@pytest.mark.parametrize(("value", "expected"), GOOD, ids=str)
def test_what_a_play_takes(value: Any, expected: list[Any]) -> None:
    assert batches(value, "10%") == expected
    assert list(wrong_values({"flexnode_serial": value})) == []


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_anything_else_is_refused_with_what_is_accepted(value: Any) -> None:
    """To Ansible 0 and -1 mean all machines at once; at other texts it ends with a traceback."""
    with pytest.raises(AnsibleFilterError) as refused:
        batches(value, "10%")
    text = str(refused.value)
    assert text.startswith(f"FLEX-1106: flexnode_serial: {value!r} is not a number of machines (at least 1)")
    assert "percentage of them (1% to 100%)" in text
    assert text.endswith(
        "\nfix: use for example -e flexnode_serial=2, -e flexnode_serial=10% or -e flexnode_serial=1,10%,50%"
    )
    ((name, why, fix),) = wrong_values({"flexnode_serial": value})
    assert f"{name}: {why}\nfix: {fix}" in text


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_blank_answer_means_the_default(value: Any) -> None:
    assert batches(value, "10%") == ["10%"]
    assert batches(value, [1, 5]) == [1, 5]


def sizes(stage: Stage, *arguments: str) -> list[int]:
    """How many of 12 machines each batch of a play has."""
    task = {
        "name": "Note",
        "aks.flexnode.flexnode_status_info": {"names": "{{ ansible_play_batch }}"},
        "run_once": True,
    }
    serial = "{{ flexnode_serial | default('') | aks.flexnode.batches('25%') }}"
    play = {"hosts": "all", "gather_facts": False, "serial": serial, "tasks": [task]}
    book = stage.directory / "book.yml"
    book.write_text(yaml.safe_dump([play]))
    stage.play(str(book), {f"m{number}": {} for number in range(12)}, *arguments)
    return [len(names) for names in stage.asked("flexnode_status_info")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), [3, 3, 3, 3]),
        (("-e", "flexnode_serial="), [3, 3, 3, 3]),
        (("-e", "flexnode_serial=5"), [5, 5, 2]),
        (("-e", "flexnode_serial=1,50%"), [1, 6, 5]),
        (("-e", '{"flexnode_serial": [1, "100%"]}'), [1, 11]),
    ],
    ids=str,
)
def test_the_batches_of_a_play(stage: Stage, arguments: tuple[str, ...], expected: list[int]) -> None:
    assert sizes(stage, *arguments) == expected, stage.output


@pytest.mark.parametrize("value", ["0", "2.5"])
def test_a_play_with_no_such_batches_does_not_start(stage: Stage, value: str) -> None:
    assert sizes(stage, "-e", f"flexnode_serial={value}") == []
    assert stage.status != 0
    assert "Traceback" not in stage.output
    assert "Unexpected Exception" not in stage.output
    assert f"FLEX-1106: flexnode_serial: '{value}' is not a number of machines" in " ".join(
        stage.output.split()
    )
    assert "fix: use for example -e flexnode_serial=2" in stage.output


def test_update_refuses_it_before_any_machine_is_asked(stage: Stage) -> None:
    stage.play("aks.flexnode.update", {"a": {}}, "-e", "flexnode_serial=0")
    assert stage.status != 0
    assert "FLEX-1106" in stage.output
    assert "flexnode_serial: '0' is not a number of machines" in stage.output
    assert stage.calls == []
