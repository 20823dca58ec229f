# SPDX-License-Identifier: GPL-3.0-or-later
"""Which credential a machine gets to register with Azure Arc."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import arc_request
from tests.unit.playbooks.stage import IN_ARC, Stage, arc_hosts

UNREGISTERED = {**IN_ARC, "resource_id": "", "registered_by_us": False}

ONBOARDING = {
    "flexnode_arc_onboarding_client_id": "0nb0arding",
    "flexnode_arc_onboarding_client_secret": "s3cret-of-onboarding",
}


def registers(stage: Stage, fleet: dict[str, dict[str, Any]], *options: str, **variables: Any) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    stage.answer(arc_info=UNREGISTERED, flexnode_access_token={"access_token": "an-access-token"})
    stage.play("aks.flexnode.bootstrap", fleet, *options, flexnode_arc_wait_seconds=0, **variables)


def logins(stage: Stage) -> list[tuple[str, str]]:
    asked = [given for name, given in stage.calls if name == "flexnode_access_token"]
    return [(given.get("auth_source", ""), given.get("client_id", "")) for given in asked]


def given_tokens(stage: Stage) -> list[str]:
    found = [given for name, given in stage.calls if name == "arc_register"]
    return [given.get("access_token", "") for given in found]


def test_a_url_that_asks_for_arc_gets_no_token_of_the_controller(stage: Stage) -> None:
    unregistered = {**IN_ARC, "resource_id": "", "registered_by_us": False}
    document = {"azure": {"arc": {"enabled": True}}}
    stage.answer(
        arc_info=unregistered,
        flexnode_config_fetch={"config": document, "arc": arc_request(document)},
        flexnode_access_token={"access_token": "controllers-own"},
    )
    fleet = {"a": {"flexnode_config_source": "url", "flexnode_config_url": "https://x"}}
    stage.play("aks.flexnode.bootstrap", fleet)
    assert stage.status != 0
    assert "Set azure.arc in flexnode_config" in stage.output
    assert not {"flexnode_access_token", "arc_register"} & {name for name, _params in stage.calls}


def test_a_machine_registers_with_a_service_principal_that_can_do_only_that(stage: Stage) -> None:
    stage.verbosity = 3
    registers(stage, arc_hosts("a", "b"), **ONBOARDING)
    assert stage.status == 0, stage.output
    assert logins(stage) == [("module", "0nb0arding")] * 2
    assert given_tokens(stage) == ["an-access-token"] * 2
    for secret in ("s3cret-of-onboarding", "an-access-token"):
        assert secret not in stage.output


def test_the_controllers_own_token_is_lent_only_if_the_user_says_so(stage: Stage) -> None:
    registers(stage, arc_hosts("a"))
    assert stage.status != 0
    assert "flexnode_arc_onboarding_client_id" in stage.output
    assert "flexnode_arc_lend_token" in stage.output
    assert (logins(stage), given_tokens(stage)) == ([], [])


def test_it_is_lent_where_the_user_says_so(stage: Stage) -> None:
    """Obtained once; a machine of the same run with a service principal of its own gets that one's."""
    fleet = arc_hosts("a", "b", "c")
    fleet["a"].update(ONBOARDING)
    fleet["b"]["flexnode_arc_lend_token"] = fleet["c"]["flexnode_arc_lend_token"] = True
    registers(stage, fleet)
    assert stage.status == 0, stage.output
    assert logins(stage) == [("module", "0nb0arding"), ("", "")]


def test_it_is_lent_to_nobody_else(stage: Stage) -> None:
    fleet = arc_hosts("a", "b")
    fleet["a"]["flexnode_arc_lend_token"] = True
    registers(stage, fleet)
    assert re.search(r"fatal: \[b\].*flexnode_arc_lend_token", stage.output)
    assert given_tokens(stage) == ["an-access-token"]


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"flexnode_arc_onboarding_client_id": "c"}, "secret or certificate is missing"),
        ({"flexnode_arc_onboarding_client_secret": "s3cret"}, "client_id is missing"),
        ({**ONBOARDING, "flexnode_arc_onboarding_certificate": "/c.pem"}, "is set too"),
        ({**ONBOARDING, "flexnode_arc_lend_token": "yes"}, "is set too"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_asked(
    stage: Stage, variables: dict[str, Any], what: str
) -> None:
    registers(stage, arc_hosts("a"), **variables)
    assert stage.status != 0
    assert what in stage.output
    assert "s3cret" not in stage.output
    assert stage.calls == []


def test_check_mode_signs_in_nowhere(stage: Stage) -> None:
    registers(stage, arc_hosts("a"), "--check", **ONBOARDING)
    assert (stage.status, logins(stage)) == (0, []), stage.output


def test_a_registered_machine_needs_no_login(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    stage.play("aks.flexnode.bootstrap", arc_hosts("a"), flexnode_arc_wait_seconds=0)
    assert stage.status == 0, stage.output
    assert (logins(stage), set(given_tokens(stage))) == ([], {""}), "neither to register nor to wait"
