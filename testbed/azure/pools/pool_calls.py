# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.ContainerService/managedClusters/agentPools: pools, and the bootstrap data of their machines."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import replace
from typing import Any

from testbed.azure.arm import errors, managed_clusters, operations
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.pools import rules
from testbed.azure.pools.refusals import refuse
from testbed.azure.pools.store import Pool, new_etag

KIND = f"{managed_clusters.KIND}/agentPools"
VERSIONS = ("2026-05-02-preview", "2026-06-02-preview", "2026-07-02-preview", "2026-08-02-preview")
POOLS = f"{managed_clusters.CLUSTER}/agentPools"
POOL = f"{POOLS}/{{pool}}"
FEATURE = "Microsoft.ContainerService/AKSFlexNodePreview"


def find(call: Call) -> Pool | None:
    """The pool that a request names."""
    managed_clusters.require(call)
    return call.cloud.pools.pools.find(call.values["pool"])


def require(call: Call) -> Pool:
    """The pool that a request names, or 404."""
    if pool := find(call):
        return pool
    place = call.cloud.place
    raise errors.no_pool(call.values["pool"], place.cluster_name, call.values["group"], place.subscription_id)


def require_flex(pool: Pool) -> None:
    """Refuse pools that have neither bootstrap data nor machines of their own."""
    if pool.properties["type"] != rules.FLEX:
        kind = pool.properties["type"]
        raise refuse("other pool type", f"Agent pool '{pool.name}' is of type {kind}, not FlexNodes.")


def require_feature(call: Call) -> None:
    """Refuse what belongs to the preview where it is not registered."""
    if not call.cloud.database.settings.flex_node_feature:
        raise refuse("feature", f"Preview feature {FEATURE} not registered.")


def refuse_while_busy(call: Call) -> None:
    """One operation at a time on the pools of a cluster."""
    for other in call.cloud.pools.pools.all():
        if other.busy:
            doing = other.provisioning_state.lower()
            raise refuse(
                "busy",
                f"Operation is not allowed because there's an in progress {doing} agent pool operation on "
                f"'{other.name}'. Please wait for it to finish before starting a new operation.",
            )


def envelope(call: Call, pool: Pool) -> dict[str, Any]:
    """The pool as a resource."""
    return {
        "id": f"{call.cloud.place.cluster_id}/agentPools/{pool.name}",
        "name": pool.name,
        "type": KIND,
        "properties": pool.shown(),
    }


def put(call: Call) -> Answer:
    """Create or replace a pool; a new version upgrades its machines."""
    service = call.cloud.pools
    with service.writing:
        before = find(call)
        name = before.name if before else rules.pool_name(call.values["pool"])
        rules.check_etag(call.headers, before.etag if before else None)
        properties = rules.pool(
            call.body(), before.properties if before else None, service.control_plane_version
        )
        if properties["type"] == rules.FLEX:
            require_feature(call)
        refuse_while_busy(call)
        full = service.full_version(properties["orchestratorVersion"])
        if before is None:
            return _begin(call, Pool(name, properties, full, new_etag()), "Creating")
        if properties == before.properties and before.provisioning_state == "Succeeded":
            return Answer(200, envelope(call, before))
        pool = replace(before, properties=properties, etag=new_etag(), error=None)
        if full == before.current_version:  # other changes concern machines that join later
            return _begin(call, pool, "Updating")
        return _upgrade(call, pool)


def _begin(call: Call, pool: Pool, state: str) -> Answer:
    """A write that ends by itself after the time that is set."""
    seconds = call.cloud.database.settings.operation_seconds
    new = call.cloud.pools.pools.write(replace(pool, state=state, settled=time.time() + seconds))
    body = envelope(call, new)
    body["properties"]["provisioningState"] = state  # however short it is: the operation tells when it ends
    return Answer(201 if state == "Creating" else 200, body, _headers(operations.begin(call, None)))


def _upgrade(call: Call, pool: Pool) -> Answer:
    service, operation = call.cloud.pools, str(uuid.uuid4())
    new = service.pools.write(replace(pool, state="Upgrading", settled=math.inf))
    headers = _headers(operations.begin(call, None, math.inf, operation))
    body = envelope(call, new)
    service.upgrade(new, operation)
    return Answer(200, body, headers)


def _headers(headers: dict[str, str]) -> dict[str, str]:
    """A PUT of AKS names its operation, and no Location."""
    return {name: value for name, value in headers.items() if name != "Location"}


def get(call: Call) -> Answer:
    """One pool."""
    return Answer(200, envelope(call, require(call)))


def listed(call: Call) -> Answer:
    """Every pool of the cluster."""
    managed_clusters.require(call)
    return Answer(200, page(call, [envelope(call, pool) for pool in call.cloud.pools.pools.all()]))


def delete(call: Call) -> Answer:
    """Delete a pool. Azure documents that only for a pool without machines."""
    service = call.cloud.pools
    with service.writing:
        pool = find(call)
        if pool is None:
            return Answer(204)
        rules.check_etag(call.headers, pool.etag)
        refuse_while_busy(call)
        if machines := service.machines.all(pool.name):
            names = ", ".join(machine.name for machine in machines)
            raise refuse("pool has machines", f"Agent pool '{pool.name}' has machines: {names}.")
        service.pools.delete(pool.name)
    return Answer(202, None, operations.begin(call, None))


def bootstrap_data(call: Call) -> Answer:
    """What machines of the pool join with: a fresh token each time, throttled for the whole subscription."""
    pool = require(call)
    require_flex(pool)
    require_feature(call)
    place, service = call.cloud.place, call.cloud.pools
    settings = call.cloud.database.settings
    _, seconds = service.throttle.take_kind(place.subscription_id, "bootstrap_data", settings)
    if seconds:
        message = (
            f"Too many listBootstrapData requests for subscription {place.subscription_id}: "
            f"retry after {seconds} seconds."
        )
        raise refuse("throttled", message, retry_after=str(seconds))
    call.body()
    return Answer(200, service.bootstrap_data(pool))


def operation(method: str, path: str, action: str, handler: Any, over: str = "") -> Operation:
    """A row of the table: these types check their api-versions themselves."""
    return Operation(method, path, action, handler, over, VERSIONS, refuse_version=errors.invalid_api_version)


OPERATIONS = (
    operation("GET", POOLS, f"{KIND}/read", listed, managed_clusters.CLUSTER),
    operation("GET", POOL, f"{KIND}/read", get),
    operation("PUT", POOL, f"{KIND}/write", put),
    operation("DELETE", POOL, f"{KIND}/delete", delete),
    operation(
        "POST",
        f"{POOL}/listBootstrapData",
        f"{KIND}/listBootstrapData/action",
        bootstrap_data,
        POOL,
    ),
    # The caller that began an operation may read it: its name cannot be guessed.
    operation("GET", f"{POOL}/operations/{{name}}", "", operations.status),
)
