# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the answers about a machine of a pool, and its Node, mean for this node. Pure."""

from __future__ import annotations

import enum
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..dataclass import dataclass, field, replace
from .arm_answers import Missing, missing, nouns_in, quoted_id
from .flexnode_config import GAP, Reply, Verdict, digest_for
from .machines import Goal, goal_of_document, pool_of
from .watched import REPLACED, Watched, pausing

DELETING = "kubernetes.azure.com/flex-node-deleting"  # the taint by which AKS marks a Node that it deletes
EVERY, SPREAD = 300, 301  # seconds between two requests; each machine has its own interval


class NodeIs(enum.Enum):
    """The Node of this machine at the API server."""

    PRESENT = "present"
    DIFFERENT = (
        "different"  # its labels or taints are not those of the applied goal: AKS may have set new ones
    )
    DELETING = "deleting"
    ABSENT = "absent"
    UNKNOWN = "unknown"  # the API server was not asked, or did not answer


class Step(enum.Enum):
    """What a node does."""

    NOTHING = "nothing"
    WAIT = "wait"  # for AKS to delete the Node: then the new version is installed
    APPLY = "apply"
    REGISTER = "register"  # the Node was deleted: a kubelet registers it only when it starts
    ASK_LATER = "ask later"  # the API server has to answer first


def interval(machine: str) -> float:
    """Seconds between two requests for a machine: 5 to 10 minutes, always the same for one machine."""
    return float(EVERY + zlib.crc32(machine.lower().encode()) % SPREAD)


def node_is(node: Mapping[str, Any] | None, goal: Goal) -> NodeIs:
    """Judge a Node as the API server returned it; None: it does not exist. goal: that was applied."""
    if node is None:
        return NodeIs.ABSENT
    taints = (node.get("spec") or {}).get("taints") or []
    if any(taint.get("key") == DELETING for taint in taints):
        return NodeIs.DELETING
    labels = (node.get("metadata") or {}).get("labels") or {}
    same = all(labels.get(key) == value for key, value in goal.labels.items())
    there = {f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}" for taint in taints}
    wanted = {taint if "=" in taint else taint.replace(":", "=:", 1) for taint in goal.taints}
    return NodeIs.PRESENT if same and wanted <= there else NodeIs.DIFFERENT


def marked(watched: Watched, node: NodeIs, uid: str) -> Watched:
    """What is known of a deletion by AKS: its mark at the Node, or that the Node with the mark is gone.

    A kubelet that starts after that (a boot) registers another Node, which has no mark. A mark that was
    removed from the Node itself is a deletion that was called off.
    """
    if node is NodeIs.DELETING:
        return replace(watched, deleting=True, marked=uid)
    if watched.deleting and node in (NodeIs.ABSENT, NodeIs.UNKNOWN):
        return watched
    if watched.deleting and uid and watched.marked not in ("", uid):
        return replace(watched, marked=REPLACED)
    return replace(watched, deleting=False, marked="")


def replaces_node(current: Goal, goal: Goal) -> bool:
    """Whether a goal needs more than labels and taints: that is installed after AKS has deleted the Node."""
    pods = goal.max_pods is not None and goal.max_pods != current.max_pods
    full = current.version == goal.version or current.version.startswith(f"{goal.version}.")
    return pods or not full


def what_waits(current: Goal, goal: Goal) -> str:
    """What is new and waits, in plain words."""
    parts = []
    if current.version != goal.version:
        parts.append(f"Kubernetes {current.version} -> {goal.version}")
    if goal.max_pods is not None and goal.max_pods != current.max_pods:
        parts.append(f"maxPods {current.max_pods} -> {goal.max_pods}")
    return (
        f"{' and '.join(parts)} is installed after the Node of this machine was deleted: an upgrade of the "
        "pool does so, or kubectl drain and kubectl delete node; azure.machines.apply at-once does not wait"
    )


def step_for(
    watched: Watched, goal: Goal, document: Mapping[str, Any], node: NodeIs, now: float, *, waits: bool
) -> Step:
    """What a node does about the goal of its machine.

    document: the stored one. waits: azure.machines.apply is node-deleted.
    """
    digest, blocked = digest_for(goal.etag), watched.blocked
    applied = watched.settled and watched.digest == digest
    # It may have been installed before, and failed: then the Node was deleted for it, and is not once more.
    tried = blocked if blocked and blocked.digest == digest else None
    held = bool(tried and (tried.retry_at is None or pausing(tried.retry_at, now)))
    if node is NodeIs.DELETING or (node is NodeIs.ABSENT and watched.deleting):
        return Step.NOTHING  # it leaves when Azure says that the machine is deleted
    if node is NodeIs.ABSENT:
        return Step.REGISTER if applied or held else Step.APPLY
    if applied or held:
        return Step.NOTHING
    if node is NodeIs.UNKNOWN:
        return Step.ASK_LATER
    if waits and not tried and replaces_node(goal_of_document(document), goal):
        return Step.WAIT
    return Step.APPLY


