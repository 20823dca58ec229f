# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout record of a cluster, for administrators: create it, read it, stop and resume, forget a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...node.dataclass import replace
from ...node.errors import ApiUnreachable, ConfigInvalid, Problem
from ...node.machine.clock import Clock, iso
from ...node.rollout.errors import RolloutUnknown
from ...node.rollout.record import (
    KEY,
    NAME,
    NAMESPACE,
    NewerRecord,
    Rollout,
    Shared,
    as_dict,
    read,
    written,
)
from ..parallel import in_parallel
from .binding import Changes, RbacClient, grant
from .rbac import ROLLOUT

Json = dict[str, Any]
CONFLICT, ATTEMPTS, PAUSE = 409, 8, 0.2  # of a change that meets a change by a node
# Without data: that is an empty record.
RECORD: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": NAME, "namespace": NAMESPACE},
}
OBJECTS = [*(body for _path, body in ROLLOUT.objects), RECORD]  # as in docs/examples/rollout.yaml


class RolloutClient(RbacClient):
    """The API calls for the record."""

    def replace_record(self, body: Json) -> bool:
        """Write the ConfigMap; False where it was changed or deleted since it was read."""
        call = self._core.replace_namespaced_config_map
        return self._call(call, NAME, NAMESPACE, body, accepted=(404, CONFLICT)) is not None


@dataclass(slots=True)
class RolloutChanges(Changes):
    """What was changed, and the record as it is then."""

    shared: Shared = field(default_factory=Shared)
    exists: bool = True


def ensure_rollout(client: RbacClient, done: Changes, *, check: bool) -> None:
    """Create the record and the rights of nodes at it, where they are missing."""
    found = in_parallel(client.read_as, OBJECTS, lambda body: str(body["kind"]))
    rights = [ROLLOUT] if None in found[:-1] else []
    grant(client, rights, done, check=check)
    if found[-1] is None:
        done.actions.append(f"create ConfigMap {NAME} in {NAMESPACE}")
        done.diff.append({"before_header": NAME, "after_header": NAME, "before": {}, "after": RECORD})
        if not check:
            client.create(RECORD)


def administer(
    client: RolloutClient,
    clock: Clock,
    *,
    state: str = "",
    rollout: str = "",
    reason: str = "",
    forget: Sequence[str] = (),
    check: bool = False,
) -> RolloutChanges:
    """Bring the record to a state; again from its new content if a node changed it in between."""
    done = RolloutChanges()
    if state == "present":
        ensure_rollout(client, done, check=check)
    for attempt in range(1, ATTEMPTS + 1):
        found = client.read_as(RECORD)
        if found is None:
            done.exists = False
            if state in ("stopped", "resumed") or forget:
                if check and state == "present":
                    return done
                raise RolloutUnknown("the rollout record does not exist", where=f"{NAMESPACE}/{NAME}")
            return done
        before = _read(found)
        changed, actions = _changed(before, state, rollout, reason, forget)
        done.shared = changed
        if changed == before:
            return done
        data = {**(found.get("data") or {}), KEY: written(changed)}
        if check or client.replace_record({**found, "data": data}):
            done.actions += actions
            head = {"before_header": NAME, "after_header": NAME}
            done.diff.append({**head, "before": as_dict(before), "after": as_dict(changed)})
            return done
        clock.sleep(PAUSE * attempt)
    raise ApiUnreachable("the rollout record can't be written", why=f"nodes changed it {ATTEMPTS} times")


def _read(found: Json) -> Shared:
    try:
        return read(str((found.get("data") or {}).get(KEY) or ""))
    except ValueError as error:
        newer = "install a newer release here: ansible-galaxy collection install aks-flexnode-VERSION.tar.gz"
        damaged = (
            f"look at it (kubectl get configmap {NAME} -n {NAMESPACE} -o yaml). If nothing in it is "
            f"needed and no node is being updated: kubectl delete configmap {NAME} -n {NAMESPACE}, then run "
            "this with state present, and update on the nodes: they register again"
        )
        raise RolloutUnknown(
            "the rollout record can't be used",
            where=f"ConfigMap {NAME} in {NAMESPACE}, key {KEY}",
            why=str(error),
            fix=newer if isinstance(error, NewerRecord) else damaged,
        ) from error


def _changed(
    shared: Shared, state: str, rollout: str, reason: str, forget: Sequence[str]
) -> tuple[Shared, list[str]]:
    """The record as it should be, and what that changes, in words. Pure."""
    actions = []
    for name in forget:
        if name in shared.nodes or name in shared.holders:
            actions.append(f"forget node {name}")
            shared = shared.without_node(name)
    if state not in ("stopped", "resumed"):
        return shared, actions
    name, one = _chosen(shared, rollout, stopped=state == "resumed")
    if state == "stopped" and not one.stopped:
        actions.append(f"stop rollout {name} ({one.what})")
        shared = shared.with_rollout(name, replace(one, stopped=reason or "by an administrator"))
    if state == "resumed" and one.stopped:
        # Rollbacks so far no longer count. Times are the API server's: this clock may differ.
        since = max([one.resumed, *(back.when for back in one.rolled_back.values())])
        actions.append(f"resume rollout {name} ({one.what})")
        shared = shared.with_rollout(name, replace(one, stopped="", resumed=since))
    return shared, actions


def _chosen(shared: Shared, rollout: str, *, stopped: bool) -> tuple[str, Rollout]:
    """The rollout of this name; without a name the newest one. stopped: of those that are stopped, if any."""
    if rollout and rollout in shared.rollouts:
        return rollout, shared.rollouts[rollout]
    known = sorted(
        shared.rollouts,
        key=lambda name: (stopped and bool(shared.rollouts[name].stopped), shared.rollouts[name].started),
    )
    if rollout or not known:
        accepted = f"one of {', '.join(known)}" if known else "a rollout that has begun; there is none"
        raise ConfigInvalid([Problem("rollout", repr(rollout), accepted)], fix="correct the option")
    return known[-1], shared.rollouts[known[-1]]


def described(shared: Shared) -> Json:
    """The record for a module's result: lists, the newest rollout first."""
    data = as_dict(shared)
    newest_first = sorted(shared.rollouts, key=lambda name: -shared.rollouts[name].started)
    return {
        "nodes": [{"name": name, **data["nodes"][name]} for name in sorted(data["nodes"])],
        "holders": [{"name": name, **data["holders"][name]} for name in sorted(data["holders"])],
        "rollouts": [
            {
                "id": name,
                "what": one.what,
                "started": iso(one.started),
                "stopped": one.stopped,
                "done": data["rollouts"][name]["done"],
                "rolled_back": data["rollouts"][name]["rolledBack"],
            }
            for name in newest_first
            for one in (shared.rollouts[name],)
        ],
    }
