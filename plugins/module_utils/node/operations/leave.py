# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unbootstrap: the machine leaves the cluster and the host is restored. Best effort, every step reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.setting import Purpose
from ..dataclass import dataclass, field
from ..drift.record import DriftRecord
from ..engine.lease import end_pull
from ..engine.prune import clear_staging
from ..engine.records.journal import Entry
from ..engine.records.places import changed_paths, one_of_each
from ..engine.records.state import Phase, Store, store_of
from ..engine.restarts import Progress, silent
from ..engine.restore_host import Restored, restore_host
from ..engine.run_log import RunLog, log_of, recorded
from ..errors import FlexNodeError, StateCorrupt
from ..identity.cache import forget_tokens
from ..machine.host import Host
from ..machine.layout import CONTAINERD, KUBELET, PULL_SERVICE, PULL_TIMER, UNIT_DIR
from ..machine.links import real_path
from ..node_object.drain import drain
from ..node_object.this_node import ThisNode
from ..resources.paths import path_mark
from ..resources.units import RUNNING, SYSTEMCTL_SECONDS, unit_states
from ..rollout.errors import RolloutUnknown, forgets
from ..rollout.local import Local, takes_part
from ..rollout.turn import forget
from ..status.publish import publish
from ..status.textfile import has_textfiles, remove_textfiles
from .runtime_users import (
    DATA,
    KUBERNETES,
    SANDBOXES,
    TASKS,
    RuntimeUsers,
    end_shims,
    older_than_join,
    remove_kubernetes_data,
    runtime_users,
)

Act = Callable[[str, Callable[[], None]], None]
InAzure = Callable[[Optional[NodeConfig]], list[str]]  # noqa: UP045 - returns what remains, and why

DRAIN_SECONDS = 120.0  # a pod has 30 s to end; then a slow machine needs some more to stop it
SYNC_SECONDS = 600.0
NETWORK_NAMESPACES = "/run/netns"
RUNTIME_STATE = "/run/containerd"
# Of Kubernetes only: a runtime that was installed before the join may run other containers beside them.
POD_STATE = (
    f"{TASKS}/k8s.io",
    f"{RUNTIME_STATE}/io.containerd.grpc.v1.cri",
)


def nothing_in_azure(_config: NodeConfig | None) -> list[str]:
    """Nothing was created there, or something else removes it."""
    return []


@dataclass()
class Left:
    """What was done, and what could not be removed."""

    actions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    items: list[Restored] = field(default_factory=list)
    node: str = ""  # name of the Node that this machine was
    node_remains: str = ""  # why it could not be deleted
    machine: dict[str, Any] = field(default_factory=dict)  # what tells that Node from others of its name

    @property
    def complaints(self) -> list[str]:
        """What could not be removed, one line each."""
        node = f"left: Node {self.node} ({self.node_remains}); delete it: kubectl delete node {self.node}"
        return ([node] if self.node_remains else []) + [f"left: {line}" for line in self.remains]

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.actions)


def leave(
    host: Host,
    *,
    drain_seconds: float = DRAIN_SECONDS,
    check: bool = False,
    progress: Progress = silent,
    in_azure: InAzure = nothing_in_azure,
    aks_deletes: bool = False,
) -> Left:
    """Leave the cluster and restore the host. Can be run twice, and after a crash at any point.

    aks_deletes: AKS deletes the Node; that this machine may not do so is no reason to complain.
    in_azure: removes what was created in Azure. It comes before the host is restored: until then the timer
    takes up an interrupted leave.
    """
    store = store_of(host)
    if check or not store.journal.entries():
        return leave_with(RunLog(host, "", also=progress), store, drain_seconds, in_azure, check=check)
    with recorded(RunLog(host, log_of(store.journal), also=progress)) as log:
        log.wake()
        report = leave_with(log, store, drain_seconds, in_azure)
        report.node_remains = "" if aks_deletes else report.node_remains
        return report


