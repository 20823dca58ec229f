# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of FlexNodes pools: what they need from Azure, and what is wrong with their pools. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...node.config.document import merge
from ...node.errors import ConfigInvalid
from ...node.secret import REDACTED
from ...node.sources.machines import Goal, pool_id, role_line
from ...node.sources.pool_versions import stand_ins, usable_versions
from ..azure.errors import PoolUnusable
from ..azure.flexnode_config.plan import checked
from ..azure.machines.fleet import add_line
from ..azure.machines.plan import wanted_of
from ..azure.machines.pool import TYPE, is_newer
from ..inventory.checks import Finding, lines_of
from ..inventory.errors import NOTHING_CHANGED
from ..inventory.machines import POOLS, Document, Machine, section
from ..inventory.versions import UNKNOWN, require_versions

# A token is valid for an hour; what is older than this may expire during a join.
FRESH_SECONDS = 45 * 60
# In each subscription; the second one only where the region has an older release of AKS.
FEATURES = {"AKSFlexNodePreview": "error", "PutMachinePreview": "warning"}


@dataclass(frozen=True, slots=True)
class Place:
    """One pool, as it is asked for."""

    cluster_id: str
    pool: str
    api: str = ""

    @property
    def key(self) -> str:
        """Its id, with the version of the API."""
        return f"{pool_id(self.cluster_id, self.pool).lower()}?{self.api}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of the modules that work on a pool."""
        return {"cluster_id": self.cluster_id, "pool": self.pool, "api_version": self.api or None}


@dataclass(frozen=True, slots=True)
class HostState:
    """What a machine itself says: whether its kubelet has a certificate, and which version it has applied."""

    joined: bool = False
    version: str = ""
    asked: bool = False  # before a join, whatever its source

    @property
    def is_new(self) -> bool:
        """Whether the machine itself says that it has not joined."""
        return self.asked and not self.joined

    @classmethod
    def of(cls, state: Mapping[str, Any] | None) -> HostState:
        """From the fact __source_state, which the roles set from what they read on the machine."""
        known = state or {}
        return cls(bool(known.get("joined")), str(known.get("version") or ""), asked=bool(known.get("asked")))


def by_place(machines: Iterable[Machine]) -> dict[Place, list[Machine]]:
    """The machines per pool."""
    found: dict[Place, list[Machine]] = {}
    for machine in machines:
        found.setdefault(Place(machine.cluster_id, machine.pool, machine.pool_api), []).append(machine)
    return found


def wanted(machine: Machine) -> dict[str, Any]:
    """The explicit settings of a machine, as flexnode_machine takes them."""
    return wanted_of(merge({}, machine.document), machine.node)


def defaults(document: Document) -> dict[str, Any]:
    """The values of the pool in its bootstrap data, for a login that may not read the pool."""
    return {key: value for key, value in wanted_of(document, "").items() if key != "name"}


def is_fresh(data: Mapping[str, Any] | None, now: float) -> bool:
    """Whether bootstrap data that was obtained earlier in this run can still be used."""
    return bool(data and data.get("document")) and 0 <= now - float((data or {})["obtained"]) < FRESH_SECONDS


def goal_of(answer: Mapping[str, Any]) -> Goal:
    """The goal in an answer of flexnode_machine."""
    return Goal(
        str(answer["version"]),
        answer["max_pods"],
        answer["labels"],
        tuple(answer["taints"]),
        str(answer["etag"]),
    )


def is_current(answer: Mapping[str, Any], state: HostState) -> bool:
    """Whether a machine has joined and has applied the goal that Azure has for it."""
    return state.joined and answer["action"] == "unchanged" and state.version == answer["etag"] != ""


def options_of(
    machine: Machine,
    answer: Mapping[str, Any],
    state: HostState,
    data: Mapping[str, Any] | None,
    facts: Document,
) -> dict[str, Any]:
    """How a machine gets its configuration: the bootstrap data, the cluster, its settings, its goal over all.

    A machine that has applied its goal has all of it stored. In check mode there is no bootstrap data.
    The cluster is known in any case: Azure Arc needs its location, whatever the machine has stored.
    """
    settings, goal = merge(facts, machine.document), goal_of(answer)
    taints = {"taints": list(goal.taints)}  # also of a goal that is only stored there
    if is_current(answer, state):
        return {"source": "stored", "document": settings, **taints}
    if not data or not data.get("document"):
        known = {"source": "stored", "document": goal.over(settings), **taints}
        return known if state.joined else {"source": "pending", "document": settings}
    usable, _notes = usable_versions(data["document"], settings)
    document = merge(usable, settings)
    return {
        "source": "inline",
        "document": {"config": goal.over(document), "configVersion": goal.etag},
        **taints,
        **_renewal(machine, document, data),
    }


def _renewal(machine: Machine, document: Document, data: Mapping[str, Any]) -> dict[str, Any]:
    """How to get a new token, and when; nothing if the inventory has a token, which takes precedence."""
    if _token(document) != _token(data["document"]):
        return {}
    place = Place(machine.cluster_id, machine.pool, machine.pool_api)
    return {"pool_data": {**place.options, "obtained": int(data["obtained"]), "fresh_seconds": FRESH_SECONDS}}


def _token(document: Document) -> str:
    return str(section(section(document, "azure"), "bootstrapToken").get("token") or "")


def before_data(machine: Machine) -> Machine:
    """A machine of a pool, with what stands for the versions that only the pool knows."""
    return replace(machine, document=merge(stand_ins(machine.document), machine.document))


