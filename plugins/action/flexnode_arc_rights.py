# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Grants and revokes the rights of the Arc machines of a run, and ends their registrations; once for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arc_machines import (
    ABSENT,
    DELETED,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc import (
    ArcMachine,
    binding_nodes,
    registered,
    role_nodes,
    roles_of_others,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import (
    ControllerAction,
    Result,
    undefaulted,
)

ARGUMENTS: dict[str, dict[str, Any]] = {
    **undefaulted(AZURE),
    "state": {"type": "str", "choices": ["present", "surplus", "absent"], "default": "present"},
    "machines": {"type": "dict", "required": True, "no_log": True},
    "kubeconfig": {"type": "path"},
}
PERMISSION = "FLEX-1702"
GONE = (DELETED, ABSENT)


class ActionModule(ControllerAction):
    """Role assignments in Azure and bindings in the cluster, for all machines in one task."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> Result:
        """Do what `state` says. `absent` never fails: `remains` says per host what was not revoked."""
        super(ControllerAction, self).run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        _valid, options = self.validate_argument_spec(argument_spec=ARGUMENTS)
        hostvars, handovers = variables["hostvars"], options["machines"]
        machines = [
            ArcMachine.of_host(host, handovers.get(host, {}).get("arc", {}), hostvars[host])
            for host in variables["ansible_play_hosts"]
        ]
        login = {name: options[name] for name in AZURE if options[name] is not None}
        kubeconfig = {"kubeconfig": options["kubeconfig"]} if options["kubeconfig"] else {}
        refused: dict[str, str] = {}
        if options["state"] == "present":
            for machine in machines:
                try:
                    machine.require_requested()
                except FlexNodeError as error:
                    refused[machine.host] = str(error)
        machines = [machine for machine in machines if machine.host not in refused]
        roles = role_nodes(machines, options["state"])
        bindings = binding_nodes(machines, options["state"])
        absent = {} if options["state"] == "present" else {"state": "absent"}
        results = [
            self.on_controller(
                f"aks.flexnode.{module}", {**login, **more, **absent, "nodes": nodes}, variables
            )
            for module, nodes, more in (
                ("flexnode_role_assignment", roles, {}),
                ("flexnode_identity_binding", bindings, kubeconfig),
            )
            if nodes
        ]
        failed = [result for result in results if result.get("failed")]
        if failed and options["state"] != "absent":
            return {**failed[0], "invocation": {}}
        remains = {machine.host: remaining(machine, failed) for machine in machines}
        deleted: list[str] = []
        if options["state"] == "absent":
            # Roles are found by the identity of the registration: it stays until they are gone.
            ending = [machine for machine in machines if not remains[machine.host]]
            ended, reasons = self._end_registrations(ending, login, variables)
            results += [ended]
            deleted = [one["name"] for one in ended.get("machines") or () if one["action"] in GONE]
            for host, why in reasons.items():
                remains[host].append(why)
        return {
            "changed": any(result.get("changed") for result in results),
            "actions": [sentence for result in results for sentence in result.get("actions") or ()],
            "diff": [entry for result in results for entry in result.get("diff") or ()],
            "commands": {
                machine.host: [role["command"] for role in roles_of_others(machine)] for machine in machines
            },
            "refused": refused,
            "remains": remains,
            "deleted": deleted,
        }

    def _end_registrations(
        self, machines: Sequence[ArcMachine], login: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> tuple[Result, dict[str, str]]:
        """Delete the registrations of machines; by host, why one may still exist."""
        nodes, reasons = registered(machines)
        if not nodes:
            return {}, reasons
        result = self.on_controller(
            "aks.flexnode.flexnode_arc_machine", {**login, "machines": nodes}, variables
        )
        if "machines" not in result:  # no login, or the module crashed: no machine was asked for
            why = str(result.get("msg") or "the module returned nothing")
            return result, {**reasons, **{node["name"]: why for node in nodes}}
        stayed = (one for one in result["machines"] if one["action"] not in GONE)
        return result, {**reasons, **{one["name"]: stays(one) for one in stayed}}


def stays(machine: Mapping[str, str]) -> str:
    """Why the registration of a machine still exists."""
    return f"registration {machine['machine_id']} was not deleted: {machine['reason']}"


def remaining(machine: ArcMachine, failed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rights of a machine may still exist.

    An identity that only registers machines may not read role assignments. Where the inventory assigns none,
    none is expected.
    """
    if not machine.reported.get("installed", True):
        return []
    expected = machine.request.get("assign_roles")
    return [
        str(result.get("msg") or "the module returned nothing")
        for result in failed
        if expected or (result.get("error") or {}).get("code") != PERMISSION
    ]
