# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Grants and revokes the rights of the Arc machines of a run, and ends their registrations; once for all."""

from __future__ import annotations

import time
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
    by_kubeconfig,
    failed_hosts,
    notes,
    refusals,
    registered,
    role_nodes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc_commands import grant_commands
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import (
    ControllerAction,
    Result,
    undefaulted,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.play import PlayVariables

ARGUMENTS: dict[str, dict[str, Any]] = {
    **undefaulted(AZURE),
    "state": {"type": "str", "choices": ["present", "surplus", "absent"], "default": "present"},
    "machines": {"type": "dict", "required": True, "no_log": True},
}
PERMISSION = "FLEX-1702"
GONE = (DELETED, ABSENT)


class ActionModule(ControllerAction):
    """Role assignments in Azure and bindings in the cluster, for all machines in one task."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> Result:
        """Do what `state` says. A failure is that of single machines: a task that runs once fails for all."""
        super(ControllerAction, self).run(tmp, task_vars)
        variables: dict[str, Any] = task_vars or {}
        _valid, options = self.validate_argument_spec(argument_spec=ARGUMENTS)
        state = options["state"]
        machines = self._machines(options["machines"], variables)
        refused = self._refused(machines, variables) if state == "present" else {}
        machines = [machine for machine in machines if machine.host not in refused]
        results, failures = self._change_rights(machines, options, variables)
        remains: dict[str, list[str]] = {machine.host: [] for machine in machines}
        deleted: list[str] = []
        if state == "present":
            refused |= {host: told(found) for host, found in failures.items() if found}
        elif state == "absent":
            remains = {machine.host: remaining(machine, failures[machine.host]) for machine in machines}
            # Roles are found by the identity of the registration: it stays until they are gone.
            ending = [machine for machine in machines if not remains[machine.host]]
            ended, reasons = self._end_registrations(ending, login_of(options), variables)
            deleted = [one["name"] for one in ended.get("machines") or () if one["action"] in GONE]
            for host, why in reasons.items():
                remains[host].append(why)
            results.append(ended)
        failed = [result for result in results if result.get("failed") and state == "surplus"]
        error = {"failed": True, "error": failed[0].get("error") or {}, "msg": told(failed)} if failed else {}
        return {
            **error,
            "changed": any(result.get("changed") for result in results),
            "actions": [sentence for result in results for sentence in result.get("actions") or ()],
            "diff": [entry for result in results for entry in result.get("diff") or ()],
            "commands": {
                machine.host: grant_commands(machine) for machine in machines if machine.host not in refused
            },
            "refused": refused,
            "remains": remains,
            "notes": notes(machines, results) if state == "absent" else {},
            "deleted": deleted,
            "time": int(time.time()),
        }

    def _change_rights(
        self, machines: Sequence[ArcMachine], options: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> tuple[list[Result], dict[str, list[Mapping[str, Any]]]]:
        """Grant or revoke, one call of each module for all machines; by host, what failed.

        The second one is called once per kubeconfig: each is of another cluster.
        """
        state = options["state"]
        more = {**login_of(options), **({} if state == "present" else {"state": "absent"})}
        calls = [("flexnode_role_assignment", role_nodes(machines, state), more)]
        for path, members in by_kubeconfig(machines).items():
            arguments = {**more, **({"kubeconfig": path} if path else {})}
            calls.append(("flexnode_identity_binding", binding_nodes(members, state), arguments))
        results: list[Result] = []
        failures: dict[str, list[Mapping[str, Any]]] = {machine.host: [] for machine in machines}
        for module, nodes, arguments in calls:
            if not nodes:
                continue
            result = self.on_controller(f"aks.flexnode.{module}", {**arguments, "nodes": nodes}, variables)
            results.append(result)
            for host, failure in failed_hosts(machines, nodes, result).items():
                failures[host].append(failure)
        return results, failures

    def _machines(self, handovers: Mapping[str, Any], variables: Mapping[str, Any]) -> list[ArcMachine]:
        """The machines of the batch: those of earlier ones are done, those of later ones not yet known."""
        hostvars, play = variables["hostvars"], PlayVariables(self)
        return [
            ArcMachine.of_host(host, handovers.get(host, {}).get("arc", {}), hostvars[host], play[host])
            for host in variables["ansible_play_batch"]
        ]

    def _refused(self, machines: Sequence[ArcMachine], variables: Mapping[str, Any]) -> dict[str, str]:
        """By host, why it gets no rights; machines that failed before this have still said who they are."""
        hostvars = variables["hostvars"]
        everyone = [
            ArcMachine.of_host(host, {}, hostvars[host], {}) for host in variables["ansible_play_hosts_all"]
        ]
        return refusals(machines, {one.host: one.resource_id for one in everyone})

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


def login_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The login of the task, for the modules that it runs."""
    return {name: options[name] for name in AZURE if options[name] is not None}


def stays(machine: Mapping[str, str]) -> str:
    """Why the registration of a machine still exists."""
    return f"registration {machine['machine_id']} was not deleted: {machine['reason']}"


def remaining(machine: ArcMachine, failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rights of a machine may still exist.

    An identity that only registers machines may not read role assignments. Where the inventory assigns none,
    none is expected.
    """
    expected = machine.request.get("assign_roles")
    return [str(one["msg"]) for one in failures if expected or one["code"] != PERMISSION]


def told(failures: Sequence[Mapping[str, Any]]) -> str:
    """The messages of failures, each once."""
    return "\n".join(dict.fromkeys(str(one.get("msg") or "the module returned nothing") for one in failures))
