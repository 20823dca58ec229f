# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine of a node in a FlexNodes pool: its id, and the goal that it has for the node. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.pool import MACHINE_NAME, MACHINES_API_VERSION, POOL_MACHINE_PATTERN, POOL_PATTERN
from ..dataclass import dataclass, field
from ..errors import ConfigInvalid, Problem, shown
from .errors import MachineUnusable, MaxPodsFixed
from .watched import MACHINES, is_machine

if TYPE_CHECKING:
    from ..config.model import NodeConfig  # slow to import, and a poll reads this file

__all__ = ["API_VERSION", "POOL_PATTERN", "is_machine"]  # all are read from here, too
API_VERSION = MACHINES_API_VERSION
POOLS = "/agentPools/"
SETTLED = "Succeeded"
OF_AKS = "kubernetes.azure.com/"  # labels and taints that AKS sets itself
DEFAULT_MAX_PODS = 110
_TAINT = re.compile(r"([^=:]+)(?:=([^=:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)")
ROLE = "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"  # Azure Kubernetes Service Flex Node Agent Role


def pool_id(cluster_id: str, pool: str) -> str:
    """The id of a pool."""
    return f"{cluster_id}{POOLS}{pool}"


def machine_id(cluster_id: str, pool: str, name: str) -> str:
    """The id of a machine in a pool."""
    return f"{pool_id(cluster_id, pool)}{MACHINES}{name}"


def pool_of(machine: str) -> str:
    """The id of the pool that a machine belongs to."""
    return machine[: machine.lower().rindex(MACHINES.lower())]


def cluster_and_pool(pool: str) -> tuple[str, str]:
    """The id of the cluster, and the name of the pool, of the id of a pool."""
    place = pool.lower().rindex(POOLS.lower())
    return pool[:place], pool[place + len(POOLS) :]


def machine_name(node_name: str) -> str:
    """The name of a node's machine: the Node's name, if Azure accepts it."""
    name = node_name.lower()
    if not re.fullmatch(POOL_MACHINE_PATTERN, name):
        raise ConfigInvalid([Problem("agent.nodeName", shown(node_name), *MACHINE_NAME)])
    return name


def role_line(principal: str, pool: str) -> str:
    """The command that lets a principal use a pool; `pool` is an id."""
    return (
        f"az role assignment create --assignee-object-id {principal} "
        f"--assignee-principal-type ServicePrincipal --role {ROLE} --scope {pool}"
    )


