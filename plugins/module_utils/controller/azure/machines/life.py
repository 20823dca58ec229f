# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change, upgrade and delete one pool."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....node.errors import counted
from ....node.sources.machines import pool_id
from ..arm import Json
from ..errors import ChangedMeanwhile, PoolUnusable
from .api import Pools
from .busy import Idle
from .fleet import delete
from .plan import Machine
from .pool import (
    WantedPool,
    described,
    differences,
    known_settings,
    properties_of,
    require_flexnodes,
    require_not_newer,
)

SOME = 5
READS = 5  # of a pool whose eTag changes between reading and writing
FIXED = "maxUnavailable"  # Azure answers a PUT of another one with 200, and keeps the one of the creation


@dataclass(slots=True)
class PoolChange:
    """What was done to a pool, or would be."""

    actions: list[str] = field(default_factory=list)
    pool: Json = field(default_factory=dict)
    diff: Json = field(default_factory=dict)
    note: str = ""  # what the user has to know, though it is no failure


def keep_present(pools: Pools, name: str, wanted: WantedPool, idle: Idle, *, check: bool) -> PoolChange:
    """Create the pool, or change what differs; a new version is an upgrade, which AKS does node by node."""
    where, found = pool_id(pools.cluster, name), pools.get(name)
    if found is not None:
        require_flexnodes(found, where)
    known = known_settings(found)
    properties = (found or {}).get("properties") or {}
    settings, reasons = compared(found, wanted)
    if found is None:
        reasons = ["it does not exist"]
    elif str(properties.get("provisioningState")).lower() == "failed":
        reasons.append("its last change failed")
    if not reasons or (found is not None and reasons == [FIXED]):
        # A write because of that alone would be an operation on the cluster in each run, and change nothing.
        return PoolChange(pool=described(found or {}, pools.cluster), note=_note(name, known, reasons))
    if found is None or "version" in reasons:
        require_not_newer(str(settings["version"]), idle.control_plane(), where)
    before: Json = {} if found is None else known
    if check:
        planned = {"name": name, "properties": properties_of(settings)}
        return PoolChange(
            _sentences(found, name, reasons),
            described(planned, pools.cluster),
            _diff(name, before, settings),
        )

    def write() -> Json:
        """The pool is read again: an operation that was waited for may have changed it, and its eTag.

        The eTag also changes without a write, while machines join. What someone else wrote meanwhile stays:
        only what is asked for here is written over what is there now.
        """
        for left in reversed(range(READS)):
            now = pools.get(name)
            properties = (now or {}).get("properties") or {}
            settings, differs = compared(now, wanted)
            failed = str(properties.get("provisioningState")).lower() == "failed"
            if now is not None and not differs and not failed:
                return now
            try:
                return pools.put(name, properties_of(settings), str(properties.get("eTag") or ""))
            except ChangedMeanwhile:
                if not left:
                    raise
            idle.pause()
        raise AssertionError("unreachable: the last attempt returns or raises")

    written = idle.retried(write)
    # An operation may end without the resource; what Azure has now is what counts.
    now = pools.get(name) or written
    left = compared(now, wanted)[1]
    taken = [reason for reason in reasons if reason not in left]
    return PoolChange(
        _sentences(found, name, taken),
        described(now, pools.cluster),
        _diff(name, before, known_settings(now)) if taken else {},
        _note(name, known_settings(now), left),
    )


def _note(name: str, known: Json, left: list[str]) -> str:
    """What Azure did not take, and what ends that."""
    others = [one for one in left if one != FIXED]
    notes = []
    if others:
        notes.append(f"Azure accepted a write of pool {name}, but did not take this: {', '.join(others)}")
    if FIXED in left:
        notes.append(
            f"Azure keeps {FIXED} {known[FIXED] or 'unset'} of pool {name}: it takes another one only when a "
            "pool is created. Set max_unavailable to what is there, or create the pool anew"
        )
    return "; ".join(notes)


def _sentences(found: Json | None, name: str, reasons: list[str]) -> list[str]:
    verb = "create" if found is None else "upgrade" if "version" in reasons else "update"
    return [f"{verb} pool {name} ({', '.join(reasons)})"] if reasons else []


def compared(pool: Json | None, wanted: WantedPool) -> tuple[Json, list[str]]:
    """The settings that a pool has to have, and those that differ.

    A version such as 1.36 is any release of it: a write because of a label must not ask for another one.
    """
    known = known_settings(pool)
    settings = wanted.over(known)
    current = str(((pool or {}).get("properties") or {}).get("currentOrchestratorVersion") or "")
    reasons = differences(known, settings, current)
    return settings if "version" in reasons else {**settings, "version": known["version"]}, reasons


def keep_absent(pools: Pools, name: str, idle: Idle, *, machines_too: bool, check: bool) -> PoolChange:
    """Delete the pool; one that has machines only if that is asked for."""
    where, found = pool_id(pools.cluster, name), pools.get(name)
    if found is None:
        return PoolChange()
    require_flexnodes(found, where)
    machines = sorted(Machine.of(one).name for one in pools.machines(name))
    if machines and not machines_too:
        some = ", ".join(machines[:SOME]) + (", ..." if len(machines) > SOME else "")
        raise PoolUnusable(
            f"the pool has {counted(len(machines), 'machine')}: {some}",
            where=where,
            why="deleting it would take them from their nodes",
            fix="remove them first: ansible-playbook -i INVENTORY "
            "aks.flexnode.unbootstrap --limit HOSTS; or set "
            "delete_machines: true",
        )
    done = PoolChange([f"delete pool {name} (it exists)"], diff=_diff(name, known_settings(found), {}))
    if machines:
        done.actions.insert(0, f"delete machines {', '.join(machines)}")
    if not check:
        if machines:
            delete(pools, name, machines, idle)
        idle.retried(lambda: pools.delete(name))
    return done


def _diff(name: str, before: Json, after: Json) -> Json:
    title = f"pool {name}"
    return {"before_header": title, "after_header": title, "before": before, "after": after}