def leave_with(
    log: RunLog, store: Store, drain_seconds: float, in_azure: InAzure, *, check: bool = False
) -> Left:
    """The same, with a log of its steps."""
    host, report, entries = log.host, Left(), store.journal.entries()
    if not entries and store.remembered()[0] is None:
        if not check and store.is_there:
            report.remains += store.forget()  # left by a run that was killed at its very start or end
        return report
    if check:
        report.actions = ["leave the cluster", *(f"restore {entry.name}" for entry in reversed(entries))]
        return report

    def act(sentence: str, step: Callable[[], None]) -> None:
        """Do one step and report it; a failure is reported, and the next step follows."""
        log(sentence)
        report.actions.append(sentence)
        try:
            step()
        except FlexNodeError as error:
            log.failed(f"{error.code}: {error.what}: {error.why}")
            report.remains.append(f"{sentence}: {error.what}: {error.why}. {error.fix}")

    again, deleted = was_leaving(store, report, log)  # the Node may have been deleted last time
    store.enter(Phase.RESETTING, **({"nodeDeleted": True} if deleted else {}))
    journaled = {entry.key for entry in entries}
    if f"file:{UNIT_DIR}/{PULL_SERVICE}" in journaled and PULL_SERVICE not in host.text("/proc/self/cgroup"):
        act("stop ansible-pull", lambda: stop_pull(host))  # its tasks would go on
    was_node = f"unit:{KUBELET}" in journaled
    node = applied_node(host, store, report, was_node=was_node)
    if node and was_node:
        publish(host, store, record=DriftRecord())  # others see why its pods leave
        leave_cluster(node, store, drain_seconds, report, act, deleted=deleted)
        if store.applied_if_intact() and not again and not node.has_credential:
            report.node_remains = "the kubelet has no certificate to delete it with"
    report.remains += in_azure(node.config if node else None)
    users = RuntimeUsers()
    if f"unit:{CONTAINERD}" in journaled or has_our_containerd(host, entries):
        if not older_than_join(entries):
            users = runtime_users(host)
        act("stop all pods", lambda: stop_pods(host))
        if users.namespaces and users.beside_kubernetes:
            act("remove images and containers of Kubernetes", lambda: remove_kubernetes_data(host))
        act("stop containerd", lambda: stop_containerd(host, node.config if node else None))
    log("restore files, settings and units")
    clear_staging(host)
    report.items = restore_host(host, store, keep={DATA: users.why} if users else {})
    stayed = ("left", "failed")
    for item in report.items:
        log.line("warning" if item.outcome in stayed else "info", f"{item.outcome:<8} {item.key} {item.why}")
    report.actions += [f"{item.outcome} {item.key}" for item in report.items if item.outcome not in stayed]
    report.remains += [f"{item.key}: {item.why}" for item in report.items if item.outcome in stayed]
    if users and unit_states(host, (CONTAINERD,))[CONTAINERD]["UnitFileState"]:
        # Of a package that was installed after the join (docker needs one): it finds the data of its users.
        act("start containerd of another owner", lambda: start(host, CONTAINERD))
    forget_tokens(host)
    if has_textfiles(host):
        act("remove the metrics file of node_exporter", lambda: remove_textfiles(host))
    if not any(item.outcome == "failed" for item in report.items):  # otherwise the next run needs the journal
        changed = changed_paths(entries, store)
        sync_restored(host, changed)  # on the disk, before the record of what is to be restored goes
        report.remains += store.forget()
        sync_restored(host, changed)
    elif not (node and node.has_credential):
        store.note(facts=None)  # it is no Node any more: it may join under another name
    return report


def sync_restored(host: Host, changed: Sequence[str]) -> None:
    """Wait until what was removed is removed on the disk: else a power cut would bring back half a node."""
    places = one_of_each(host, changed)  # looked for each time: what was a place may be removed by now
    host.run(["sync", "--file-system", "--", *places], timeout=SYNC_SECONDS, check=False)


def has_our_containerd(host: Host, entries: Sequence[Entry]) -> bool:
    """Whether the unit file of containerd is ours now: a run may have been killed before it replaced it."""
    unit_file = f"file:{UNIT_DIR}/{CONTAINERD}"
    return any(entry.key == unit_file and path_mark(host, entry.name) in entry.marks for entry in entries)


def was_leaving(store: Store, report: Left, progress: Progress) -> tuple[bool, bool]:
    """Whether an earlier run was interrupted, and had deleted the Node.

    A damaged state is reported, the journal does not need it.
    """
    try:
        state = store.state()
        again = state.get("phase") == Phase.RESETTING.value
        return again, again and bool(state.get("nodeDeleted"))
    except StateCorrupt as error:
        report.actions.append(f"continue without {error.where}, which is damaged: the journal is enough")
        progress(report.actions[-1])
        return False, False


