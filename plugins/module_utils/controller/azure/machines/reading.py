# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be read about a pool's cluster, the feature flags and the caller's own permissions.

A login with the role of FlexNodes pools may read none of them: then nothing is known, which is no error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....node.config.types.values import ArmId
from ....node.errors import FlexNodeError
from ....node.node_object.conditions import kubelet_version, ready_condition
from ....node.procedures.arc.roles import allowed
from ....node.sources.machines import pool_id
from ..aks.cluster import cluster_part, summary
from ..arm import OPERATION_SECONDS, Arm, Json
from ..errors import NotInAzure, PermissionMissing
from ..login import Login, claims_of
from .api import CLUSTER_API_VERSION, Pools
from .plan import Machine
from .pool import TYPE, described

FEATURES = ("AKSFlexNodePreview", "PutMachinePreview")
FEATURES_API_VERSION = "2021-07-01"
PERMISSIONS_API_VERSION = "2022-04-01"
AGENT_POOLS = "Microsoft.ContainerService/managedClusters/agentPools"
# What a join needs at the pool.
ACTIONS = (
    f"{AGENT_POOLS}/listBootstrapData/action",
    f"{AGENT_POOLS}/machines/read",
    f"{AGENT_POOLS}/machines/write",
)
PAUSE = 5.0


def cluster_facts(login: Login, cluster: ArmId) -> Json:
    """What a cluster determines of its nodes; with `readable: false` only what its id says."""
    endpoints = login.endpoints
    tenant = login.settings.tenant or str(claims_of(login.token(endpoints.scope)).get("tid") or "")
    try:
        found = Arm(login, CLUSTER_API_VERSION, PAUSE, OPERATION_SECONDS).get(cluster.canonical())
    except PermissionMissing:
        found = None
        readable = False
    else:
        readable = True
        if found is None:
            raise NotInAzure(
                "the cluster set in flexnode_cluster_id was not found in Azure", where=str(cluster)
            )
    known = found or {"id": cluster.canonical()}
    return {
        "id": cluster.canonical(),
        "readable": readable,
        **summary(known),
        "document": cluster_part(known, endpoints, tenant),
    }


def features(login: Login, cluster: ArmId) -> dict[str, str]:
    """The state of each feature flag of the preview; one that can't be read is left out."""
    arm = Arm(login, FEATURES_API_VERSION, PAUSE)
    base = (
        f"/subscriptions/{cluster.subscription_id}/providers/Microsoft.Features"
        "/providers/Microsoft.ContainerService/features"
    )
    found: dict[str, str] = {}
    for name in FEATURES:
        try:
            answer = arm.get(f"{base}/{name}")
        except FlexNodeError:  # not readable with this login, or not offered in this cloud
            continue
        if answer is not None:
            found[name] = str((answer.get("properties") or {}).get("state") or "")
    return found


def missing_actions(login: Login, api: Pools, pool: str) -> list[str] | None:
    """The actions that the login lacks at a pool; None: Azure does not say.

    The role of FlexNodes pools may not read permissions: then only a request shows whether it is assigned.
    """
    arm = Arm(login, PERMISSIONS_API_VERSION, PAUSE)
    path = f"{pool_id(api.cluster, pool)}/providers/Microsoft.Authorization/permissions"
    try:
        granted: list[Any] = list(arm.pages(path))
        return [action for action in ACTIONS if not allowed(granted, action)]
    except PermissionMissing:
        pass
    except FlexNodeError:
        return None
    try:
        next(iter(api.machines(pool)), None)
    except PermissionMissing:
        return list(ACTIONS)
    except FlexNodeError:
        return None
    return []


def pools_of(api: Pools, names: Sequence[str], *, machines: bool) -> tuple[list[Json], list[str]]:
    """Pools with their machines, and those of `names` that do not exist. No names: all FlexNodes pools."""
    found: list[Json] = []
    missing: list[str] = []
    if not names:
        every = (described(one, api.cluster) for one in api.list())
        found = [{**one, "readable": True} for one in every if one["type"].lower() == TYPE.lower()]
    for name in names:
        try:
            pool = api.get(name)
        except PermissionMissing:
            found.append({**described({"name": name}, api.cluster), "readable": False})
            continue
        if pool is None:
            missing.append(name)
        else:
            found.append({**described(pool, api.cluster), "readable": True})
    if machines:
        for one in found:
            if one["type"].lower() in (TYPE.lower(), ""):
                one["machines"] = [Machine.of(item).as_dict() for item in api.machines(one["name"])]
    return found, missing


def with_nodes(pools: Sequence[Json], nodes: Mapping[str, Mapping[str, Any]]) -> list[Json]:
    """Pools whose machines have the state of their Nodes."""

    def state(machine: Json) -> Json:
        node = nodes.get(machine["node_name"])
        if node is None:
            return {"node_state": "no Node", "kubelet_version": ""}
        ready = "Ready" if ready_condition(node)[0] else "NotReady"
        return {"node_state": ready, "kubelet_version": kubelet_version(node)}

    return [
        {**pool, "machines": [{**one, **state(one)} for one in pool.get("machines") or ()]} for pool in pools
    ]
