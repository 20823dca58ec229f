# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role arc: who gets to see which token, and how a wait ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import jinja2.nativetypes
import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.action.flexnode_arc_rights import remaining
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc import ArcMachine
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import arc_request

ROLE = Path(__file__).parents[3] / "roles/arc"
OWN, LENT = {"access_token": "0nboarding"}, {"access_token": "c0ntroller"}
PRINCIPAL = {"flexnode_arc_onboarding_client_id": "c"}
LENDS = {"flexnode_arc_lend_token": "true"}
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
    ("name", "seen", "variables", "expected"),
    [
        ("Register", NEW, PRINCIPAL, "0nboarding"),
        ("Register", NEW, LENDS, "c0ntroller"),
        ("Register", NEW, {**PRINCIPAL, **LENDS}, "0nboarding"),
        ("Register", NEW, {}, "OMIT"),
        ("Register", NEW, {"flexnode_arc_lend_token": "", "flexnode_arc_onboarding_client_id": ""}, "OMIT"),
        ("Register", REGISTERED, PRINCIPAL, "OMIT"),
        ("Register", OURS, LENDS, "OMIT"),
        ("Wait", NEW, PRINCIPAL, "OMIT"),
        ("Wait", NEW, LENDS, "OMIT"),
    ],
)
def test_a_token_goes_where_it_is_needed(
    name: str, seen: dict[str, Any], variables: dict[str, Any], expected: str
) -> None:
    found = task("main", name)
    given, own = found["aks.flexnode.arc_register"]["access_token"], found.get("vars", {})
    token = chosen(variables, __arc_onboarding=OWN, __arc_lent=LENT)
    assert said(given, __arc_seen=seen, __arc_token=token, **own) == expected


def chosen(variables: dict[str, Any], **tokens: Any) -> Any:
    """The token of a machine, as the role's variables choose it."""
    role = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    environment = jinja2.nativetypes.NativeEnvironment()
    environment.filters["bool"] = lambda value: str(value).lower() == "true"
    onboards = environment.from_string(role["__arc_onboards"]).render(**variables)
    lends = environment.from_string(role["__arc_lends"]).render(__arc_onboards=onboards, **variables)
    found = environment.from_string(role["__arc_token"])
    return found.render(__arc_onboards=onboards, __arc_lends=lends, **tokens)


def test_a_machine_that_leaves_gets_no_token() -> None:
    text = (ROLE / "tasks/unregister.yml").read_text()
    assert "access_token" not in text
    assert task("unregister", "Remove the registration")["aks.flexnode.arc_register"]["local_only"] is True


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
    retried = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__arc_retried"]
    until = task("main", "Wait")["until"]
    left = {"__arc_waited": result, "__arc_retried": retried, "__arc_left_seconds": 100}
    assert said(until, **left) == str(not again)
    assert said(until, **{**left, "__arc_left_seconds": 0}) == "True", "the time of all machines is up"
    when = task("main", "Fail if roles are still missing")["when"]
    assert all(said(one, __arc_waited=result) == "True" for one in when) == fails


@pytest.mark.parametrize(
    ("code", "assigns", "remains"),
    [
        ("FLEX-1702", True, True),
        ("FLEX-1702", False, False),
        ("FLEX-1701", False, True),
        ("", False, True),
    ],
)
def test_who_only_registers_need_not_see_roles(code: str, assigns: bool, remains: bool) -> None:
    machine = ArcMachine("a", {"assign_roles": assigns})
    assert bool(remaining(machine, [{"msg": "x", "code": code}])) == remains
    assert not remaining(machine, [])


def test_what_is_no_longer_needed_is_removed_by_an_entry_point_of_its_own() -> None:
    rights, _failure = yaml.safe_load((ROLE / "tasks/joined.yml").read_text())
    assert rights["aks.flexnode.flexnode_arc_rights"]["state"] == "surplus"


def every_task(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for task_ in tasks for one in (task_, *every_task(task_.get("block", [])))]


def test_what_is_run_once_fails_for_no_machine_that_leaves() -> None:
    """A failed task that is run once marks all machines, and one alone is rescued by unbootstrap."""
    never_fails = (
        "ansible.builtin.debug",
        "ansible.builtin.include_role",
        "aks.flexnode.flexnode_arc_rights",
    )
    for one in every_task(yaml.safe_load((ROLE / "tasks/unregister.yml").read_text())):
        if one.get("run_once") and not any(action in one for action in never_fails):
            assert one["failed_when"] is False, one["name"]


def test_a_variable_of_a_task_is_no_result_of_another() -> None:
    tasks = [one for file in ROLE.glob("tasks/*.yml") for one in every_task(yaml.safe_load(file.read_text()))]
    registered = {one["register"] for one in tasks if "register" in one}
    assert not registered & {name for one in tasks for name in one.get("vars", {})}


def test_what_a_machine_returns_gives_it_nothing() -> None:
    """Rights are assigned by what the inventory requests; a machine's document is only read."""
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text())
    (rights,) = [
        one["aks.flexnode.flexnode_arc_rights"] for one in tasks if "aks.flexnode.flexnode_arc_rights" in one
    ]
    assert rights["machines"] == "{{ __source.machines }}"
    (fetched,) = [one for one in tasks if one.get("register") == "__arc_fetched"]
    assert fetched["check_mode"] is True, "it is stored when preflight has passed"


def test_the_proxy_may_have_a_password() -> None:
    """It is in no fact, and the module does not show it."""
    assert "proxy" not in arc_request({"proxy": {"https": "http://user:pw@p:1"}})
    assert task("main", "Register")["aks.flexnode.arc_register"]["proxy"].startswith("{{ __arc_proxy")
    module = (ROLE.parents[1] / "plugins/module_utils/arc_options.py").read_text()
    assert '"proxy": {"type": "str", "no_log": True}' in module