def applied_node(host: Host, store: Store, report: Left, *, was_node: bool) -> ThisNode | None:
    """The node that this machine is, if its configuration can still be read; the journal does not need it.

    From the applied document, not the current one: that may have failed, and name another Node or cluster.
    """
    try:
        document = store.applied_config() or store.current_config()
        purpose: Purpose = "join" if was_node else "prepare"
        return ThisNode.of(host, parse(document, purpose=purpose, pollable=True)) if document else None
    except FlexNodeError as error:
        report.remains.append(
            f"the stored configuration is unusable ({error.what}): the Node may still exist"
        )
        return None


def leave_cluster(
    node: ThisNode, store: Store, drain_seconds: float, report: Left, act: Act, *, deleted: bool
) -> None:
    """Drain, stop the kubelet (it would register the Node again), delete the Node.

    deleted: an earlier run has deleted it; the identity that could ask may be gone since.
    """
    host, name, has_credential = node.host, node.name, node.has_credential
    report.node, report.machine = name, node.identification

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
            report.remains.append(f"{name} is still in the rollout record of the cluster: {forgets(name)}")
    if has_credential and running and drain_seconds > 0 and not deleted:
        act(f"drain {name}", drain_node)
    act("stop kubelet", lambda: stop(host, KUBELET))
    if has_credential and not deleted:
        act(f"delete Node {name}", delete_node)


def stop(host: Host, *units: str) -> None:
    """Stop units, if they exist, and wait for them. One that is inactive may be about to start, at boot."""
    for unit, state in unit_states(host, units).items():
        if state["ActiveState"] != "inactive" or state["UnitFileState"]:
            host.run(["systemctl", "stop", unit], timeout=SYSTEMCTL_SECONDS)


def stop_pull(host: Host) -> None:
    """Stop ansible-pull: its timer, its service, and one that was started by hand."""
    stop(host, PULL_TIMER, PULL_SERVICE)
    end_pull(host)


def start(host: Host, unit: str) -> None:
    """Start a unit."""
    host.run(["systemctl", "start", unit], timeout=SYSTEMCTL_SECONDS)


def stop_pods(host: Host) -> None:
    """Stop all containers of Kubernetes."""
    if unit_states(host, (CONTAINERD,))[CONTAINERD]["ActiveState"] in RUNNING:
        running_tasks = host.run([*KUBERNETES, "tasks", "ls", "-q"], check=False).stdout.split()
        sandboxes = host.run([*KUBERNETES, "containers", "ls", "-q", SANDBOXES], check=False).stdout.split()
        # One shim serves a whole pod. It ends with the pod's sandbox, but only if that is the last to go.
        if in_order := sorted(running_tasks, key=lambda task: task in sandboxes):
            host.run([*KUBERNETES, "tasks", "rm", "-f", *in_order], timeout=120, check=False)
    host.run(["systemctl", "stop", "kubepods.slice"], timeout=SYSTEMCTL_SECONDS, check=False)


def stop_containerd(host: Host, config: NodeConfig | None) -> None:
    """Stop containerd; remove pod mounts and pod network namespaces. Containers of others keep running."""
    stop(host, CONTAINERD)
    end_shims(host)
    kubelet_dir = real_path(host, config.paths.kubernetes.kubelet_dir if config else "/var/lib/kubelet")
    # Only mounts of the kubelet and containerd: a disk that an administrator mounted below is not touched.
    for place in (f"{kubelet_dir}/pods", f"{kubelet_dir}/plugins", *POD_STATE):
        for point in host.mounts_below(place):
            host.run(["umount", "--", point], check=False)
    for name in host.names(NETWORK_NAMESPACES):
        if name.startswith("cni-"):
            host.run(["umount", "--", f"{NETWORK_NAMESPACES}/{name}"], check=False)
            host.remove(f"{NETWORK_NAMESPACES}/{name}")
    for place in POD_STATE:
        host.remove_tree(place)
    if not any(host.names(f"{TASKS}/{namespace}") for namespace in host.names(TASKS)):
        host.remove_tree(RUNTIME_STATE)
    if config and config.cni.mode == "bridge" and host.exists("/sys/class/net/cni0"):
        host.run(["ip", "link", "delete", "cni0"], check=False)
