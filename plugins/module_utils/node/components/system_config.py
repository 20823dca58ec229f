# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine itself: directories, no swap, kernel modules and settings."""

from __future__ import annotations

from ..config.model import NodeConfig
from ..machine.facts import Facts
from ..machine.layout import CONTAINERD_DIR, PROGRAM_DIR, UNIT_DIR
from ..resources.base import Resource
from ..resources.kernel.fstab import FstabSwap
from ..resources.kernel.modules import MODULES_FILE, KernelModule
from ..resources.kernel.settings import Sysctl
from ..resources.kernel.swap import SwapOff
from ..resources.paths import Directory, File, Link

MODULES = ("overlay", "br_netfilter")
SYSCTLS = {
    # for pod networking
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "net.ipv4.ip_forward": "1",
    # checked by the kubelet (protectKernelDefaults)
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.keys.root_maxbytes": "25000000",
}
SYSCTL_FILE = "/etc/sysctl.d/99-zz-aks-flex-node.conf"  # after 99-sysctl.conf, which is /etc/sysctl.conf
HEADER = "# Managed by aks-flex-node: changes are overwritten, `aks-flex-node unbootstrap` removes it.\n"


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Everything that the kubelet requires of a machine."""
    return [
        *directories(config),
        SwapOff(facts.swap_units),
        FstabSwap(),
        *(
            Link(f"{UNIT_DIR}/{unit}", "/dev/null") for unit in facts.swap_units
        ),  # masked, so that it does not start at boot
        File(MODULES_FILE, HEADER + "".join(f"{name}\n" for name in MODULES)),
        *(KernelModule(name) for name in MODULES),
        File(SYSCTL_FILE, HEADER + "".join(f"{name} = {value}\n" for name, value in SYSCTLS.items())),
        *(Sysctl(name, value) for name, value in SYSCTLS.items()),
    ]


def directories(config: NodeConfig) -> list[Resource]:
    """Directories whose content is removed at unbootstrap."""
    paths = config.paths
    return [
        Directory(PROGRAM_DIR, 0o755, ours=True),
        Directory(paths.kubernetes.config_dir, 0o755, ours=True),
        Directory(paths.kubernetes.certs_dir, 0o755, ours=True),
        Directory(paths.kubernetes.manifests_dir, 0o700, ours=True),
        Directory(paths.kubernetes.volume_plugin_dir, 0o755, ours=True),
        Directory(paths.kubernetes.kubelet_dir, ours=True, created=0o700),
        Directory(CONTAINERD_DIR, 0o755, ours=True),
        Directory("/var/lib/containerd", ours=True, created=0o711),
        Directory(paths.cni.bin_dir, 0o755, ours=True),
        Directory(paths.cni.conf_dir, 0o755, ours=True),
        Directory(paths.cni.lib_dir, ours=True),
        Directory("/var/log/pods", ours=True),
        Directory("/var/log/containers", ours=True),
    ]
