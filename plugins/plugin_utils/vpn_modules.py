# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VPN gateways: flexnode_source runs their module once per gateway, for all machines behind it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.clients import unknown_nodes
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.record import valid_nodes
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.checks import Finding
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import NoTargets
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import outside_run
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.vpn import (
    DIRECTORY,
    Site,
    client_name,
    has_place,
    is_provisioned,
    named_nodes,
    names_of,
    shared_certificates,
    sites,
    vpn_findings,
    with_profile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid, Problem
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import Result
from ansible_collections.aks.flexnode.plugins.plugin_utils.pool_modules import PoolModules
from ansible_collections.aks.flexnode.plugins.plugin_utils.progress import shown_progress

MODULE = "flexnode_vpn_gateway"
OF_JOBS = ("AWX_PRIVATE_DATA_DIR", "AWX_ISOLATED_DATA_DIR")  # set in jobs of AWX and Automation Platform


class VpnModules(PoolModules):
    """What is asked for the machines of a run that reach their cluster through a VPN."""

    _vpn: Result

    def _vpn_findings(self, machines: Iterable[Machine], others: Iterable[Machine]) -> list[Finding]:
        return [
            *vpn_findings(machines, ephemeral=any(name in os.environ for name in OF_JOBS)),
            *shared_certificates(machines, others),
        ]

    def _with_profiles(self, machines: list[Machine]) -> list[Machine]:
        """The machines with their profiles; the gateway is made if there is none.

        In check mode no profile exists yet for a machine that would get a new certificate: what a join would
        change is not known then.
        """
        self._vpn = {"pending": [], "replaced": {}}
        found = {one.host: one for one in machines}
        for site in sites(machines):
            names = [client_name(one) for one in site.machines]
            renew = [client_name(one) for one in site.machines if one.vpn_renew]
            answer = self._run_vpn(site, machines=names, renew=renew)
            by_name = {row["name"]: row for row in answer["machines"]}
            for one in site.machines:
                row = by_name[client_name(one)]
                found[one.host] = with_profile(one, row["profile"], answer["gateway"])
                if row["replaced"]:
                    self._vpn["replaced"][one.host] = row["thumbprint"]
                if self._task.check_mode and row["action"] != "unchanged":
                    self._vpn["pending"].append(one.host)
        return list(found.values())

    def _confirm_profiles(self, machines: Iterable[Machine]) -> None:
        """After a join: machines that use their new certificate; the one before is revoked.

        That a run succeeded is no proof: a node whose source could not be read works on with what it has.
        """

        def uses_it(machine: Machine) -> bool:
            variables: Mapping[str, Any] = self._vars["hostvars"][machine.host]
            joined = variables.get("__node_joined") or {}
            known = (variables.get("__source") or {}).get("vpn_certificates") or {}
            new = (known.get("replaced") or {}).get(machine.host)
            failed = any(joined.get(word) for word in ("failed", "unreachable", "skipped"))
            if not new or not joined or failed:
                return False
            if joined.get("vpn_certificate") != new:
                Display().warning(
                    f"{machine.host} does not use its new VPN certificate yet, so the old one stays valid; "
                    "run the same playbook again"
                )
                return False
            return True

        self._each_vpn(machines, "confirmed", uses_it)

    def _revoke_profiles(self, machines: Iterable[Machine]) -> None:
        """After machines have left: nobody connects with their certificates any more.

        What counts is the record, not only the document: that may have changed since the certificate was
        issued.
        """
        leaving = list(machines)
        names = self._names(leaving)
        chosen = [one for one in leaving if is_provisioned(one) or self._is_recorded(one, names[one.host])]
        for one in chosen:
            if not has_place(one):
                what = f"valid VPN certificates of {one.host} were not revoked: its cluster is not known"
                Display().warning(f"{what}; set flexnode_cluster_id and run this again")
        for site, answer in self._left(chosen, names):
            known = {one["node"] for one in answer["certificates"]}
            for one in site.machines if answer["gateway"] else ():
                if is_provisioned(one) and not known & set(names[one.host]):
                    what = f"the record has no VPN certificate of Node {' or '.join(names[one.host])}"
                    Display().warning(f"{one.host}: {what}, so none was revoked")

    def _left(self, machines: list[Machine], names: Mapping[str, list[str]]) -> list[tuple[Site, Result]]:
        return [
            (site, self._run_vpn(site, left=[name for one in site.machines for name in names[one.host]]))
            for site in sites(machines, has_place)
        ]

    def _revoke_named(self, machines: list[Machine]) -> Result:
        """Revoke certificates without their machines, which may be lost: those of the Nodes that were named,
        else of the machines of this run. Names that are not known are an error, after all others."""
        if asked := named_nodes(self._options["revoke"]):
            kept = self._kept_sites(machines, state="revoked")
            gateways = {site.gateway: site for site in kept}
            if len(gateways) > 1:  # a node of another cluster may have the same name
                named = Problem("flexnode_vpn_revoke", ", ".join(asked), "names of Nodes of one VPN gateway")
                several = f"{len(gateways)} gateways, or settings of one that differ"
                fix = f"this run has {several}: add --limit with a machine of the right one"
                raise ConfigInvalid([named], fix=fix)
            answers = [self._run_vpn(site, left=asked) for site in gateways.values()]
            wanted = [[name] for name in asked]
        else:
            names = self._names(machines)
            answers = [answer for _site, answer in self._left(machines, names)]
            wanted = [names[one.host] for one in machines]
        found = _shown(answers)
        known = {one["node"] for one in found["certificates"]}
        missing = [names[0] for names in wanted if not known & set(names)]
        if problems := unknown_nodes("flexnode_vpn_revoke", missing, known):
            raise ConfigInvalid(problems, fix="correct the names; the certificates of all others are revoked")
        return found

    def _names(self, machines: list[Machine]) -> dict[str, list[str]]:
        """By host, the names of its certificates; never one that is another machine's."""
        hostvars = self._vars["hostvars"]
        reported = {
            one.host: str((hostvars[one.host].get("__node_left") or {}).get("node_name") or "")
            for one in machines
        }
        own = {one.host: client_name(one) for one in machines}
        if any({host, reported[host]} - {name, ""} for host, name in own.items()):
            variables = self._play.compared
            outside = (
                outside_run(host, variables) for host in self._vars["groups"]["all"] if host not in own
            )
            own |= {one.host: client_name(one) for one in outside if one}
        return {
            one.host: names_of(
                one, reported[one.host], {name for host, name in own.items() if host != one.host}
            )
            for one in machines
        }

    def _is_recorded(self, machine: Machine, names: Iterable[str]) -> bool:
        return bool((valid_nodes(self._directory(machine), time.time()) or set()) & set(names))

    def _make_gateways(self, machines: list[Machine]) -> Result:
        """Make the gateways alone, before there are machines."""
        return self._kept(machines)

    def _remove_gateways(self, machines: list[Machine]) -> Result:
        """Remove what this collection made, when no machine needs it."""
        return self._kept(machines, state="absent", force=any(one.vpn_force for one in machines))

    def _kept(self, machines: list[Machine], **more: Any) -> Result:
        return _shown([self._run_vpn(site, **more) for site in self._kept_sites(machines, **more)])

    def _kept_sites(self, machines: list[Machine], state: str = "present", **_more: Any) -> list[Site]:
        """The gateways of these machines; what exists is found by its record too, if no document wants it."""
        found = sites(machines)
        if not found and state != "present":

            def recorded(one: Machine) -> bool:
                return has_place(one) and valid_nodes(self._directory(one), time.time()) is not None

            found = sites(machines, recorded)
        if not found:
            raise NoTargets(
                "this needs machines with azure.vpn.enabled and azure.vpn.autoProvision",
                why=f"none of the {len(machines)} machines has both"
                + ("" if state == "present" else ", and there is no record of VPN certificates"),
                fix="set them in flexnode_config",
            )
        return found

    def _each_vpn(self, machines: Iterable[Machine], option: str, chosen: Callable[[Machine], bool]) -> None:
        for site in sites(machines):
            if names := [client_name(one) for one in site.machines if chosen(one)]:
                self._run_vpn(site, **{option: names})

    def _directory(self, machine: Machine) -> str:
        """Where the records are."""
        beside = self._vars["hostvars"][machine.host].get("inventory_dir") or os.getcwd()
        return str(machine.vpn.get("directory") or os.path.join(beside, DIRECTORY))

    def _run_vpn(self, site: Site, **more: Any) -> Result:
        """One call per gateway, and lines about its progress."""
        directory = self._directory(site.machines[0])
        with shown_progress(Display().display) as path:
            answer = self._run(
                MODULE, {**self._login, **site.request(directory, **more), "progress_file": path}
            )
        for note in answer.get("notes") or ():
            Display().warning(note)
        return answer


def _shown(answers: list[Result]) -> Result:
    """What role vpn_gateway shows."""
    return {
        "gateways": [answer["gateway"] for answer in answers if answer["gateway"]],
        "certificates": [one for answer in answers for one in answer["certificates"]],
    }
