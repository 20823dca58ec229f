# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VPN gateways: flexnode_source runs their module once per gateway, for all machines behind it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.checks import Finding
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import NoTargets
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.vpn import (
    DIRECTORY,
    Site,
    client_name,
    sites,
    vpn_findings,
    with_profile,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import Result
from ansible_collections.aks.flexnode.plugins.plugin_utils.pool_modules import PoolModules
from ansible_collections.aks.flexnode.plugins.plugin_utils.progress import shown_progress

MODULE = "flexnode_vpn_gateway"
OF_JOBS = ("AWX_PRIVATE_DATA_DIR", "AWX_ISOLATED_DATA_DIR")  # set in jobs of AWX and Automation Platform


class VpnModules(PoolModules):
    """What is asked for the machines of a run that reach their cluster through a VPN."""

    _vpn: Result

    def _vpn_findings(self, machines: Iterable[Machine]) -> list[Finding]:
        return list(vpn_findings(machines, ephemeral=any(name in os.environ for name in OF_JOBS)))

    def _with_profiles(self, machines: list[Machine]) -> list[Machine]:
        """The machines with their profiles; the gateway is made if there is none.

        In check mode no profile exists yet for a machine that would get a new certificate: what a join would
        change is not known then.
        """
        self._vpn = {"pending": [], "replaced": []}
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
                    self._vpn["replaced"].append(one.host)
                if self._task.check_mode and row["action"] != "unchanged":
                    self._vpn["pending"].append(one.host)
        return list(found.values())

    def _confirm_profiles(self, machines: Iterable[Machine]) -> None:
        """After a join: machines that got a new certificate use it, so the one before is revoked."""

        def uses_it(machine: Machine) -> bool:
            variables: Mapping[str, Any] = self._vars["hostvars"][machine.host]
            joined = variables.get("__node_joined") or {}
            known = (variables.get("__source") or {}).get("vpn_certificates") or {}
            failed = any(joined.get(word) for word in ("failed", "unreachable", "skipped"))
            return bool(joined) and not failed and machine.host in known.get("replaced", ())

        self._each_vpn(machines, "confirmed", uses_it)

    def _revoke_profiles(self, machines: Iterable[Machine]) -> None:
        """After machines have left: nobody connects with their certificates any more."""
        for site in sites(machines):
            answer = self._run_vpn(site, left=[client_name(one) for one in site.machines])
            known = {one["node"] for one in answer["certificates"]}
            for one in site.machines if answer["gateway"] else ():
                if client_name(one) not in known:
                    what = f"the record has no VPN certificate of Node {client_name(one)}"
                    Display().warning(f"{one.host}: {what}, so none was revoked")

    def _make_gateways(self, machines: list[Machine]) -> Result:
        """Make the gateways alone, before there are machines."""
        return self._kept(machines)

    def _remove_gateways(self, machines: list[Machine]) -> Result:
        """Remove what this collection made, when no machine needs it."""
        return self._kept(machines, state="absent", force=any(one.vpn_force for one in machines))

    def _kept(self, machines: list[Machine], **more: Any) -> Result:
        found = sites(machines)
        if not found:
            raise NoTargets(
                "this needs machines with azure.vpn.enabled and azure.vpn.autoProvision",
                why=f"none of the {len(machines)} machines has both",
                fix="set them in flexnode_config",
            )
        answers = [self._run_vpn(site, **more) for site in found]
        return {
            "gateways": [answer["gateway"] for answer in answers if answer["gateway"]],
            "certificates": [one for answer in answers for one in answer["certificates"]],
        }

    def _each_vpn(self, machines: Iterable[Machine], option: str, chosen: Callable[[Machine], bool]) -> None:
        for site in sites(machines):
            if names := [client_name(one) for one in site.machines if chosen(one)]:
                self._run_vpn(site, **{option: names})

    def _run_vpn(self, site: Site, **more: Any) -> Result:
        """One call per gateway, and lines about its progress."""
        beside = self._vars["hostvars"][site.machines[0].host].get("inventory_dir") or os.getcwd()
        directory = os.path.join(beside, DIRECTORY)
        with shown_progress(Display().display) as path:
            answer = self._run(
                MODULE, {**self._login, **site.request(directory, **more), "progress_file": path}
            )
        for note in answer.get("notes") or ():
            Display().warning(note)
        return answer
