# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that a user sets, their types, and what is wrong with those of a host."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...node.config.document import misshapen
from .batches import FIX, NO_BATCHES, batches_of
from .secrets import SECRETS

PREFIX = "flexnode_"
DOCUMENTS = ("flexnode_config", "flexnode_host_config")  # parts of the configuration document
SOURCES = ("inline", "url", "rp", "cluster", "blob", "machines")


@dataclass(frozen=True, slots=True)
class Variable:
    """The type of a variable, as in an argument spec. `batches`: what a play takes in its keyword serial."""

    type: str = "str"
    choices: tuple[str, ...] = ()
    at_least: int = 0


# Those of the roles (their argument specs say the same, which a test checks), then those of the playbooks.
VARIABLES: Mapping[str, Variable] = {
    "flexnode_arc_kubeconfig": Variable("path"),
    "flexnode_arc_lend_token": Variable("bool"),
    "flexnode_arc_onboarding_certificate": Variable("path"),
    "flexnode_arc_onboarding_client_id": Variable(),
    "flexnode_arc_onboarding_client_secret": Variable(),
    "flexnode_arc_onboarding_tenant_id": Variable(),
    "flexnode_arc_package_sha256": Variable(),
    "flexnode_arc_package_url": Variable(),
    "flexnode_arc_roles": Variable("list"),
    "flexnode_arc_wait_seconds": Variable("int"),
    "flexnode_blob_account_key": Variable(),
    "flexnode_blob_account_url": Variable(),
    "flexnode_blob_connection_string": Variable(),
    "flexnode_cluster_id": Variable(),
    "flexnode_config": Variable("dict"),
    "flexnode_config_file": Variable("path"),
    "flexnode_config_source": Variable(choices=SOURCES),
    "flexnode_config_url": Variable(),
    "flexnode_config_url_ca_cert": Variable(),
    "flexnode_config_url_durable": Variable("bool"),
    "flexnode_drain_seconds": Variable("int"),
    "flexnode_host_config": Variable("dict"),
    "flexnode_kubeconfig": Variable("path"),
    "flexnode_machines_api_version": Variable(),
    "flexnode_pool": Variable(),
    "flexnode_preflight": Variable("bool"),
    "flexnode_preflight_skip": Variable("list"),
    "flexnode_proof_image": Variable(),
    "flexnode_proof_namespace": Variable(),
    "flexnode_proof_nodes": Variable("list"),
    "flexnode_proof_timeout": Variable("int"),
    "flexnode_pull_wheelhouse": Variable("path"),
    "flexnode_pull_wheelhouse_index": Variable(),
    "flexnode_retry": Variable("bool"),
    "flexnode_token_hours": Variable("int", at_least=1),
    "flexnode_update_after": Variable("path"),
    "flexnode_update_before": Variable("path"),
    "flexnode_update_secret": Variable(choices=("on_create", "always")),
    "flexnode_url_directory": Variable("path"),
    "flexnode_vpn_ca_certificate": Variable(),
    "flexnode_vpn_ca_key": Variable(),
    "flexnode_vpn_certificate_days": Variable("int"),
    "flexnode_vpn_directory": Variable("path"),
    "flexnode_vpn_force": Variable("bool"),
    "flexnode_vpn_gateway_id": Variable(),
    "flexnode_vpn_gateway_name": Variable(),
    "flexnode_vpn_gateway_subnet": Variable(),
    "flexnode_vpn_new_root": Variable("bool"),
    "flexnode_vpn_other_cidrs": Variable("list"),
    "flexnode_vpn_passphrase": Variable(),
    "flexnode_vpn_refresh_profile": Variable("bool"),
    "flexnode_vpn_renew": Variable("bool"),
    "flexnode_vpn_resource_group": Variable(),
    "flexnode_vpn_revoke": Variable("raw"),
    "flexnode_vpn_state": Variable(choices=("present", "absent")),
    "flexnode_vpn_timeout": Variable("int"),
    "flexnode_vpn_vnet_id": Variable(),
    "flexnode_vpn_zones": Variable("list"),
    **{name: Variable() for name in SECRETS},
    "flexnode_hosts": Variable(),
    "flexnode_max_fail_percentage": Variable("int"),
    "flexnode_proof": Variable("bool"),
    "flexnode_report": Variable("path"),
    "flexnode_serial": Variable("batches"),
}

# Variable -> option of flexnode_vpn_gateway. They are the same for all machines of one gateway.
VPN_OPTIONS: Mapping[str, str] = {
    "flexnode_vpn_vnet_id": "vnet_id",
    "flexnode_vpn_gateway_id": "gateway_id",
    "flexnode_vpn_gateway_name": "name",
    "flexnode_vpn_resource_group": "resource_group",
    "flexnode_vpn_gateway_subnet": "gateway_subnet_cidr",
    "flexnode_vpn_zones": "zones",
    "flexnode_vpn_other_cidrs": "other_cidrs",
    "flexnode_vpn_directory": "directory",
    "flexnode_vpn_passphrase": "passphrase",
    "flexnode_vpn_ca_certificate": "ca_certificate",
    "flexnode_vpn_ca_key": "ca_key",
    "flexnode_vpn_certificate_days": "certificate_days",
    "flexnode_vpn_new_root": "new_root",
    "flexnode_vpn_refresh_profile": "refresh_profile",
    "flexnode_vpn_timeout": "operation_timeout",
}


