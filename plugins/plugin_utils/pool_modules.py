# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source `machines`: the modules that flexnode_source runs for machines of FlexNodes pools, per pool once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.checks import (
    Finding,
    lines_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.versions import (
    require_versions,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.pools import (
    Place,
    announced,
    before_data,
    by_place,
    defaults,
    is_current,
    is_fresh,
    options_of,
    pool_findings,
    require_pools,
    wanted,
    with_data,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import Result
from ansible_collections.aks.flexnode.plugins.plugin_utils.progress import shown_progress
from ansible_collections.aks.flexnode.plugins.plugin_utils.source_modules import ModuleFailed, SourceModules

Options = dict[str, Result]  # by host
NEARBY = 20  # hosts; each costs the templating of its variables
NO_MACHINE_CHANGED = (
    "This run changed no machine, in Azure or here. The bootstrap token that it got expires within an hour."
)


class PoolModules(SourceModules):
    """What is asked of Azure for the machines of a run, and what each of them gets."""

    _bootstrap: dict[str, Result]  # by place: bootstrap data of this run, which is a secret

    def _pool_infos(
        self, machines: list[Machine], *, checks: bool, listed: bool = False
    ) -> dict[Place, Result]:
        """Each pool with its cluster; machines are listed when they are written, or if asked for."""
        return {
            place: self._run(
                "flexnode_pool_info",
                {
                    **self._login,
                    "cluster_id": place.cluster_id,
                    "pools": [place.pool],
                    "api_version": place.api or None,
                    "machines": listed,
                    "checks": checks,
                },
            )
            for place in by_place(machines)
        }

    def _pool_findings(self, machines: list[Machine], infos: Mapping[Place, Result]) -> list[Finding]:
        return [
            found
            for place, group in by_place(machines).items()
            for found in pool_findings(place, infos[place], group)
        ]

    def _require_usable(self, machines: list[Machine], infos: Mapping[Place, Result]) -> None:
        """Stop before anything is written if a pool can't be used, or a machine would refuse its versions."""
        require_pools(self._pool_findings(machines, infos))
        require_versions(map(before_data, machines), [info["cluster"] for info in infos.values()])

    def _pool_join(self, machines: list[Machine], *, data: bool) -> tuple[Options, list[Result]]:
        """Write the machines that differ, and get bootstrap data if any of them needs it.

        data: the machines get their configuration in this run; otherwise they are only written.
        """
        found: Options = {}
        rows: list[Result] = []
        infos = self._pool_infos(machines, checks=False)
        self._require_usable(machines, infos)
        self._bootstrap = self._earlier()
        for place, group in by_place(machines).items():
            facts = infos[place]["cluster"]["document"]
            states = {one.host: self._state(one.host) for one in group}
            # Known before anything is written: whoever has not joined needs it, and may be refused it. A
            # login that may not read the pool learns the pool's labels from it.
            hidden = any(pool.get("readable") is False for pool in infos[place]["pools"])
            labelled = hidden and any("labels" in wanted(one) for one in group)
            if data and (labelled or not all(state.joined for state in states.values())):
                self._bootstrap_data(place)
                self._require_pool_versions(place, group, infos[place]["cluster"])
            answers = self._write_machines(place, group)
            if data and not all(is_current(answers[one.node], states[one.host]) for one in group):
                self._bootstrap_data(place)
            for one in group:
                answer = answers[one.node]
                rows.append({**answer, "config_version": answer["etag"]})
                bootstrap = self._bootstrap.get(place.key)
                found[one.host] = options_of(one, answer, states[one.host], bootstrap, facts)
            self._warn_of_versions(place, [one for one in group if found[one.host]["source"] == "inline"])
        return found, rows

    def _pool_check(self, machines: list[Machine]) -> Options:
        """For all checks of a join: the pools can be used, and each machine can be looked at."""
        infos = self._pool_infos(machines, checks=False)
        self._require_usable(machines, infos)
        return self._announced(machines, infos, {})

    def _pool_preview(self, machines: list[Machine]) -> tuple[Options, list[Finding]]:
        """For preflight: nothing is created, so that the API server is known from the cluster alone."""
        infos = self._pool_infos(machines, checks=True)
        clusters: dict[str, Result] = {}
        for one in machines:
            if one.cluster_id in clusters:
                continue
            try:
                clusters[one.cluster_id] = self._clusters([one])[0]["document"]
            except ModuleFailed as failure:
                clusters[one.cluster_id] = {}
                Display().warning(
                    f"what machines of pool {one.pool} can reach was not checked: the login may not read "
                    f"the URL of the API server ({failure.what.splitlines()[0]})"
                )
        return self._announced(machines, infos, clusters), self._pool_findings(machines, infos)

    def _announced(
        self, machines: list[Machine], infos: Mapping[Place, Result], clusters: Mapping[str, Result]
    ) -> Options:
        return {
            one.host: announced(one, infos[place], clusters.get(one.cluster_id) or None)
            for place, group in by_place(machines).items()
            for one in group
        }

    def _pool_delete(self, machines: Iterable[Machine]) -> list[Result]:
        """Delete the machines in Azure, one call per pool."""
        rows: list[Result] = []
        for place, group in by_place(machines).items():
            names = [{"name": one.node} for one in group]
            options = {**self._login, **place.options, "machines": names, "state": "absent"}
            rows += [{**one, "cluster_id": place.cluster_id} for one in self._run_machines(options)]
        return rows

    def _warn_of_kept(self, machines: list[Machine]) -> None:
        """Name machines in Azure whose hosts were no nodes: an interrupted run may have left them there."""
        try:
            infos = self._pool_infos(machines, checks=False, listed=True)
        except ModuleFailed as failure:
            Display().warning(f"the machines of the pool were not listed: {failure.what.splitlines()[0]}")
            return
        for place, group in by_place(machines).items():
            pools = infos[place]["pools"]
            names = {found["name"].lower() for pool in pools for found in pool.get("machines") or ()}
            for one in group:
                if one.node.lower() in names:
                    Display().warning(
                        f"machine {one.node} of pool {place.pool} stays in Azure: host {one.host} was not a "
                        "node. If it belongs to this host: ansible-playbook -i INVENTORY "
                        "aks.flexnode.config_delete "
                        f"-l {one.host}"
                    )

    def _write_machines(self, place: Place, group: list[Machine]) -> dict[str, Result]:
        """The machines of a pool by name: one list, and a PUT for each that differs."""
        known = (self._bootstrap.get(place.key) or {}).get("document")
        options = {
            **self._login,
            **place.options,
            "machines": [wanted(one) for one in group],
            "defaults": defaults(known) if known else None,
        }
        return {one["name"]: one for one in self._run_machines(options)}

    def _run_machines(self, options: Result) -> list[Result]:
        """Write or delete machines. They may wait for an upgrade of the pool: that is shown."""
        with shown_progress(Display().display) as path:
            answer = self._run("flexnode_machine", {**options, "progress_file": path})
        for note in answer.get("notes") or ():
            Display().warning(note)
        machines: list[Result] = answer["machines"]
        return machines

    def _bootstrap_data(self, place: Place) -> None:
        """Bootstrap data of a pool, once per run for all of its machines."""
        if is_fresh(self._bootstrap.get(place.key), time.time()):
            return
        answer = self._run("flexnode_bootstrap_data", {**self._login, **place.options})
        for note in answer["notes"]:
            Display().warning(f"pool {place.pool}: {note}")
        self._bootstrap[place.key] = {key: answer[key] for key in ("document", "obtained")}

    def _require_pool_versions(self, place: Place, machines: list[Machine], cluster: Result) -> None:
        """Stop before a machine is written that would refuse its versions, now that the pool's are known."""
        complete = [machine for machine, _notes in self._with_data(place, machines)]
        require_versions(complete, [cluster], NO_MACHINE_CHANGED)

    def _warn_of_versions(self, place: Place, machines: list[Machine]) -> None:
        """Name the versions of a pool that machines don't get."""
        hosts: dict[str, list[str]] = {}
        for machine, notes in self._with_data(place, machines):
            for note in notes:
                hosts.setdefault(note, []).append(machine.host)
        for line in lines_of(Finding(tuple(found), note, "") for note, found in hosts.items()):
            Display().warning(line)

    def _with_data(self, place: Place, machines: list[Machine]) -> list[tuple[Machine, list[str]]]:
        """Nothing in check mode, as there is no bootstrap data."""
        data = (self._bootstrap.get(place.key) or {}).get("document")
        return [with_data(one, data) for one in machines] if data else []

    def _earlier(self) -> dict[str, Result]:
        """What an earlier batch of this play obtained: hosts just before this batch belonged to it."""
        hosts = list(self._vars["ansible_play_hosts_all"])
        first = next(iter(self._options["hosts"] or self._vars["ansible_play_batch"]), "")
        place, now = hosts.index(first) if first in hosts else 0, time.time()
        for host in reversed(hosts[max(place - NEARBY, 0) : place]):
            known = (self._vars["hostvars"][host].get("__source") or {}).get("bootstrap") or {}
            if fresh := {key: data for key, data in known.items() if is_fresh(data, now)}:
                return fresh
        return {}
