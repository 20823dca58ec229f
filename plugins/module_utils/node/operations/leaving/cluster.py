# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leave the cluster: pods move away, the kubelet stops, the Node is deleted."""

from __future__ import annotations

from ...config.parse import parse
from ...config.types.setting import Purpose
from ...drift.record import DriftRecord
from ...engine.records.name import kubelet_name
from ...engine.records.state import Store
from ...engine.restarts import Progress
from ...errors import FlexNodeError
from ...machine.facts import machine_id
from ...machine.host import Host
from ...machine.layout import KUBELET
from ...node_object.drain import drain
from ...node_object.reporter import left_to_other
from ...node_object.this_node import ThisNode
from ...resources.units import RUNNING, unit_states
from ...rollout.errors import RolloutUnknown, forgets
from ...rollout.local import Local, takes_part
from ...rollout.turn import forget
from ...status.publish import publish
from .report import Act, Left
from .runtime import stop


def applied_node(host: Host, store: Store, *, was_node: bool) -> tuple[ThisNode | None, list[str]]:
    """The node that this machine is, if its configuration can be used; else what remains because of that.

    From the applied document: the current one may have failed, and name another Node or cluster. If the
    applied one can't be used, the current one is, provided that the kubelet runs with the name in it.
    """
    purpose: Purpose = "join" if was_node else "prepare"
    unusable: FlexNodeError | None = None
    for read in (store.applied_config, store.current_config):
        try:
            if (document := read()) is None:
                continue
            node = ThisNode.of(host, parse(document, purpose=purpose, pollable=True))
        except FlexNodeError as error:
            unusable = unusable or error
            continue
        if unusable is None or not was_node or node.name == kubelet_name(host):
            return node, []
    if unusable is None:
        return None, []
    where = f", {unusable.where}" if unusable.where else ""
    return None, [
        f"the stored configuration can't be used ({unusable.what}{where}): what only it names was not "
        "removed: roles of this machine in Azure, the interface of a bridge network"
    ]


def leave_cluster(
    node: ThisNode,
    store: Store,
    drain_seconds: float,
    report: Left,
    act: Act,
    say: Progress,
    *,
    deleted: bool,
) -> None:
    """Drain, stop the kubelet (it would register the Node again), delete the Node.

    deleted: an earlier run has deleted it; the identity that could ask may be gone since.
    """
    host, name, has_credential = node.host, node.name, node.has_credential
    report.node, report.machine = name, node.identification
    report.pool = node.config.azure.target_agent_pool_name or ""
    if shared := "" if deleted else left_to_other(node, say):
        report.remains.append(shared)
        act("stop kubelet", lambda: stop(host, KUBELET))
        return
    publish(host, store, record=DriftRecord())  # others see why its pods leave

    def drain_node() -> None:
        drained = drain(node.api(attempts=2), name, host.clock, drain_seconds)
        report.remains += [
            f"pod {pod} did not leave within {drain_seconds:g} s and was stopped: {why}"
            for pod, why in sorted(drained.stayed.items())
        ]

    def delete_node() -> None:
        try:
            node.api(attempts=2).delete_node(name)
            store.note(nodeDeleted=True)
        except FlexNodeError as error:
            report.node_remains = f"{error.what}: {error.why}"

    def leave_rollouts() -> None:
        try:
            forget(node, store)
        except RolloutUnknown as error:
            error.fix = f"If the record still exists, {forgets(name)}"
            raise

    running = unit_states(host, (KUBELET,))[KUBELET]["ActiveState"] in RUNNING
    deleted = deleted and not running  # a reboot in between started it, and it registered the Node again
    if takes_part(Local.of(store)):
        if has_credential and not deleted:
            act("remove this node from the rollout record of the cluster", leave_rollouts)
        else:
            report.remains.append(in_rollout_record(name))
    if has_credential and running and drain_seconds > 0 and not deleted:
        act(f"drain {name}", drain_node)
    act("stop kubelet", lambda: stop(host, KUBELET))
    if has_credential and not deleted:
        act(f"delete Node {name}", delete_node)


def leave_unknown_cluster(host: Host, store: Store, report: Left, act: Act, *, deleted: bool) -> None:
    """Stop the kubelet, which would start its pods again; without a configuration nothing else can be done.

    deleted: an earlier run, which had one, has deleted the Node.
    """
    running = unit_states(host, (KUBELET,))[KUBELET]["ActiveState"] in RUNNING
    act("stop kubelet", lambda: stop(host, KUBELET))
    if deleted and not running:
        return
    report.node = name = kubelet_name(host)
    report.machine = {"machine_id": machine_id(host)}
    report.node_remains = "it was neither drained nor deleted: no stored configuration can be used"
    if takes_part(Local.of(store)):
        report.remains.append(in_rollout_record(name))


def in_rollout_record(name: str) -> str:
    """What remains of a node that could not remove itself from the rollout record."""
    return f"{name} is still in the rollout record of the cluster: {forgets(name)}"
