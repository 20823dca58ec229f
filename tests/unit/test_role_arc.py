# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role arc: who gets to see the installer's token, and how a wait ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

ROLE = Path(__file__).parents[2] / "roles/arc"
TOKEN = {"access_token": "t0ken"}
REGISTERED: dict[str, Any] = {"resource_id": "/subscriptions/1", "registered_by_us": False}
NEW: dict[str, Any] = {"resource_id": "", "registered_by_us": False}
OURS: dict[str, Any] = {"resource_id": "/subscriptions/1", "registered_by_us": True}


def task(file: str, name: str) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = yaml.safe_load((ROLE / f"tasks/{file}.yml").read_text())
    return next(one for one in tasks if one["name"].startswith(name))


def said(expression: str, **variables: Any) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.ChainableUndefined)
    environment.tests["skipped"] = lambda result: bool(result.get("skipped"))
    environment.globals["omit"] = "OMIT"
    text = expression if "{{" in expression else f"{{{{ {expression} }}}}"
    return environment.from_string(text).render(**variables)


@pytest.mark.parametrize(
    ("file", "name", "seen", "expected"),
    [
        ("main", "Register", NEW, "t0ken"),
        ("main", "Register", REGISTERED, "OMIT"),
        ("main", "Register", OURS, "OMIT"),
        ("main", "Wait", NEW, "OMIT"),
        ("absent", "Take back the registration", OURS, "t0ken"),
        ("absent", "Take back the registration", REGISTERED, "OMIT"),
        ("absent", "Take back the registration", NEW, "OMIT"),
    ],
)
def test_the_installers_token_goes_where_it_is_needed(
    file: str, name: str, seen: dict[str, Any], expected: str
) -> None:
    found = task(file, name)
    given, own = found["aks.flexnode.arc_register"]["access_token"], found.get("vars", {})
    assert said(given, arc_seen=seen, arc_token=TOKEN, **own) == expected
    assert said(given, arc_seen=seen, **own) == "OMIT"


@pytest.mark.parametrize(
    ("result", "again", "fails"),
    [
        ({"missing_roles": []}, False, False),
        ({"skipped": True}, False, False),
        ({"msg": "MODULE FAILURE", "module_stderr": "Traceback"}, False, True),
        ({"msg": "x", "error": {"code": "FLEX-1816"}}, True, True),
        ({"msg": "x", "error": {"code": "FLEX-1817"}}, True, True),
        ({"msg": "x", "error": {"code": "FLEX-1804"}}, True, True),
        ({"msg": "x", "error": {"code": "FLEX-1802"}}, False, True),
    ],
)
def test_how_a_wait_ends(result: dict[str, Any], again: bool, fails: bool) -> None:
    passing = yaml.safe_load((ROLE / "defaults/main.yml").read_text())["arc_passing"]
    until = task("main", "Wait")["until"]
    assert said(until, arc_waited=result, arc_passing=passing) == str(not again)
    when = task("main", "Say what is still missing")["when"]
    assert all(said(one, arc_waited=result) == "True" for one in when) == fails


@pytest.mark.parametrize(
    ("result", "promised", "fails"),
    [
        ({"assignments": []}, True, False),
        ({"msg": "x", "error": {"code": "FLEX-1702"}}, True, True),
        ({"msg": "x", "error": {"code": "FLEX-1702"}}, False, False),
        ({"msg": "x", "error": {"code": "FLEX-1701"}}, False, True),
        ({"msg": "MODULE FAILURE"}, False, True),
        ({"skipped": True}, True, False),
    ],
)
def test_who_only_registers_need_not_see_roles(result: dict[str, Any], promised: bool, fails: bool) -> None:
    assert task("absent", "Take back the roles")["failed_when"] is False, "it is run once for all machines"
    conditions = task("absent", "Say why roles stay")["when"]
    known = {"arc_taken": result, "arc_promised": promised, "arc_seen": {"installed": True}}
    assert all(said(one, **known) == "True" for one in conditions) == fails
    known["arc_seen"] = {"installed": False}
    assert not all(said(one, **known) == "True" for one in conditions)


def test_what_nobody_needs_any_more_is_taken_back_by_an_entry_point_of_its_own() -> None:
    right, roles = yaml.safe_load((ROLE / "tasks/settled.yml").read_text())
    assert right["aks.flexnode.flexnode_identity_binding"]["state"] == "absent"
    assert roles["aks.flexnode.flexnode_role_assignment"]["state"] == "absent"
    assert "'surplus'" in roles["vars"]["arc_surplus"]
    # Not from all at every run: that would need a login every time.
    assert "'settled'" in right["vars"]["arc_certified"]


def every_task(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for task_ in tasks for one in (task_, *every_task(task_.get("block", [])))]


@pytest.mark.parametrize("file", ["absent", "token"])
def test_what_is_run_once_fails_for_nobody_when_machines_are_given_back(file: str) -> None:
    """A failed task that is run once marks all machines, and one alone is rescued by unbootstrap."""
    for one in every_task(yaml.safe_load((ROLE / f"tasks/{file}.yml").read_text())):
        if one.get("run_once") and "ansible.builtin.debug" not in one:
            assert one["failed_when"] is False, one["name"]


def test_a_variable_of_a_task_is_no_result_of_another() -> None:
    tasks = [one for file in ROLE.glob("tasks/*.yml") for one in every_task(yaml.safe_load(file.read_text()))]
    registered = {one["register"] for one in tasks if "register" in one}
    assert not registered & {name for one in tasks for name in one.get("vars", {})}


def test_what_a_machine_returns_gives_it_nothing() -> None:
    """The order by which roles are given is the inventory's; a machine's document is only looked at."""
    order = yaml.safe_load((ROLE / "tasks/order.yml").read_text())
    (kept,) = [one["ansible.builtin.set_fact"] for one in order if "ansible.builtin.set_fact" in one]
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    assert kept == {"arc_order": "{{ arc_told }}"}
    assert "fetched" not in defaults["arc_told"] + defaults["arc_variables"]
    (looked,) = [one for one in order if one.get("register") == "arc_fetched"]
    assert looked["check_mode"] is True, "it is stored when preflight has passed"


def test_the_proxy_may_have_a_password() -> None:
    """It is in no fact, and the module does not show it."""
    assert "proxy" not in (ROLE / "tasks/order.yml").read_text()
    assert task("main", "Register")["aks.flexnode.arc_register"]["proxy"].startswith("{{ arc_proxy")
    module = (ROLE.parents[1] / "plugins/module_utils/arc_options.py").read_text()
    assert '"proxy": {"type": "str", "no_log": True}' in module
