# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.ContainerService/managedClusters/agentPools/machines: the goal of each node of a pool."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import replace
from typing import Any

from testbed.azure.arm import errors, operations
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.pools import pool_calls, rules
from testbed.azure.pools.pool_calls import POOL
from testbed.azure.pools.refusals import refuse
from testbed.azure.pools.store import Machine, Pool, new_etag

KIND = f"{pool_calls.KIND}/machines"
VERSIONS = ("2025-10-02-preview", *pool_calls.VERSIONS)
MACHINES = f"{POOL}/machines"
MACHINE = f"{MACHINES}/{{machine}}"
FEATURE = "Microsoft.ContainerService/PutMachinePreview"


def envelope(call: Call, machine: Machine) -> dict[str, Any]:
    """The machine as a resource."""
    return {
        "id": f"{call.cloud.place.cluster_id}/agentPools/{machine.pool}/machines/{machine.name}",
        "name": machine.name,
        "type": KIND,
        "properties": machine.shown(),
    }


def _created(call: Call, pool: Pool, goal: dict[str, Any]) -> Machine:
    """A new machine: what its PUT does not say comes from the pool."""
    properties = {**pool.properties, **goal}
    version = goal.get("orchestratorVersion") or call.cloud.pools.full_version(
        properties["orchestratorVersion"]
    )
    return Machine(
        pool=pool.name,
        name=rules.machine_name(call.values["machine"]),
        version=version,
        full_version=call.cloud.pools.full_version(version),
        max_pods=properties["maxPods"],
        labels=_labels(properties),
        taints=list(properties.get("nodeTaints", [])),
        etag=new_etag(),
    )


def _changed(call: Call, before: Machine, goal: dict[str, Any]) -> Machine:
    """An existing machine: labels and taints are replaced as a whole, maxPods stays for ever."""
    if goal.get("maxPods", before.max_pods) != before.max_pods:
        raise refuse("fixed", "Changing property 'properties.kubernetes.maxPods' is not allowed.")
    version = goal.get("orchestratorVersion", before.version)
    return before.with_goal(
        version=version,
        full_version=call.cloud.pools.full_version(version),
        labels=_labels(goal),
        taints=list(goal.get("nodeTaints", [])),
    )


def _labels(goal: dict[str, Any]) -> dict[str, str]:
    """The caller's own: AKS's label is added to each answer, and may come back."""
    return {name: value for name, value in goal.get("nodeLabels", {}).items() if name != rules.MANAGED}


def put(call: Call) -> Answer:
    """Create a machine or change its goal."""
    service = call.cloud.pools
    settings = call.cloud.database.settings
    with service.writing:
        pool = pool_calls.require(call)
        pool_calls.require_flex(pool)
        if not settings.machine_feature:
            raise refuse("feature", f"Preview feature {FEATURE} not registered.")
        before = service.machines.find(pool.name, call.values["machine"])
        rules.check_etag(call.headers, before.etag if before else None)
        goal = rules.machine(call.body(), service.control_plane_version)
        if before and before.provisioning_state != "Succeeded":
            raise refuse("busy", f"There's an in progress operation on machine '{before.name}'.")
        after = _changed(call, before, goal) if before else _created(call, pool, goal)
        seconds = settings.machine_put_seconds
        if seconds:
            state = "Updating" if before else "Creating"
            after = replace(after, state=state, settled=time.time() + seconds)
        service.machines.write(after)
        if before:
            service.patch(before, after)
    body = envelope(call, after)
    if seconds:
        headers = operations.begin(call, None, seconds)
        return Answer(201, body, {name: headers[name] for name in ("Azure-AsyncOperation", "Retry-After")})
    return Answer(200 if before else 201, body)


def get(call: Call) -> Answer:
    """One machine."""
    pool = pool_calls.require(call)
    if machine := call.cloud.pools.machines.find(pool.name, call.values["machine"]):
        return Answer(200, envelope(call, machine))
    raise errors.no_machine()


def listed(call: Call) -> Answer:
    """Every machine of a pool."""
    pool = pool_calls.require(call)
    return Answer(200, page(call, [envelope(call, one) for one in call.cloud.pools.machines.all(pool.name)]))


def delete(call: Call) -> Answer:
    """Delete machines: gone from Azure at once, then their nodes are made to leave."""
    service = call.cloud.pools
    with service.writing:
        pool = pool_calls.require(call)
        pool_calls.require_flex(pool)
        names = call.body().get("machineNames")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise refuse("value", "Required parameter machineNames is missing or not a list of names.")
        found = {name: service.machines.find(pool.name, name) for name in names}
        if missing := [name for name, machine in found.items() if machine is None]:
            raise refuse("no such machine", f"Agent pool '{pool.name}' has no machines {', '.join(missing)}.")
        pool_calls.refuse_while_busy(call)
        machines = [machine for machine in found.values() if machine]
        for machine in machines:
            service.machines.delete(pool.name, machine.name)
        operation = str(uuid.uuid4())
        headers = operations.begin(call, None, math.inf, operation)
        service.delete(pool.name, machines, operation)
    return Answer(202, None, headers)


def _row(method: str, path: str, action: str, handler: Any, over: str = "") -> Operation:
    return Operation(method, path, action, handler, over, VERSIONS, refuse_version=errors.invalid_api_version)


OPERATIONS = (
    _row("GET", MACHINES, f"{KIND}/read", listed, POOL),
    _row("GET", MACHINE, f"{KIND}/read", get),
    _row("PUT", MACHINE, f"{KIND}/write", put),
    _row("POST", f"{POOL}/deleteMachines", f"{pool_calls.KIND}/deleteMachines/action", delete, POOL),
)