def bundle_of(document: Mapping[str, Any], version: str) -> bytes:
    """A document as a bundle; in memory only, it has the secrets of the stored one."""
    bundle = {"config": document, **({"configVersion": version} if version else {})}
    return json.dumps(bundle, sort_keys=True).encode()


def machine_deleted(reply: Reply, machine: str) -> bool:
    """Whether Azure says that this machine does not exist: by AKS's own words for it, or by its id.

    Code NotFound alone is no word for it: AKS answers the same for a pool or a cluster that is gone. Nor is a
    name that is quoted: a pool or a cluster may be called as the machine is.
    """
    error = reply.error
    by_aks = error.code == "NotFound" and nouns_in(error) == {"machine"}
    by_gateway = error.code == "ResourceNotFound" and bool(quoted_id(error))
    return (by_aks or by_gateway) and missing(error, machine) is Missing.ITSELF


def next_page(page: Reply) -> str:
    """The URL of the page after this one; empty: there is none."""
    return str(page.document.get("nextLink") or "")


def lists_others(pages: Sequence[Reply], machine: str) -> bool:
    """Whether the pool lists its machines to the end, and this one is not among them.

    pages: all that were read. The last one has no next: else the machine may be on a page that is missing.
    """
    if not pages or next_page(pages[-1]):
        return False
    name = machine.rpartition("/")[2].lower()
    return all(_lists_others(page, name) for page in pages)


def _lists_others(page: Reply, name: str) -> bool:
    machines = page.document.get("value")
    return (
        page.status == 200
        and isinstance(machines, list)
        and all(isinstance(one, Mapping) and name not in _names(one) for one in machines)
    )


def _names(machine: Mapping[str, Any]) -> set[str]:
    """What a machine of a list may be called: by its id, its name and its Node."""
    properties = machine.get("properties")
    kubernetes = properties.get("kubernetes") if isinstance(properties, Mapping) else None
    node = kubernetes.get("nodeName") if isinstance(kubernetes, Mapping) else None
    texts = (machine.get("id"), machine.get("name"), node)
    return {str(text or "").rpartition("/")[2].lower() for text in texts}


@dataclass(frozen=True)
class Evidence:
    """What Azure answered about a machine that may have been deleted, and about its pool."""

    machine: Reply
    pages: tuple[Reply, ...] = ()  # the list of the pool's machines
    pool: Reply = field(default_factory=lambda: Reply(0))  # asked for only if the list is empty

    @property
    def empty(self) -> bool:
        """Whether the list has no machine at all: then it does not show that the pool exists."""
        return bool(self.pages) and not any(page.document.get("value") for page in self.pages)

    def has_pool(self, machine: str) -> bool:
        """Whether the pool of a machine exists, and lists others only.

        The role of pools may list machines and not read the pool: that refusal is no evidence against it.
        """
        if not lists_others(self.pages, machine):
            return False
        if not self.empty:
            return True
        if self.pool.status == 403:
            return self.pool.error.code == "AuthorizationFailed"
        same = str(self.pool.document.get("id") or "").lower() == pool_of(machine).lower()
        return self.pool.status == 200 and same


def verdict(watched: Watched, evidence: Evidence, now: float) -> Verdict:
    """Decide whether a node leaves.

    AKS marked its Node as being deleted, and Azure said twice that its machine does not exist, while the pool
    lists its other machines. Each alone is a mistake of someone, and must not remove a node.
    """
    if not watched.found or not machine_deleted(evidence.machine, watched.resource):
        return Verdict.STAYS
    if not evidence.has_pool(watched.resource) or not watched.deleting:
        return Verdict.STAYS
    since = now - watched.missing_since
    if not watched.missing_since or since < 0:  # the clock was set back: begin again
        return Verdict.MISSING
    return Verdict.LEAVES if since >= GAP else Verdict.MISSING


def why_it_stays(watched: Watched, evidence: Evidence) -> str:
    """Why a node stays although Azure says that its machine does not exist."""
    if not watched.found:
        return "it was never seen there"
    if not lists_others(evidence.pages, watched.resource):
        status = evidence.pages[-1].status if evidence.pages else 0
        return f"but the pool does not list its machines as it should (HTTP {status or '-'})"
    if not evidence.has_pool(watched.resource):
        return f"but its pool does not answer as it should (HTTP {evidence.pool.status or '-'})"
    return f"but AKS has not marked the Node as being deleted (taint {DELETING})"