def require_documents(machines: Iterable[Machine], clusters: Iterable[Mapping[str, Any]]) -> None:
    """Stop before anything is written if machines would refuse their versions; of pools and rp, anything.

    Azure takes what it is sent: `gpu: yes` would be a label True, and version 1.30 without quotes is 1.3.
    Documents of other sources are checked where they are written, or on the machine.
    """
    of_run = [before_data(one) if one.source == POOLS else one for one in machines]
    require_versions(of_run, clusters, whole={one.host for one in of_run if one.source == POOLS})
    resources = [one for one in of_run if one.source == "rp"]
    if problems := [wrong for one in resources for wrong in checked(one.node, one.document)]:
        invalid = ConfigInvalid(problems)
        invalid.unchanged = NOTHING_CHANGED
        raise invalid


def with_data(machine: Machine, data: Document) -> tuple[Machine, list[str]]:
    """A machine of a pool with the pool's versions, and notes for the user."""
    usable, notes = usable_versions(data, machine.document)
    return replace(machine, document=merge(usable, machine.document)), notes


def announced(machine: Machine, info: Mapping[str, Any] | None, cluster: Document | None) -> dict[str, Any]:
    """What is known of a machine's configuration before anything was created for it.

    cluster: what the API server's credentials say. Without it, only the machine itself can be checked.
    """
    facts = (info or {}).get("cluster") or {}
    document = merge(facts.get("document") or {}, machine.document)
    version = {**stand_ins(machine.document), "kubernetes": {"version": _version(machine, info)}}
    if cluster is None:
        return {
            "source": "inline",
            "document": merge(version, document),
            "purpose": "prepare",
            "stage": "host",
        }
    token = {"azure": {"bootstrapToken": {"token": REDACTED}}}
    return {
        "source": "inline",
        "document": merge(merge(merge(cluster, version), token), document),
        "announced": True,
    }


def _version(machine: Machine, info: Mapping[str, Any] | None) -> str:
    """The version of Kubernetes that a machine would get, as far as it is known."""
    pools = [one for one in (info or {}).get("pools") or () if one["name"] == machine.pool]
    known = [str(one[key] or "") for one in pools for key in ("current_version", "version")]
    known.append(str(((info or {}).get("cluster") or {}).get("kubernetes_version") or ""))
    for version in known:
        if version.count(".") == 2:
            return version
    return str(UNKNOWN["version"])


# --- what is wrong with a pool ----------------------------------------------------------------------------


def pool_findings(place: Place, info: Mapping[str, Any], machines: Sequence[Machine]) -> Iterator[Finding]:
    """What keeps machines from joining a pool, from an answer of flexnode_pool_info."""
    hosts = tuple(machine.host for machine in machines)
    pools = {pool["name"]: pool for pool in info["pools"]}
    yield from _feature_findings(hosts, info.get("features") or {})
    pool = pools.get(place.pool)
    if pool is None:
        yield Finding(hosts, f"there is no pool {place.pool}", add_line(place.cluster_id, place.pool))
        return
    if not pool["readable"]:
        what = f"the login may not read pool {place.pool}: its type and version were not checked"
        yield Finding(hosts, what, "assign Reader on the cluster, if that is wanted", "warning")
    elif pool["type"] != TYPE:
        fix = f"name another pool, or {add_line(place.cluster_id, 'NAME')}"
        yield Finding(hosts, f"pool {place.pool} is of type {pool['type']}, not {TYPE}", fix)
        return
    if pool["provisioning_state"].lower() == "deleting":
        yield Finding(hosts, f"pool {place.pool} is being deleted", "name another pool")
    if missing := pool.get("missing_actions"):
        actions = ", ".join(action.partition("/agentPools/")[2] for action in missing)
        fix = role_line(str(info.get("identity") or "OBJECT_ID"), pool["id"])
        yield Finding(hosts, f"the login may not {actions} at pool {place.pool}", fix)
    yield from _version_findings(pool, info.get("cluster") or {}, machines)


def _feature_findings(hosts: tuple[str, ...], features: Mapping[str, str]) -> Iterator[Finding]:
    for name, severity in FEATURES.items():
        state = features.get(name)
        if state and state.lower() != "registered":
            fix = (
                f"az feature register --namespace Microsoft.ContainerService --name {name}, and when it is "
                "Registered: az provider register --namespace Microsoft.ContainerService"
            )
            yield Finding(hosts, f"feature {name} of the preview is {state}", fix, severity)


def _version_findings(
    pool: Mapping[str, Any], cluster: Mapping[str, Any], machines: Sequence[Machine]
) -> Iterator[Finding]:
    control_plane = str(cluster.get("kubernetes_version") or "")
    newer: dict[str, list[str]] = {}
    for machine in machines:
        version = str(wanted(machine).get("version") or pool["version"])
        if version and control_plane and is_newer(version, control_plane):
            newer.setdefault(version, []).append(machine.host)
    for version, hosts in newer.items():
        what = f"Kubernetes {version} is newer than the control plane, which has {control_plane}"
        yield Finding(tuple(hosts), what, f"set kubernetes.version to {control_plane} or older")


def require_pools(findings: Sequence[Finding]) -> None:
    """Stop where machines can't join their pools; all findings are shown in one list."""
    if any(found.severity == "error" for found in findings):
        stop = PoolUnusable(
            "machines can't join their FlexNodes pools",
            why="\n  " + "\n  ".join(lines_of(findings)),
            fix="correct this, then run this again",
        )
        stop.unchanged = NOTHING_CHANGED
        raise stop
