# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop the units of a node, its pods and its containerd."""

from __future__ import annotations

from ...config.model import NodeConfig
from ...engine.lease import end_pull
from ...machine.host import Host
from ...machine.layout import CONTAINERD, PULL_SERVICE, PULL_TIMER
from ...machine.links import real_path
from ...resources.units import RUNNING, SYSTEMCTL_SECONDS, unit_states
from .runtime_users import KUBERNETES, SANDBOXES, TASKS, end_shims

NETWORK_NAMESPACES = "/run/netns"
RUNTIME_STATE = "/run/containerd"
# Of Kubernetes only: a runtime that was installed before the join may run other containers beside them.
POD_STATE = (
    f"{TASKS}/k8s.io",
    f"{RUNTIME_STATE}/io.containerd.grpc.v1.cri",
)


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