def nearest(name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """The known name nearest to a mistyped one; empty: none is near."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


def paths_only_in(one: Any, other: Any, path: str = "") -> list[str]:
    """The settings of a document that another one does not have; of both the paths, never a value."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return []
    found = []
    for name, value in one.items():
        here = f"{path}{name}"
        if name not in other:
            found.append(here)
        else:
            found += paths_only_in(value, other[name], f"{here}.")
    return sorted(found)


def unknown_variables(names: Iterator[str] | Mapping[str, Any]) -> dict[str, str]:
    """The variables with our prefix that nothing reads, each with the nearest known name."""
    mistyped = {name for name in names if name.startswith(PREFIX) and name not in VARIABLES}
    # The prefix is left out: it alone would make any two names alike.
    known = {name.removeprefix(PREFIX): name for name in VARIABLES}
    return {name: known.get(nearest(name.removeprefix(PREFIX), known), "") for name in sorted(mistyped)}


def wrong_values(variables: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the values of one host: the variable, why, and what to set instead."""
    for name, variable in VARIABLES.items():
        value = variables.get(name)
        if value is None or value == "":  # a blank answer of a survey
            continue
        if variable.choices and value not in variable.choices:
            near = nearest(str(value), variable.choices)
            accepted = ", ".join(variable.choices)
            fix = f"use {name}: {near}" if near else "set one of these"
            yield name, f"{value!r} is not one of {accepted}", fix
        elif variable.type == "dict" and not isinstance(value, Mapping):
            yield name, f"a mapping is expected, not {kind_of(value)}", f"set {name} to a mapping"
        elif name in DOCUMENTS:
            for path, part in misshapen(value):
                what = f"a mapping is expected, not {kind_of(part)}"
                yield f"{name}.{path}", what, "correct it; docs/configuration.md lists every setting"
        elif variable.type == "list" and (what := _no_list(value)):
            fix = f"set {name} to a list, or to a text with commas: -e {name}=ONE,TWO"
            yield name, f"a list is expected, not {what}", fix
        elif variable.type == "batches" and not batches_of(value):
            yield name, f"{value!r} {NO_BATCHES}", FIX.format(name=name)
        elif variable.type == "int" and not str(value).strip().isdecimal():
            yield name, f"{value!r} is not a number", f"set {name} to a whole number"
        elif variable.type == "int" and int(value) < variable.at_least:
            yield name, f"{value!r} is too small", f"set {name} to {variable.at_least} or more"
        elif variable.type == "bool" and is_true(value) is None:
            what = repr(value) if isinstance(value, (str, int, float)) else kind_of(value)
            yield name, f"{what} is neither true nor false", f"set {name} to true or false"


def incomplete_onboarding(variables: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The parts of the onboarding service principal of one host that do not fit together."""
    client, secret, file, tenant, lend = (
        f"flexnode_arc_{name}"
        for name in (
            "onboarding_client_id",
            "onboarding_client_secret",
            "onboarding_certificate",
            "onboarding_tenant_id",
            "lend_token",
        )
    )
    given = {name for name in (client, secret, file, tenant) if variables.get(name)}
    if given and client not in given:
        yield min(given), f"{client} is missing", f"set {client} beside it"
    elif given and not given & {secret, file}:
        yield client, "its secret or certificate is missing", f"set {secret} or {file} beside it"
    elif {secret, file} <= given:
        yield file, f"{secret} is set too", "remove one of them"
    elif given and is_true(variables.get(lend)):
        what = f"{client} is set too: machines get a token of that service principal"
        yield lend, what, f"remove {lend} or the service principal"


def listed(value: object) -> list[Any]:
    """A list as Ansible reads it, because -e and surveys make texts with commas of them."""
    if isinstance(value, (list, tuple)):
        return list(value)
    text = "" if value is None else str(value)
    return [part.strip() for part in text.split(",") if part.strip()]


def _no_list(value: object) -> str:
    """What a value is that makes no list; empty: it makes one."""
    if isinstance(value, str):  # only commas separate: brackets would be parts of names
        return "a text with brackets" if value.strip().startswith("[") else ""
    return "" if isinstance(value, (list, tuple)) else kind_of(value)


def is_true(value: object) -> bool | None:
    """A boolean as Ansible reads it, because -e and surveys make texts of them; None: it is no boolean."""
    try:
        return bool(boolean(value))
    except TypeError:
        return None


def kind_of(value: object) -> str:
    """What a value is, in words: the value itself may be a credential."""
    for type_, name in ((str, "a text"), (bool, "a boolean"), (int, "a number"), (Mapping, "a mapping")):
        if isinstance(value, type_):
            return name
    return "a list" if isinstance(value, (list, tuple)) else "something else"
