# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a machine: one document with one reason."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ..config.model import NodeConfig
from ..config.parse import parse
from ..dataclass import dataclass, replace
from ..drift.record import DriftRecord
from ..engine.records.left import left_behind
from ..engine.records.state import Phase, Store, store_of
from ..errors import CommandFailed, FlexNodeError
from ..machine.certificates import validity
from ..machine.clock import iso, stamp
from ..machine.host import Host
from ..machine.layout import BIN_DIR, CONTAINERD, KUBELET
from ..machine.program import COMMAND
from ..net.kube import Json
from ..node_object.certificate import check_expiry
from ..node_object.conditions import container_runtime, kubelet_version, ready_condition
from ..node_object.reporter import By, Ids, conflict, reported_by
from ..node_object.this_node import ThisNode
from ..resources.units import RUNNING, processes
from .drift import drift_now, recorded
from .monitoring import monitoring_of
from .pull import pull_of
from .reasons import NOT_JOINED, WITH_COMMAND, Reason, fix_of, reason_of
from .rollout import cluster_now, rollout_of
from .vpn import NO_VPN, vpn_of

# A machine in one of these is a node, or was to become one: it has units and files that can differ.
NODE_PHASES = frozenset(
    phase.value for phase in (Phase.NODE_BOOTSTRAPPING, Phase.NODE_JOINED, Phase.NODE_FAILED, Phase.RESETTING)
)

UNKNOWN = "Unknown"  # of a Node that could not be read; the reason says why


@dataclass()
class Observed:
    """The status document, and what its reports need besides."""

    status: dict[str, Any]
    this_node: ThisNode | None = None
    node: Json | None = None  # as the API server returned it


def status_of(host: Host) -> dict[str, Any]:
    """Observe everything, change nothing. What can't be determined is reported as such."""
    observed = observe(host, store_of(host), attempts=2)
    status, node = observed.status, observed.this_node
    if status["rollout"] and node and node.config.upgrade.max_unavailable is not None:
        status["rollout"]["cluster"] = cluster_now(node)  # not in status.json: others change it all the time
    return status


def observe(
    host: Host,
    store: Store,
    *,
    node: ThisNode | None = None,
    attempts: int = 1,
    record: DriftRecord | None = None,
) -> Observed:
    """The status, with the Node as it was read.

    node: this machine as a node, if the caller knows it. record: what differs, if the caller has just
    checked or applied everything.
    """
    state = store.state()
    observed = Observed(_without_looking(host, store, state))
    status, failure = observed.status, None
    try:
        if (document := store.current_config()) is not None:
            joining = state["phase"] != Phase.NOT_STARTED.value
            config = parse(document, purpose="join" if joining else "prepare", pollable=True)
            _look_around(host, store, config, observed)
            if is_node(status):
                if status["node"]["joined"]:  # before that the machine has nothing of ours that could change
                    known = recorded(record) if record is not None else None
                    status["drift"] = drift_now(host, store, document) if known is None else known
                _look_at_node(host, node or ThisNode.of(host, config), observed, attempts)
    except FlexNodeError as error:
        failure = Reason(error.code, f"{error.what}: {error.why}" if error.why else error.what, fix=error.fix)
    reason = reason_of(status, state, failure)
    if reason.message == NOT_JOINED and host.exists(f"{BIN_DIR}/{COMMAND}"):
        reason = replace(reason, message=WITH_COMMAND)
    status |= {"reason": reason.code, "message": " ".join(reason.message.split())}
    status["fix"] = reason.fix or fix_of(status, state)
    return observed


def is_node(status: Mapping[str, Any]) -> bool:
    """Whether the machine is a node, or was to become one. Azure Arc has phases of its own."""
    return status["phase"] in NODE_PHASES or (
        status["node"]["joined"] and status["phase"] != Phase.NOT_STARTED.value
    )


def _without_looking(host: Host, store: Store, state: dict[str, Any]) -> dict[str, Any]:
    """What the state files say."""
    current, _intact = store.remembered()
    applied = store.applied_if_intact()
    status: dict[str, Any] = {
        "arc": {"status": "NotConfigured"},
        "vpn": {"status": NO_VPN},
        # joined: once, whatever its Node reports now
        "node": {"status": "NotConfigured", "ready": False, "joined": applied is not None},
        "config": {
            "version": store.config_version(),
            "appliedVersion": store.config_version() if current is not None and applied == current else None,
        },
        "versions": state.get("versions") or {},
        "drift": [],
        "phase": state["phase"],
        "monitoring": monitoring_of(store, stamp(host.clock)),
        "pull": pull_of(store, current),
        "rollout": rollout_of(store),
        "left": left_behind(host).get("left", []),  # by a machine that left its cluster by itself
        "timestamp": stamp(host.clock),
    }
    if refused := store.refused():
        status["config"]["refused"] = {
            **{
                name: refused.get(name)
                for name in ("version", "code", "message", "since", "settings", "place")
            },
            "rolledBack": bool(refused.get("blocks")),
        }
    return status


def _look_around(host: Host, store: Store, config: NodeConfig, observed: Observed) -> None:
    """Azure Arc and the units: what is on this machine."""
    status = observed.status
    if config.azure.arc.enabled and status["phase"] != Phase.NOT_STARTED.value:
        from ..procedures.arc.registration import query  # most machines have no Azure Arc

        seen = query(host).as_dict()
        status["arc"] = {
            "status": seen["agent_status"] or "NotInstalled",
            "resourceId": seen["resource_id"],
            "agentVersion": seen["agent_version"],
            "services": seen["services"],
        }
    if config.azure.vpn.enabled and status["phase"] != Phase.NOT_STARTED.value:
        status["vpn"] = vpn_of(host)
    if status["node"]["joined"] and is_node(status):
        status["node"]["cluster"] = config.cluster_id.name
        with contextlib.suppress(CommandFailed):  # systemd is busy: of units nothing is known then
            found = processes(host, (CONTAINERD, KUBELET))
            status["node"]["units"] = {
                unit: process.state in RUNNING and not process.exited for unit, process in found.items()
            }


def _look_at_node(host: Host, this_node: ThisNode, observed: Observed, attempts: int) -> None:
    """The Node at the API server, as the kubelet of this machine sees it."""
    status = observed.status["node"]
    status |= {"name": this_node.name, "status": UNKNOWN if this_node.has_credential else "NotJoined"}
    if not this_node.has_credential:
        return
    if not this_node.uses_tokens and (valid := validity(host.read(this_node.identity) or b"")):
        status["certificate"] = {"issued": iso(valid.issued), "expires": iso(valid.expires)}
    observed.this_node = this_node
    if this_node.is_cut_off:
        return
    check_expiry(this_node)
    node = observed.node = this_node.read(attempts=attempts)
    if node is None:
        status["status"] = "NotRegistered"
        return
    ready, message = ready_condition(node)
    if reported_by(node, Ids.of(host)) is By.OTHER:  # what it says is not about this machine
        status["status"] = "NotReady"
        raise conflict(this_node.name, node)
    status |= {
        "status": "Ready" if ready else "NotReady",
        "ready": ready,
        "message": message,
        "kubeletVersion": kubelet_version(node),
        "containerRuntime": container_runtime(node),
        "labels": node["metadata"].get("labels", {}),
    }