@dataclass(frozen=True)
class Goal:
    """What a machine says its node must be. Labels and taints of AKS itself are not part of it."""

    version: str  # of Kubernetes; x.y.z, or x.y for any patch release
    max_pods: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    etag: str = ""  # new at each change of the goal

    @classmethod
    def of(cls, machine: Mapping[str, Any]) -> Goal:
        """The goal of a machine as Azure returns it; an error if it can't be used, or not yet."""
        properties = _below(machine, "properties")
        kubernetes = _below(properties, "kubernetes")
        state, etag = str(properties.get("provisioningState") or ""), str(properties.get("eTag") or "")
        version = str(kubernetes.get("orchestratorVersion") or "")
        why = ""
        if state.lower() != SETTLED.lower():
            why = f"its provisioningState is {shown(state or 'not set')}, not {SETTLED}"
        elif not etag:
            why = "it has no eTag"
        elif not re.fullmatch(r"v?\d+\.\d+(\.\d+)?", version):
            why = f"its orchestratorVersion is {shown(version or 'not set')}"
        if why:
            raise MachineUnusable(
                "the machine of this node can't be used as it is", where=str(machine.get("id") or ""), why=why
            )
        max_pods = kubernetes.get("maxPods")
        return cls(
            full_version(version.removeprefix("v"), str(kubernetes.get("currentOrchestratorVersion") or "")),
            max_pods if isinstance(max_pods, int) else None,
            own_labels(kubernetes.get("nodeLabels") or {}),
            own_taints(kubernetes.get("nodeTaints") or ()),
            etag,
        )

    def over(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A document with this goal: its version, maxPods, labels and taints are those of the machine."""
        installed = str(_below(document, "kubernetes").get("version") or "").removeprefix("v")
        node = {
            **{key: value for key, value in _below(document, "node").items() if key != "labels"},
            **({"maxPods": self.max_pods} if self.max_pods is not None else {}),
            "labels": dict(self.labels),
            "taints": list(self.taints),
        }
        version = full_version(self.version, installed)
        return {
            **document,
            "kubernetes": {**_below(document, "kubernetes"), "version": _newest(version)},
            "node": node,
        }


def goal_of_document(document: Mapping[str, Any]) -> Goal:
    """The goal that a document describes; it has no eTag."""
    node = _below(document, "node")
    version = str(_below(document, "kubernetes").get("version") or "").removeprefix("v")
    max_pods = node.get("maxPods") or DEFAULT_MAX_PODS
    labels = _below(node, "labels")
    return Goal(
        version,
        int(max_pods) if str(max_pods).isdigit() else None,
        {str(key): value for key, value in sorted(labels.items()) if value is not None},
        own_taints(node.get("taints") or ()),
    )


def body_of(goal: Goal) -> dict[str, Any]:
    """The body of the PUT that gives a machine this goal.

    Azure refuses an empty list of taints. A PUT replaces labels and taints as a whole: without a list there
    are none afterwards.
    """
    kubernetes = {
        "orchestratorVersion": goal.version,
        **({"maxPods": goal.max_pods} if goal.max_pods is not None else {}),
        "nodeLabels": dict(goal.labels),
        **({"nodeTaints": list(goal.taints)} if goal.taints else {}),
    }
    return {"properties": {"kubernetes": kubernetes}}


def changes(current: Goal, wanted: Goal) -> list[str]:
    """What a PUT of `wanted` would change, in words; empty: nothing. maxPods of a machine can't change."""
    if wanted.max_pods is not None and current.max_pods is not None and wanted.max_pods != current.max_pods:
        raise MaxPodsFixed(
            f"node.maxPods is {wanted.max_pods}, but the machine was created with {current.max_pods}",
            why="Azure does not change maxPods of a machine",
        )
    found = []
    if full_version(current.version, wanted.version) != full_version(wanted.version, current.version):
        found.append(f"Kubernetes {current.version} -> {wanted.version}")
    found += (
        f"label {key}={value}" for key, value in wanted.labels.items() if current.labels.get(key) != value
    )
    found += (f"remove label {key}" for key in current.labels if key not in wanted.labels)
    found += (f"taint {taint}" for taint in wanted.taints if taint not in current.taints)
    found += (f"remove taint {taint}" for taint in current.taints if taint not in wanted.taints)
    return found


def own_labels(raw: object) -> dict[str, str]:
    """Labels without those that AKS sets itself; what is no text stays as it is, for a check to refuse."""
    labels = raw if isinstance(raw, Mapping) else {}
    own = {str(key): value for key, value in labels.items() if not str(key).startswith(OF_AKS)}
    return {key: value for key, value in sorted(own.items()) if value is not None}


def own_taints(raw: object) -> tuple[str, ...]:
    """Taints in one spelling and order, without those that AKS sets itself."""
    texts = [_text(item) for item in raw] if isinstance(raw, (list, tuple)) else [""]
    found = [_TAINT.fullmatch(text) for text in texts]
    if not all(found):
        from ..config.types.labels import taints as taint_list  # slow to import; it says what is wrong
        from ..config.types.setting import Refused

        try:
            taint_list.read(raw)
        except Refused as refused:
            raise ConfigInvalid(refused.under("node.taints")) from None
    taints = (f"{one[1]}={one[2]}:{one[3]}" if one[2] else f"{one[1]}:{one[3]}" for one in found if one)
    return tuple(sorted(taint for taint in taints if not taint.startswith(OF_AKS)))


def api_version(config: NodeConfig) -> str:
    """The version of the API that a node uses for its machine."""
    return config.azure.machines.api_version


def _text(taint: object) -> str:
    if isinstance(taint, Mapping):
        return f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"
    return str(taint).strip()


def full_version(version: str, known: str) -> str:
    """A version x.y as the x.y.z that is known of it; otherwise unchanged."""
    return known if version.count(".") == 1 and known.startswith(f"{version}.") else version


def _newest(version: str) -> str:
    """A version x.y as its newest patch release that can be verified; otherwise unchanged."""
    if version.count(".") != 1:
        return version
    from ..catalogue.artifacts import Catalogue  # seldom needed, and large
    from ..config.types.values import Version

    releases = [known for known in Catalogue().versions("kubelet") if known.startswith(f"{version}.")]
    return str(max(map(Version.parse, releases))) if releases else version


def _below(parent: object, key: str) -> Mapping[str, Any]:
    found = parent.get(key) if isinstance(parent, Mapping) else None
    return found if isinstance(found, Mapping) else {}
