# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines a playbook acts on."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.playbooks.stage import LEFT, Stage, touched

FLEET = {"edge-1": {}, "edge-2": {}, "other-1": {}}

GROUPED = {"aks_flexnode": {"hosts": {"edge-1": {}, "edge-2": {}}}}

BLANK: list[tuple[str, ...]] = [(), ("--limit", ""), ("-e", "flexnode_hosts=")]


@pytest.mark.parametrize("named", BLANK, ids=["nothing", "empty-limit", "empty-variable"])
@pytest.mark.parametrize("playbook", ["unbootstrap", "config_delete"])
def test_what_destroys_stops_without_named_machines_and_shows_the_line_to_type(
    stage: Stage, playbook: str, named: tuple[str, ...]
) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.play(f"aks.flexnode.{playbook}", FLEET, *named)
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    assert f"ansible-playbook -i INVENTORY aks.flexnode.{playbook} --limit HOST" in said
    assert (
        f"aks.flexnode.{playbook} -e flexnode_hosts=HOST1,GROUP1 in AWX: set Limit in the job template"
        in said
    )
    assert "This run changed nothing. fix: name the machines" in said
    assert "FLEX-1108" in said
    configs = playbook == "config_delete"
    act = "delete the configuration of 3 machines" if configs else "remove 3 machines from the cluster"
    assert f"this run would {act}: edge-1, edge-2, other-1" in said


@pytest.mark.parametrize("named", [("--limit", "!edge-1"), ("-e", "flexnode_hosts=!edge-1:!edge-2")])
def test_a_pattern_that_only_leaves_machines_out_names_none(stage: Stage, named: tuple[str, str]) -> None:
    """Ansible takes it as all the others, which nobody typed."""
    stage.answer(flexnode_reconcile=LEFT)
    stage.play("aks.flexnode.unbootstrap", FLEET, *named)
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    assert "FLEX-1108" in said
    assert "only leaves machines out: with it this run would remove" in said


@pytest.mark.parametrize(
    ("playbook", "pattern"),
    [
        ("unbootstrap", "aks_flexnode:!ring_canry"),
        ("unbootstrap", "all:!~egde-[0-9]+"),
        ("bootstrap", "all:!edge-1:!edge-9"),
    ],
)
def test_a_name_typed_wrong_after_an_exclamation_mark_reaches_no_machine(
    stage: Stage, playbook: str, pattern: str
) -> None:
    """Ansible only warns, and acts on the machine that was meant to be left out."""
    stage.answer(flexnode_reconcile=LEFT)
    stage.play(f"aks.flexnode.{playbook}", FLEET, "--limit", pattern, groups=GROUPED)
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    wrong = pattern.rpartition("!")[2]
    assert f"!{wrong} leaves out nothing: the inventory has no machine or group {wrong}" in said
    assert "FLEX-1106" in said


def test_machines_are_left_out_where_the_name_is_right(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.play("aks.flexnode.unbootstrap", FLEET, "-e", "flexnode_hosts=all:!edge*", "--limit", "all:!edge-1")
    assert stage.status == 0, stage.output
    assert touched(stage) == 1


@pytest.mark.parametrize("named", [("--limit", "edge-1"), ("-e", "flexnode_hosts=edge-1")])
def test_what_destroys_touches_only_the_named_machine(stage: Stage, named: tuple[str, str]) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.play("aks.flexnode.unbootstrap", FLEET, *named)
    assert stage.status == 0, stage.output
    assert touched(stage) == 1
    assert "other-1" not in stage.output


@pytest.mark.parametrize("playbook", ["unbootstrap", "bootstrap"])
@pytest.mark.parametrize("name", ["edge-1", "all"])
def test_a_name_in_the_inventory_is_no_name_on_the_command_line(
    stage: Stage, playbook: str, name: str
) -> None:
    """A play can't see a variable of its hosts: it would act on all of them."""
    stage.answer(flexnode_reconcile=LEFT)
    stage.play(f"aks.flexnode.{playbook}", FLEET, flexnode_hosts=name)
    assert stage.status != 0
    assert stage.calls == []


def test_machines_may_be_named_where_the_playbook_is_imported(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    book = stage.directory / "book.yml"
    imported = {"import_playbook": "aks.flexnode.unbootstrap", "vars": {"flexnode_hosts": "edge-2"}}
    book.write_text(yaml.safe_dump([imported]))
    stage.play(str(book), FLEET)
    assert stage.status == 0, stage.output
    assert touched(stage) == 1


def imported(stage: Stage, hosts: str) -> str:
    """A playbook of a team that imports unbootstrap with a template for its machines."""
    book = stage.directory / "book.yml"
    play = {"import_playbook": "aks.flexnode.unbootstrap", "vars": {"flexnode_hosts": hosts}}
    book.write_text(yaml.safe_dump([play]))
    return str(book)


@pytest.mark.parametrize("book", ["imported", "extra"])
def test_a_template_that_is_empty_names_no_machine(stage: Stage, book: str) -> None:
    """Ansible evaluates it for the play's hosts, which are then all machines."""
    stage.answer(flexnode_reconcile=LEFT)
    template = "{{ retire | default('') }}"
    if book == "imported":
        stage.play(imported(stage, template), FLEET)
    else:
        stage.play("aks.flexnode.unbootstrap", FLEET, "-e", yaml.safe_dump({"flexnode_hosts": template}))
    assert stage.status != 0
    assert stage.calls == []
    assert "FLEX-1108" in stage.output


def test_a_template_names_the_machines_that_it_evaluates_to(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    book = imported(stage, "{{ retire }}:!{{ keep }}")
    stage.play(book, FLEET, "-e", "retire=all", "-e", "keep=edge*")
    assert stage.status == 0, stage.output
    assert touched(stage) == 1


def test_an_empty_group_may_be_left_out(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    groups = {**GROUPED, "maintenance": {"hosts": {}}}
    stage.play("aks.flexnode.unbootstrap", FLEET, "--limit", "aks_flexnode:!maintenance", groups=groups)
    assert stage.status == 0, stage.output
    assert touched(stage) == 2


def test_the_group_aks_flexnode_is_the_default_target(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", FLEET, groups=GROUPED)
    assert stage.status == 0, stage.output
    assert touched(stage) == 2
    assert "other-1" not in stage.output
