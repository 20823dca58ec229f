# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a pool: one list, a PUT per machine that differs, one call for all that are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ....node.sources.machines import Goal, body_of, pool_id
from ...parallel import in_parallel
from ..errors import AzureUnavailable, ChangedMeanwhile, NotInAzure, PermissionMissing
from .busy import Patience
from .plan import Action, Json, Machine, Wanted, by_node, decide, not_taken, pool_goal, shown
from .pool import require_flexnodes

LISTED_SECONDS = 60.0  # Azure's list of machines follows a deletion with a delay


class Pools(Protocol):
    """The requests for the pools of a cluster."""

    @property
    def cluster(self) -> str: ...

    def get(self, pool: str) -> Json | None: ...

    def machines(self, pool: str) -> Iterable[Json]: ...

    def machine(self, pool: str, name: str) -> Json | None: ...

    def put_machine(self, pool: str, name: str, body: Mapping[str, Any], etag: str = "") -> Json: ...

    def delete_machines(self, pool: str, names: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one machine."""

    name: str
    action: Action
    etag: str = ""
    state: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""  # what the user has to know, though it is no failure

    def as_dict(self) -> Json:
        """The machine as a module returns it."""
        goal = self.action.goal
        return {
            "name": self.name,
            "action": self.action.kind,
            "reasons": list(self.action.reasons),
            "etag": self.etag,
            "provisioning_state": self.state,
            "version": goal.version,
            "max_pods": goal.max_pods,
            "labels": dict(goal.labels),
            "taints": list(goal.taints),
        }

    def sentence(self) -> str:
        """What was done, in words."""
        verb = {"created": "create", "updated": "update", "deleted": "delete"}[self.action.kind]
        return f"{verb} machine {self.name} ({', '.join(self.action.reasons)})"

    def diff(self) -> Json:
        """Before and after."""
        title = f"machine {self.name}"
        after = {} if self.action.kind == "deleted" else shown(self.action.goal)
        return {
            "before_header": title,
            "after_header": title,
            "before": dict(self.before),
            "after": after,
        }


def keep_present(
    pools: Pools,
    pool: str,
    wanted: Sequence[Wanted],
    known: Goal | None = None,
    patience: Patience | None = None,
    *,
    check: bool,
) -> list[Outcome]:
    """Create or change the machines that differ. All are compared before the first is written.

    known: the values of the pool, for a login that may not read it.
    """
    where = pool_id(pools.cluster, pool)
    patience = patience or Patience(where)
    defaults, unreadable = defaults_in(pools, pool, known)
    machines = by_node(pools.machines(pool))

    def decided(one: Wanted, machine: Machine | None) -> Action:
        if unreadable and one.needs_pool(machine):
            raise unreadable
        return decide(one, defaults, machine, where)

    def plan(one: Wanted) -> tuple[Wanted, Action]:
        return one, decided(one, machines.get(one.name))

    def act(planned: tuple[Wanted, Action]) -> Outcome:
        one, action = planned
        machine = machines.get(one.name)
        if check or not action.changes:
            return _outcome(one, action, machine, machine)
        try:
            return patience.retried(lambda: _written(pools, pool, machine, one, action))
        except ChangedMeanwhile:
            # Someone else changed it, or the answer to our own PUT was lost: what is there now decides.
            resource = pools.machine(pool, one.name if machine is None else machine.name)
            now = Machine.of(resource) if resource else None
            again = decided(one, now)
            if not again.changes:
                return _outcome(one, again, now, now)
            return patience.retried(lambda: _written(pools, pool, now, one, again))

    return in_parallel(act, in_parallel(plan, wanted, lambda one: one.name), lambda pair: pair[0].name)


def keep_absent(
    pools: Pools, pool: str, names: Sequence[str], patience: Patience | None = None, *, check: bool
) -> list[Outcome]:
    """Delete machines in one call; afterwards Azure must no longer list them."""
    machines = _listed(pools, pool)
    there = {name: machines[name] for name in names if name in machines}
    if there and not check:
        gone = [machine.name for machine in there.values()]
        delete(pools, pool, gone, patience or Patience(pool_id(pools.cluster, pool)))
    nothing = Goal("")
    return [
        Outcome(
            name,
            Action("deleted", nothing, ("it exists",)) if name in there else Action("absent", nothing),
            before=_shown(there.get(name)),
        )
        for name in names
    ]


def _listed(pools: Pools, pool: str) -> dict[str, Machine]:
    """The machines by Node; none where there is no pool. A cluster or a group that is missing is an error."""
    try:
        return by_node(pools.machines(pool))
    except NotInAzure:
        if pools.get(pool) is not None:
            raise
        return {}


def delete(pools: Pools, pool: str, names: Sequence[str], patience: Patience) -> None:
    """Delete machines and look whether they are gone: an operation that succeeded is no proof."""
    wanted = {name.lower() for name in names}
    patience.retried(lambda: pools.delete_machines(pool, names))
    left = patience.polled(
        lambda: {Machine.of(one).name.lower() for one in pools.machines(pool)} & wanted, LISTED_SECONDS
    )
    if left:
        raise AzureUnavailable(
            f"Azure still lists {', '.join(sorted(left))} after they were deleted",
            where=pool_id(pools.cluster, pool),
            why=f"for {LISTED_SECONDS:.0f} s",
            fix="run this again in a few minutes",
        )


def defaults_in(pools: Pools, pool: str, known: Goal | None) -> tuple[Goal, PermissionMissing | None]:
    """The values of the pool for new machines; an error where there is no such pool of this type.

    With them, why they are not known: the role of FlexNodes pools may use a pool, but not read it. That is
    enough for machines that exist.
    """
    try:
        found = pools.get(pool)
    except PermissionMissing as error:
        return (known, None) if known else (Goal(""), error)
    if found is None:
        raise missing_pool(pools.cluster, pool)
    require_flexnodes(found, pool_id(pools.cluster, pool))
    return pool_goal(found), None


def missing_pool(cluster: str, pool: str) -> NotInAzure:
    """The error for a pool that does not exist."""
    return NotInAzure(
        f"there is no pool {pool}", where=cluster, fix=f"correct flexnode_pool, or {add_line(cluster, pool)}"
    )


def add_line(cluster: str, pool: str) -> str:
    """How a pool is created."""
    parts = cluster.split("/")
    return (
        f"create the pool: az aks nodepool add --resource-group {parts[4]} --cluster-name {parts[-1]} "
        f"--name {pool} --vm-set-type FlexNodes --mode User --max-unavailable 1; or use module flexnode_pool"
    )


def _written(pools: Pools, pool: str, machine: Machine | None, wanted: Wanted, action: Action) -> Outcome:
    """Write a machine. Its goal is what Azure has then: it completes versions, and sets what was not sent.

    What Azure did not take is told, and is no change: the next run would write the same again.
    """
    name = machine.name if machine else wanted.name
    answer = Machine.of(pools.put_machine(pool, name, body_of(action.goal), machine.etag if machine else ""))
    if not answer.etag or answer.state.lower() != "succeeded":  # an operation may end without the resource
        answer = Machine.of(pools.machine(pool, name) or {})
    goal = answer.goal()  # refuses an answer that can't be used: without an eTag, or not settled
    left = not_taken(wanted, action.goal, goal, f"{pool_id(pools.cluster, pool)}/machines/{name}")
    done = replace(action, goal=goal, reasons=tuple(one for one in action.reasons if one not in left))
    if left and not done.reasons and machine and shown(goal) == shown(machine.goal()):
        done = Action("unchanged", goal)
    return replace(_outcome(wanted, done, machine, answer), note=_note(name, left))


def _note(name: str, left: Sequence[str]) -> str:
    if not left:
        return ""
    return (
        f"Azure did not take this for machine {name}: {', '.join(left)}. The node gets what the machine has "
        "in Azure. Change it there (az aks machine update), or recreate the machine: unbootstrap, then "
        "bootstrap"
    )


def _outcome(wanted: Wanted, action: Action, before: Machine | None, after: Machine | None) -> Outcome:
    return Outcome(
        wanted.name, action, after.etag if after else "", after.state if after else "", _shown(before)
    )


def _shown(machine: Machine | None) -> Mapping[str, Any]:
    """Before a change; a machine that can't be used is shown as little as Azure says of it."""
    if machine is None:
        return {}
    known = machine.as_dict()
    return {
        "version": known["version"],
        "maxPods": known["max_pods"],
        "labels": known["labels"],
        "taints": known["taints"],
    }
