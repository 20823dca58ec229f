# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the inventory of a run and resolves the configuration of its machines, once, on the controller."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, PREVIEW
from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.documents import (
    handovers,
    on_their_own,
    taken_names,
    with_clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.leaving import leaving
from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.url_files import UrlFiles
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.checks import lines_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import (
    InventoryInvalid,
    MachinesNotNamed,
    NoTargets,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    POOLS,
    RESOLVED,
    Machine,
    of_sources,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import (
    config_file,
    find_file,
    read_inventory,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc import arc_findings
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.pools import require_documents
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.plugin_utils.document_file import load_document
from ansible_collections.aks.flexnode.plugins.plugin_utils.findings import (
    of_play,
    shared_kubeconfigs,
    unprovable,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import (
    ControllerAction,
    Result,
    hidden,
    undefaulted,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.play import (
    PlayVariables,
    names_machines,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.source_modules import ModuleFailed, row, summary
from ansible_collections.aks.flexnode.plugins.plugin_utils.vpn_modules import VpnModules

PURPOSES_OF_JOIN = ("join", "check", "preflight", "host")
STATES = ("present", "joined", "left", "absent", "renewed", "gateway", "no_gateway", "revoked")
ARGUMENTS: dict[str, dict[str, Any]] = {
    **undefaulted(AZURE),
    **undefaulted(PREVIEW),
    "state": {"type": "str", "choices": list(STATES), "default": "present"},
    "purpose": {
        "type": "str",
        "choices": ["join", "check", "prepare", "preflight", "host", "leave"],
        "default": "join",
    },
    "hosts": {"type": "list", "elements": "str"},
    "sources": {"type": "list", "elements": "str", "choices": list(RESOLVED)},
    "named": {"type": "str"},
    "revoke": {"type": "raw"},
    "only": {"type": "str", "choices": ["azure", "vpn"]},
}


class ActionModule(VpnModules):
    """One task for all machines: read the inventory, check it, ask Azure, return each machine's part."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> Result:
        """Do what `state` says; a failure names what to correct, and shows no secret."""
        super(ControllerAction, self).run(tmp, task_vars)
        self._vars: dict[str, Any] = task_vars or {}
        self._play = PlayVariables(self)
        _valid, self._options = self.validate_argument_spec(argument_spec=ARGUMENTS)
        self._actions, self._changed, self._bootstrap = [], False, {}
        try:
            machines = self._machines()
            work = {
                "present": self._resolve,
                "joined": self._delete_used_tokens,
                "left": self._clean_up,
                "absent": self._delete_configs,
                "renewed": self._renew_tokens,
                "gateway": self._make_gateways,
                "no_gateway": self._remove_gateways,
                "revoked": self._revoke_named,
            }
            result = work[self._options["state"]](machines)
        except ModuleFailed as failure:
            return failure.result
        except FlexNodeError as error:
            return {"failed": True, "msg": str(error), "error": error.as_result()}
        return hidden({"changed": self._changed, "actions": self._actions, **result})

    def _machines(self) -> list[Machine]:
        """The machines of this run; contradictions in the inventory stop the run here."""
        self._require_named()
        joins = self._options["state"] == "present" and self._options["purpose"] in PURPOSES_OF_JOIN
        # Of a batch of an update: purpose check has compared all machines with all others.
        is_batch = bool(self._options["hosts"]) and self._options["purpose"] == "join"
        inventory = read_inventory(
            self._options["hosts"] or self._vars["ansible_play_batch"],
            self._play,
            self._read,
            others={} if is_batch else self._play.compared,
            joins=joins,
        )
        typed = self._play.typed(self._vars.get("ansible_limit"))
        inventory.findings += of_play(self._play, inventory, typed, self._places)
        if joins:
            inventory.findings += arc_findings(inventory.machines)
        if self._is_bootstrap:
            inventory.findings += unprovable(inventory)
        if self._grants_rights:
            inventory.findings += shared_kubeconfigs(inventory.machines)
        if joins or self._options["state"] == "gateway":
            inventory.findings += self._vpn_findings(inventory.machines, inventory.others)
        inventory.require()
        for warning in inventory.warnings:
            Display().warning(warning)
        asks = self._options["purpose"] in ("join", "host") and of_sources(inventory.machines, *RESOLVED)
        if joins and asks and self._play.strategy not in ("linear", "debug"):
            raise InventoryInvalid(
                f"strategy {self._play.strategy} would ask the sources again for every machine",
                fix="run role aks.flexnode.source in an earlier play without `strategy`, as bootstrap does",
            )
        self._others = inventory.others
        return inventory.machines

    @property
    def _is_bootstrap(self) -> bool:
        """Whether machines join after this; an update names the hosts of a batch, config_put its sources."""
        narrowed = self._options["hosts"] or self._options["sources"]
        joins = self._options["state"] == "present" and self._options["purpose"] in ("join", "host")
        return joins and not narrowed

    @property
    def _grants_rights(self) -> bool:
        """Whether machines may get rights in their cluster, or lose them, after this."""
        leaves = self._options["purpose"] == "leave" and bool(self._options["named"])
        return self._is_bootstrap or self._options["purpose"] == "preflight" or leaves

    def _require_named(self) -> None:
        """A playbook that destroys acts only on machines that were named on the command line."""
        playbook, typed = self._options["named"], self._play.typed(self._vars.get("ansible_limit"))
        if not playbook or any(names_machines(pattern) for pattern in typed):
            return
        excluding = next(map(str, typed), "")
        raise MachinesNotNamed(playbook, self._vars["ansible_play_hosts_all"], excluding)

    def _hooks(self, machine: Machine) -> dict[str, str]:
        return {hook: find_file(path, self._places(machine.host)) or path for hook, path in machine.hooks}

    def _places(self, host: str) -> list[str | None]:
        """Where a relative path of a variable may start."""
        beside_inventory = self._vars["hostvars"][host].get("inventory_dir")
        return [os.getcwd(), beside_inventory, self._vars.get("playbook_dir")]

    def _read(self, path: str, host: str) -> Mapping[str, Any]:
        """A configuration file of the controller; one that ansible-vault encrypted is read too."""
        return config_file(path, self._places(host), lambda found: load_document(self._loader, found))

    # --- states --------------------------------------------------------------------------------------------

    def _resolve(self, machines: list[Machine]) -> Result:
        """Ask each source once for all of its machines."""
        chosen = self._options["sources"]
        wanted = of_sources(machines, *chosen) if chosen else machines
        if chosen and not wanted:
            raise self._no_targets(chosen)
        if self._options["purpose"] == "preflight":
            return self._preview(wanted)
        if self._options["purpose"] == "check":
            return self._check(wanted)
        if self._options["purpose"] == "host":
            return {"machines": on_their_own(wanted), "purpose": "host"}
        if self._options["purpose"] != "join":  # what the inventory says is enough
            # A machine of a pool leaves with the help of the login that knows its cluster.
            as_inline = [one if one.source == POOLS else replace(one, source="inline") for one in wanted]
            found = handovers(as_inline, documents={})
            for one in wanted if self._options["purpose"] == "leave" else ():
                found[one.host] |= leaving(one)
            return {**summary(found, wanted, self._options["purpose"]), **self._name_nodes(found, machines)}
        urls = UrlFiles(wanted if chosen else [], check=self._task.check_mode)
        clusters = self._clusters([one for one in of_sources(wanted, "cluster", "blob") if one.cluster_id])
        require_documents(wanted, clusters)  # everything below writes
        # First, because it may take an hour: tokens that were created before it would be old.
        wanted = self._with_profiles(wanted)
        rp, clustered, blob, pooled = (of_sources(wanted, source) for source in RESOLVED)
        of_pools, machines_in_azure = self._pool_join(pooled, data=not chosen)
        # Of an earlier play, if only the source is written now.
        new = () if chosen else {one.host for one in wanted if self._state(one.host).is_new}
        configs = self._configs(
            rp,
            need_url=lambda one: not chosen or bool(one.url_directory),
            new=new,
            each=partial(urls.write, "config_url", "rp"),
        )
        tokens = self._tokens([one for one in (*clustered, *blob) if one.cluster_id])
        taken = taken_names(wanted, [*configs, *tokens], new)
        documents = with_clusters([*clustered, *blob], clusters, tokens)
        free = [one for one in blob if one.host not in taken]
        blobs = self._run_blobs(free, documents, each=partial(urls.write, "url", "blob"))
        found = handovers(
            wanted, documents=documents, configs=configs, blobs=blobs, tokens=tokens, pools=of_pools
        )
        for host in self._vpn["pending"]:
            found[host]["source"] = "pending"
        for host, why in taken.items():
            found[host]["refused"] = why
        return {
            **summary(found, wanted, "join"),
            **self._name_nodes(found, machines),
            "vpn_certificates": self._vpn,
            "nodes": [row(one) for one in (*configs, *blobs, *machines_in_azure)],
            "bootstrap": self._bootstrap,
            "tokens": any(one.get("token") for one in tokens),
            "proof": any(one.proof for one in wanted),
        }

    def _check(self, machines: list[Machine]) -> Result:
        """All checks of a join, for all machines of a fleet, before the first batch of them is written."""
        in_clusters = [one for one in of_sources(machines, "cluster", "blob") if one.cluster_id]
        require_documents(machines, self._clusters(in_clusters))
        of_pools = self._pool_check(of_sources(machines, POOLS))
        return {
            **summary(handovers(machines, documents={}, pools=of_pools), machines, "check"),
            "hooks": {one.host: self._hooks(one) for one in machines},
            **self._name_nodes({}, machines),
        }

    def _preview(self, machines: list[Machine]) -> Result:
        """For preflight: what a join would use, without creating anything. Tokens stay placeholders."""
        named = [one for one in of_sources(machines, "rp", "cluster", "blob") if one.cluster_id]
        of_pools, findings = self._pool_preview(of_sources(machines, POOLS))
        placeholders = [{"name": one.node} for one in named if one.wants_token]
        documents = with_clusters(named, self._clusters(named), placeholders)
        as_inline = [replace(one, source="inline") if one.host in documents else one for one in machines]
        found = handovers(as_inline, documents=documents, pools=of_pools)
        announced = {
            host: {"announced": host in documents, **one, **of_pools.get(host, {})}
            for host, one in found.items()
        }
        return {
            **summary(announced, machines, "preflight"),
            "findings": lines_of(findings),
            "pools_usable": not any(found.severity == "error" for found in findings),
        }

    def _delete_used_tokens(self, machines: list[Machine]) -> Result:
        """After a join: a token that was created for it is deleted, in the cluster and in the blob."""
        in_azure = machines if self._options["only"] != "vpn" else []
        wanted = [
            one for one in of_sources(in_azure, "cluster", "blob") if one.cluster_id and one.wants_token
        ]
        if wanted:
            nodes = [one.request() for one in wanted]
            self._run("flexnode_bootstrap_token", {**self._login, "nodes": nodes, "state": "absent"})
        if blob := of_sources(in_azure, "blob"):
            self._run_blobs(blob, {one.host: one.document for one in blob}, token="remove")  # noqa: S106 - a choice
        if self._options["only"] != "azure":
            self._confirm_profiles(machines)
        return {}

    def _clean_up(self, machines: list[Machine]) -> Result:
        """After a machine has left: its blob is deleted and its URL refused; its machine in Azure is deleted.

        A machine that had not joined here is not deleted in Azure, only named: it may be another owner's.
        """
        results = {one.host: self._vars["hostvars"][one.host].get("__node_left") or {} for one in machines}
        stayed = ("failed", "unreachable")
        # Of a machine without a result nobody knows: it did not leave in this run.
        left = [
            one
            for one in machines
            if results[one.host] and not any(results[one.host].get(word) for word in stayed)
        ]
        if self._options["only"] == "vpn":
            self._revoke_profiles(left)
            return {}
        pooled = [one for one in of_sources(left, POOLS) if results[one.host].get("changed")]
        if kept := [one for one in of_sources(left, POOLS) if one not in pooled]:
            self._warn_of_kept(kept)
        failures, rows = [], []
        try:
            rows = self._pool_delete(pooled)
        except ModuleFailed as failed:
            failures.append(failed)  # the rest is cleaned up all the same
        try:
            if not self._options["only"]:
                self._revoke_profiles(left)
        except ModuleFailed as failed:
            failures.append(failed)
        self._run_blobs(of_sources(left, "blob"), {}, state="absent")
        if failures:
            raise failures[0]
        return {"nodes": [row(one) for one in rows]}

    def _delete_configs(self, machines: list[Machine]) -> Result:
        """Delete flexNodeConfigs, put tombstones into blobs: machines that follow them leave the cluster."""
        rp, blob, pooled = (of_sources(machines, source) for source in ("rp", "blob", POOLS))
        if not rp and not blob and not pooled:
            raise self._no_targets(["rp", "blob", POOLS])
        rows = self._pool_delete(pooled)
        if rp:
            nodes = [one.request(document=one.document) for one in rp]
            rows += self._run("flexnode_config", {**self._preview_api, "nodes": nodes, "state": "absent"})[
                "nodes"
            ]
        if blob:
            rows += self._run_blobs(blob, {one.host: one.document for one in blob}, state="tombstone")
        return {"nodes": [row(one) for one in rows]}

    def _renew_tokens(self, machines: list[Machine]) -> Result:
        """A new token and a new URL for each flexNodeConfig."""
        wanted = [one for one in of_sources(machines, "rp", "url") if one.cluster_id]
        if not wanted:
            raise self._no_targets(["rp", "url"], "with flexnode_cluster_id")
        urls = UrlFiles(wanted, check=self._task.check_mode)
        nodes = [{**one.request(), "name": one.node or one.host} for one in wanted]
        renewed = self._run("flexnode_token", {**self._preview_api, "nodes": nodes})["nodes"]
        urls.write("config_url", "rp", renewed)
        urls.write("config_url", "url", renewed)
        return {"nodes": [row(one) for one in renewed]}

    def _no_targets(self, sources: Iterable[str], more: str = "") -> NoTargets:
        names = " or ".join(sources)
        return NoTargets(
            f"this needs machines with flexnode_config_source {names}{' ' if more else ''}{more}",
            why=f"none of the {len(self._vars['ansible_play_batch'])} machines has it",
            fix="set flexnode_config_source in the inventory, or with -e",
        )
