# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that a user sets are the same in argument specs, playbooks and our table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import SECRETS
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import (
    VARIABLES,
    VPN_OPTIONS,
    listed,
    unknown_variables,
    wrong_values,
)

ROOT = Path(__file__).parents[4]


def role_variables() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found.update(entry["options"])
    return {name: option for name, option in found.items() if name.startswith("flexnode_")}


def used_variables() -> set[str]:
    files = [*ROOT.glob("roles/*/*/*.yml"), *ROOT.glob("playbooks/*.yml")]
    texts = (path.read_text() for path in files if path.name != "argument_specs.yml")
    # Modules are called aks.flexnode.flexnode_x, and no variable has a dot before it.
    return {name for text in texts for name in re.findall(r"(?<![\w.])flexnode_[a-z0-9_]+", text)}


def test_the_table_has_the_types_of_the_argument_specs() -> None:
    for name, option in role_variables().items():
        assert VARIABLES[name].type == option["type"], name
        assert list(VARIABLES[name].choices) == option.get("choices", []), name


def test_every_variable_that_is_used_is_in_the_table_and_the_other_way_round() -> None:
    by_action = set(SECRETS)
    by_action |= {"flexnode_config_source", "flexnode_config", "flexnode_host_config", "flexnode_config_file"}
    by_action |= {f"flexnode_blob_{name}" for name in ("account_url", "account_key", "connection_string")}
    by_action |= {"flexnode_cluster_id", "flexnode_config_url", "flexnode_config_url_durable"}
    by_action |= {"flexnode_pool", "flexnode_machines_api_version", "flexnode_arc_kubeconfig"}
    by_action |= {f"flexnode_{name}" for name in ("token_hours", "update_secret", "url_directory")}
    by_action |= {*VPN_OPTIONS, "flexnode_vpn_renew", "flexnode_vpn_force"}
    assert used_variables() | by_action == set(VARIABLES)


def test_every_variable_of_a_role_is_in_its_argument_spec() -> None:
    playbooks = {
        "flexnode_hosts",
        "flexnode_max_fail_percentage",
        "flexnode_proof",
        "flexnode_report",
        "flexnode_serial",
    }
    assert set(VARIABLES) - playbooks == set(role_variables())


def test_a_mistyped_name_is_told_from_a_name_of_the_users_own() -> None:
    names = {"flexnode_cluser_id": 1, "flexnode_config": 1, "my_flexnode_thing": 1, "flexnode_zzz": 1}
    assert unknown_variables(names) == {"flexnode_cluser_id": "flexnode_cluster_id", "flexnode_zzz": ""}


def test_internals_of_roles_have_their_prefix() -> None:
    for path in ROOT.glob("roles/*/vars/main.yml"):
        role = path.parents[1].name
        for name in yaml.safe_load(path.read_text()):
            assert name.startswith(f"__{role}_"), f"{path}: {name}"
    for path in ROOT.glob("roles/*/tasks/*.yml"):
        for name in re.findall(r"register: (\w+)", path.read_text()):
            assert name.startswith(f"__{path.parents[1].name}"), f"{path}: {name}"


SWITCHES = sorted(name for name, variable in VARIABLES.items() if variable.type == "bool")


@pytest.mark.parametrize("value", [True, False, "on", "off", "Yes", "no", "1", 0, "y", " true ", "", None])
def test_a_switch_may_be_spelled_as_in_options_of_modules(value: Any) -> None:
    assert list(wrong_values(dict.fromkeys(SWITCHES, value))) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [("ture", "'ture'"), ("maybe", "'maybe'"), (2, "2"), (["x"], "a list"), ({}, "a mapping")],
)
def test_a_switch_that_is_neither_on_nor_off_is_an_error(value: Any, shown: str) -> None:
    """A typo in flexnode_vpn_renew renewed nothing, and nobody was told."""
    found = list(wrong_values(dict.fromkeys(SWITCHES, value)))
    assert [name for name, _why, _fix in found] == [name for name in VARIABLES if name in SWITCHES]
    assert {why for _name, why, _fix in found} == {f"{shown} is neither true nor false"}


LISTS = sorted(name for name, variable in VARIABLES.items() if variable.type == "list")


@pytest.mark.parametrize("value", ["swap", "swap,mtu", "swap, mtu", ["swap"], [], ("swap",), "", None])
def test_a_list_may_be_a_text_with_commas(value: Any) -> None:
    """The remedy of FLEX-1310 says -e flexnode_preflight_skip=ID, which makes a text."""
    assert list(wrong_values(dict.fromkeys(LISTS, value))) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "a number"),
        (True, "a boolean"),
        ({"swap": True}, "a mapping"),
        ('["swap"]', "a text with brackets"),
        (" [swap, mtu]", "a text with brackets"),
    ],
)
def test_what_is_neither_a_list_nor_a_text_with_commas_is_an_error(value: Any, shown: str) -> None:
    """Modules split every text at its commas: of a list in a text they would make ["swap" and "mtu"]."""
    found = list(wrong_values(dict.fromkeys(LISTS, value)))
    assert [name for name, _why, _fix in found] == [name for name in VARIABLES if name in LISTS]
    assert {why for _name, why, _fix in found} == {f"a list is expected, not {shown}"}
    assert all("commas" in fix for _name, _why, fix in found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", ["a"]),
        ("a, b,,c ", ["a", "b", "c"]),
        (["a", " b "], ["a", " b "]),
        ((1, 2), [1, 2]),
        ("", []),
        (None, []),
    ],
)
def test_a_text_with_commas_becomes_a_list(value: Any, expected: list[Any]) -> None:
    assert listed(value) == expected
