# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that flexnode_source runs on the controller: each once, for all machines that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, PREVIEW
from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.own_node import node_names
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import NOTHING_CHANGED
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    Machine,
    alike,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import outside_run
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.pools import HostState
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid, FlexNodeError
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import ControllerAction, Result
from ansible_collections.aks.flexnode.plugins.plugin_utils.play import PlayVariables

REGISTERED = "__source"  # the result of the task before, in the same run
STATE = "__source_state"  # what roles read on the machine: whether it has joined, and which version it has
READS = ("flexnode_cluster_info", "flexnode_pool_info")  # modules that change nothing


class ModuleFailed(FlexNodeError):
    """One of our modules failed: its result is the result of the task."""

    def __init__(self, result: Result) -> None:
        super().__init__(str(result.get("msg")))
        self.result = result


class SourceModules(ControllerAction):
    """One method per module; what they did is collected in `_actions` and `_changed`."""

    _vars: dict[str, Any]
    _play: PlayVariables
    _options: dict[str, Any]
    _actions: list[str]
    _changed: bool
    _others: list[Machine]  # outside this run, where it was compared with them

    def _state(self, host: str) -> HostState:
        variables: Mapping[str, Any] = self._vars["hostvars"][host]
        return HostState.of(variables.get(STATE))

    def _name_nodes(self, found: Mapping[str, Result], machines: list[Machine]) -> Result:
        """Add to each machine which Nodes the inventory takes for its own; also by host, for the next batch.

        A batch of an update uses what purpose check found: looking at all other machines again would ask
        their vaults again, once per batch.
        """
        known: Mapping[str, list[str]] = (self._vars.get(REGISTERED) or {}).get("node_names") or {}
        if not all(one.host in known for one in machines):
            known = node_names(machines, self._others or self._outside(machines))
        for host, handover in found.items():
            handover["node_names"] = known[host]
        return {"node_names": known}

    def _outside(self, machines: list[Machine]) -> list[Machine]:
        """The machines outside this run; where the inventory names all of its Nodes, nobody needs them."""
        if all(one.node for one in machines):
            return []
        run = {one.host for one in machines}
        outside = [host for host in self._vars["groups"]["all"] if host not in run]
        variables = self._play.compared
        return [outside_run(host, variables) or Machine(host) for host in outside]

    def _configs(
        self,
        machines: list[Machine],
        *,
        need_url: Callable[[Machine], bool],
        new: Container[str],
        each: Callable[[list[Result]], None],
    ) -> list[Result]:
        """new: hosts that say themselves that they have not joined, whatever Azure says of their Nodes.

        each: gets the answers of each call, before another one can fail: a new URL is told only once.
        """
        answers: list[Result] = []
        groups = alike(machines, lambda one: (one.update_secret, need_url(one)))
        for (update_secret, need), members in groups.items():
            options = {
                **self._preview_api,
                "nodes": [
                    one.request(document=one.document, **({"joined": False} if one.host in new else {}))
                    for one in members
                ],
                "update_secret": update_secret,
                "need_url": need,
            }
            found = self._run("flexnode_config", options)["nodes"]
            each(found)
            answers += found
        return answers

    def _clusters(self, machines: list[Machine]) -> list[Result]:
        ids = list(dict.fromkeys(one.cluster_id for one in machines))
        return (
            list(self._run("flexnode_cluster_info", {**self._login, "cluster_ids": ids})["clusters"])
            if ids
            else []
        )

    def _tokens(self, machines: list[Machine]) -> list[Result]:
        """Tokens for the machines that join with one; without such, reading the cluster is enough."""
        answers: list[Result] = []
        try:
            for hours, members in alike(machines, lambda one: one.token_hours).items():
                nodes = [one.request(token=one.wants_token, rollout=one.takes_turns) for one in members]
                options = {**self._login, "nodes": nodes, "ttl_hours": hours}
                answers += self._run("flexnode_bootstrap_token", options)["nodes"]
        except ModuleFailed as failure:
            if any(one.wants_token for one in machines):
                raise
            Display().warning(
                f"RBAC rights of nodes (certificate renewal, leaving) were not checked: {failure.what}"
            )
        return answers

    def _run_blobs(
        self,
        machines: list[Machine],
        documents: Mapping[str, Mapping[str, Any]],
        each: Callable[[list[Result]], None] = lambda answers: None,
        **options: str,
    ) -> list[Result]:
        """One call per storage account: machines may have different ones. each: as of _configs."""
        answers: list[Result] = []
        for storage, members in alike(machines, lambda one: one.storage).items():
            nodes = [
                one.request(**({"document": documents[one.host]} if one.host in documents else {}))
                for one in members
            ]
            account = {**dict(storage), "ca_bundle": self._options["ca_bundle"]}
            found = self._run("flexnode_config_blob", {**account, **options, "nodes": nodes})["nodes"]
            each(found)
            answers += found
        return answers

    def _run(self, module: str, options: Mapping[str, Any]) -> Result:
        args = {name: value for name, value in options.items() if value is not None}
        result = self.on_controller(f"aks.flexnode.{module}", args, self._vars)
        result.pop("invocation", None)
        if result.get("failed"):
            checked_first = module in READS or (result.get("error") or {}).get("code") == ConfigInvalid.code
            if (
                checked_first
                and not self._changed
                and NOTHING_CHANGED not in result["msg"]
                and ConfigInvalid.unchanged not in result["msg"]
            ):
                what, fix, how = result["msg"].partition("\nfix: ")
                result["msg"] = f"{what}\n{NOTHING_CHANGED}{fix}{how}"
            raise ModuleFailed(result)
        self._actions += result.get("actions") or ()
        self._changed = self._changed or bool(result.get("changed"))
        return result

    @property
    def _login(self) -> Result:
        return {name: self._options[name] for name in AZURE}

    @property
    def _preview_api(self) -> Result:
        return {**self._login, **{name: self._options[name] for name in PREVIEW}}


def summary(found: Mapping[str, Mapping[str, Any]], machines: Iterable[Machine], purpose: str) -> Result:
    """What the plays that follow need: per host its handover; which sources, Arc and VPN are used."""
    return {
        "machines": found,
        "names": {one.host: one.node or one.host for one in machines},  # of Nodes, as the inventory has them
        "purpose": purpose,
        "sources": sorted({one.source for one in machines}),
        "arc": any(one["arc"]["enabled"] for one in found.values()),
        "vpn": any(one["vpn"] for one in found.values()),
    }


def row(answer: Mapping[str, Any]) -> Result:
    """What may be shown of a module's answer about one node."""
    shown = ("name", "cluster_id", "action", "config_version", "config_url_expires")
    return {key: answer.get(key) for key in shown}
