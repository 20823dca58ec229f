# SPDX-License-Identifier: GPL-3.0-or-later
"""Every secret of the document has a variable of its own, which is used and never shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import machine_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import (
    OTHER_SECRETS,
    SECRETS,
    secrets_document,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import (
    VARIABLES,
    unknown_variables,
    wrong_values,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import redact, secrets_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import table

ROOT = Path(__file__).parents[4]
TOKEN = "abcdef.0123456789abcdef"
# A value of each that its field accepts and that has a secret part.
VALUES = {
    "flexnode_bootstrap_token": TOKEN,
    "flexnode_client_secret": "s3cret-of-a-principal",
    "flexnode_proxy_http": "http://user:s3cret-a@proxy.example.com:3128",
    "flexnode_proxy_https": "http://user:s3cret-b@proxy.example.com:3128",
    "flexnode_pull_repository": "https://user:s3cret-c@git.example.com/team/playbooks.git",
    "flexnode_pull_ssh_key": "-----BEGIN OPENSSH PRIVATE KEY-----\ns3cret-d\n",
    "flexnode_vpn_profile": "client\ndev tun\n<key>s3cret</key>",
}


def no_file(path: str) -> Mapping[str, Any]:
    raise AssertionError(path)


def value_at(document: Mapping[str, Any], path: str) -> Any:
    for key in path.split("."):
        document = document[key]
    return document


def test_every_secret_field_of_the_document_has_a_variable() -> None:
    secret = {row.path for row in table(NodeConfig) if row.setting.kind.sensitive}
    assert sorted(SECRETS.values()) == sorted(secret)


def test_every_secret_is_a_known_variable_whose_description_names_its_field() -> None:
    specs = yaml.safe_load((ROOT / "roles/source/meta/argument_specs.yml").read_text())["argument_specs"]
    options = specs["main"]["options"]
    for name, path in SECRETS.items():
        assert f"C({path})" in str(options[name]["description"]), name
    assert {*SECRETS, *OTHER_SECRETS} <= set(VARIABLES)
    assert unknown_variables(dict.fromkeys(SECRETS)) == {}
    assert unknown_variables({"flexnode_client_secrets": 1}) == {
        "flexnode_client_secrets": "flexnode_client_secret"
    }


@pytest.mark.parametrize("name", SECRETS)
def test_a_variable_takes_precedence_over_every_layer_of_the_document(name: str) -> None:
    path = SECRETS[name]
    below = secrets_document({name: "from-the-mapping"})
    variables = {
        "flexnode_config": below,
        "flexnode_host_config": secrets_document({name: "from-the-host"}),
        name: VALUES[name],
    }
    machine = machine_of("a", variables, no_file)
    assert value_at(machine.document, path) == VALUES[name]
    assert "from-the" not in str(machine.document)


@pytest.mark.parametrize("blank", [None, ""])
def test_a_blank_one_sets_nothing(blank: str | None) -> None:
    """AWX passes an empty text for a field of a credential that was left empty."""
    variables = {**dict.fromkeys(SECRETS, blank), "flexnode_config": {"proxy": {"http": "http://kept:1"}}}
    assert machine_of("a", variables, no_file).document == {"proxy": {"http": "http://kept:1"}}
    assert list(wrong_values(variables)) == []


def test_the_rest_of_a_section_stays() -> None:
    principal = {"clientId": "11111111-2222-3333-4444-555555555555", "clientTenant": "t"}
    variables = {
        "flexnode_config": {"azure": {"servicePrincipal": principal}},
        "flexnode_client_secret": "s3cret",
    }
    found = machine_of("a", variables, no_file).document
    assert found == {"azure": {"servicePrincipal": {**principal, "clientSecret": "s3cret"}}}


def test_a_token_of_a_variable_is_the_credential_of_the_join() -> None:
    assert machine_of("a", {"flexnode_bootstrap_token": TOKEN}, no_file).wants_token


@pytest.mark.parametrize("name", SECRETS)
def test_what_a_variable_sets_is_hidden_as_the_document_s_own_secrets_are(name: str) -> None:
    document = machine_of("a", {name: VALUES[name]}, no_file).document
    assert VALUES[name] in secrets_of(document)
    assert VALUES[name] not in str(redact(document))
