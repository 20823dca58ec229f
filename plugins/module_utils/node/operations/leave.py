# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unbootstrap: the machine leaves the cluster and becomes what it was. Best effort, every step reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..components.kubelet import kubelet_identity
from ..components.labels import node_name
from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.setting import Purpose
from ..engine.fetch import clear_staging
from ..engine.state import Phase, Store, store_of
from ..engine.transaction import Listener, TakenBack, silent, take_back
from ..errors import FlexNodeError
from ..identity.cache import forget_tokens
from ..machine.facts import gather
from ..machine.host import Host
from ..machine.layout import CONTAINERD, KUBELET
from ..net.kube import drain
from ..resources.units import RUNNING, unit_states
from .reconcile import as_kubelet

NETWORK_NAMESPACES = "/run/netns"
RUNTIME_STATE = "/run/containerd"
# Of Kubernetes alone: a runtime that was here before us may have containers of its own beside them.
POD_STATE = (
    f"{RUNTIME_STATE}/io.containerd.runtime.v2.task/k8s.io",
    f"{RUNTIME_STATE}/io.containerd.grpc.v1.cri",
)


@dataclass(slots=True)
class Left:
    """What was done, and what had to stay."""

    actions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    items: list[TakenBack] = field(default_factory=list)
    node: str = ""  # name of the Node that this machine was
    node_remains: str = ""  # why it could not be deleted

    @property
    def complaints(self) -> list[str]:
        """What had to stay, one line each."""
        node = f"left: Node {self.node} ({self.node_remains}); delete it: kubectl delete node {self.node}"
        return ([node] if self.node_remains else []) + [f"left: {line}" for line in self.remains]

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.actions)


def leave(host: Host, *, drain_seconds: float = 60, check: bool = False, tell: Listener = silent) -> Left:
    """Give the machine back. Can be run twice, and after a crash at any point."""
    store = store_of(host)
    report = Left()
    entries = store.journal.entries()
    if not entries and store.current_config() is None:
        if not check and not host.look(store.directory).absent:
            report.remains += store.forget()  # of a run that was killed at its very start or its very end
        return report
    if check:
        report.actions = ["leave the cluster", *(f"restore {entry.name}" for entry in reversed(entries))]
        return report

    def act(sentence: str, step: Callable[[], None]) -> None:
        """One step: told, done, and reported if it can't be."""
        tell(sentence)
        report.actions.append(sentence)
        try:
            step()
        except FlexNodeError as error:
            report.remains.append(f"{sentence}: {error.what}: {error.why}. {error.fix}")

    again = store.state()["phase"] == Phase.RESETTING.value  # the Node may be gone since the last time
    store.enter(Phase.RESETTING)
    ours = {entry.key for entry in entries}
    config = stored_config(store, report, was_node=f"unit:{KUBELET}" in ours)
    if config and f"unit:{KUBELET}" in ours:
        name = node_name(config, gather(host))
        leaving_cluster(host, config, name, drain_seconds, report, act)
        if store.applied_config() and not again and not host.exists(kubelet_identity(config)):
            report.node_remains = "the kubelet has no certificate to delete it with"
    if f"unit:{CONTAINERD}" in ours:
        act("end all pods", lambda: end_pods(host, config))
    tell("restore files, settings and units")
    clear_staging(host)
    report.items = take_back(host, store)
    stayed = ("left", "failed")
    report.actions += [f"{item.outcome} {item.key}" for item in report.items if item.outcome not in stayed]
    report.remains += [f"{item.key}: {item.why}" for item in report.items if item.outcome in stayed]
    forget_tokens(host)
    if not any(item.outcome == "failed" for item in report.items):  # else the next run needs the journal
        report.remains += store.forget()
    return report


def stored_config(store: Store, report: Left, *, was_node: bool) -> NodeConfig | None:
    """What this machine is, if that can still be read; the journal does not need it.

    Not what it was told last: that may have failed, and name the Node or the cluster of another machine.
    """
    try:
        document = store.applied_config() or store.current_config()
        purpose: Purpose = "join" if was_node else "prepare"
        return parse(document, purpose=purpose, pollable=True) if document else None
    except FlexNodeError as error:
        report.remains.append(
            f"the stored configuration is of no use ({error.what}): the Node may still exist"
        )
        return None


def leaving_cluster(
    host: Host,
    config: NodeConfig,
    name: str,
    drain_seconds: float,
    report: Left,
    act: Callable[[str, Callable[[], None]], None],
) -> None:
    """Drain, stop the kubelet (it would register the Node again), delete the Node."""
    has_identity = host.exists(kubelet_identity(config))
    report.node = name

    def drained() -> None:
        stayed = drain(as_kubelet(host, config, attempts=2), name, host.clock, drain_seconds)
        report.remains += [
            f"pod {pod} did not leave within {drain_seconds:g} s and was ended" for pod in stayed
        ]

    def deleted() -> None:
        try:
            as_kubelet(host, config, attempts=2).delete_node(name)
        except FlexNodeError as error:
            report.node_remains = f"{error.what}: {error.why}"

    running = unit_states(host, (KUBELET,))[KUBELET]["ActiveState"] in RUNNING
    if has_identity and running and drain_seconds > 0:
        act(f"drain {name}", drained)
    act("stop kubelet", lambda: stop(host, KUBELET))
    if has_identity:
        act(f"delete Node {name}", deleted)


def stop(host: Host, unit: str) -> None:
    """Stop a unit, if there is one, and wait for it."""
    if unit_states(host, (unit,))[unit]["ActiveState"] != "inactive":
        host.run(["systemctl", "stop", unit], timeout=120)


def end_pods(host: Host, config: NodeConfig | None) -> None:
    """No container, no pod mount and no pod network namespace stays behind."""
    running = unit_states(host, (CONTAINERD,))[CONTAINERD]["ActiveState"] in RUNNING
    if running:
        running_tasks = host.run(["ctr", "-n", "k8s.io", "tasks", "ls", "-q"], check=False).stdout.split()
        if running_tasks:
            host.run(["ctr", "-n", "k8s.io", "tasks", "rm", "-f", *running_tasks], timeout=120, check=False)
    host.run(["systemctl", "stop", "kubepods.slice"], timeout=120, check=False)
    stop(host, CONTAINERD)
    kubelet_dir = config.paths.kubernetes.kubelet_dir if config else "/var/lib/kubelet"
    # Only what the kubelet and containerd mount themselves: a disk that someone put below stays untouched.
    for place in (f"{kubelet_dir}/pods", f"{kubelet_dir}/plugins", *POD_STATE):
        for point in host.mounts_below(place):
            host.run(["umount", "--", point], check=False)
    for name in host.names(NETWORK_NAMESPACES):
        if name.startswith("cni-"):
            host.run(["umount", "--", f"{NETWORK_NAMESPACES}/{name}"], check=False)
            host.remove(f"{NETWORK_NAMESPACES}/{name}")
    for place in POD_STATE:
        host.remove_tree(place)
    tasks = f"{RUNTIME_STATE}/io.containerd.runtime.v2.task"
    if not any(host.names(f"{tasks}/{namespace}") for namespace in host.names(tasks)):
        host.remove_tree(RUNTIME_STATE)
    if config and config.cni.mode == "bridge" and host.exists("/sys/class/net/cni0"):
        host.run(["ip", "link", "delete", "cni0"], check=False)
