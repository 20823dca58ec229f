# SPDX-License-Identifier: GPL-3.0-or-later
"""The root file systems of the testbed: node machines as a minimal server, and its own services."""

from __future__ import annotations

from testbed.artifacts.archive import Entry
from testbed.basics.errors import TestbedError
from testbed.images.rootfs import Recipe

SSH_USER = "flex"
SSH_USER_ID = 1000

# What a minimal server has, with what the kubelet and CNI plugins call (iptables, mount, ip, conntrack);
# containerd, runc and the kubelet themselves are the product's work.
NODE_PACKAGES = (
    "ca-certificates",
    "conntrack",
    "dbus",
    "ethtool",
    "iproute2",
    "iptables",
    "kmod",
    "mount",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
    "util-linux",
)

# A privileged machine sees the outer machine's terminals and kernel log: it must touch neither.
# Package timers would make measurements jump.
MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty.target",
    "getty@.service",
    "serial-getty@.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
)

SSHD = """PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 100:30:200
"""

JOURNAL = """[Journal]
ReadKMsg=no
Storage=volatile
"""

NODE_OVERLAY = {
    **{f"etc/systemd/system/{unit}": Entry("/dev/null") for unit in MASKED_UNITS},
    "etc/ssh/sshd_config.d/testbed.conf": Entry(SSHD.encode()),
    "etc/sudoers.d/testbed": Entry(f"{SSH_USER} ALL=(ALL) NOPASSWD: ALL\n".encode(), 0o440),
    "etc/systemd/journald.conf.d/testbed.conf": Entry(JOURNAL.encode()),
}
NODE_HOOKS = (
    f'chroot "$1" useradd --uid {SSH_USER_ID} --create-home --shell /bin/bash {SSH_USER}',
    'rm -f "$1"/etc/ssh/ssh_host_*',
)

PLATFORMS = {"debian12": "bookworm", "debian13": "trixie", "ubuntu2204": "jammy", "ubuntu2404": "noble"}
UBUNTU = ("jammy", "noble")
UBUNTU_KEYS = Recipe(
    name="ubuntu-keys", suite="trixie", packages=("ubuntu-archive-keyring",), variant="extract"
)
"""The keys of Ubuntu's archive, as Debian ships them: trust in both comes from one place."""

SERVICES = Recipe(
    name="services",
    suite="bookworm",
    packages=("busybox-static", "ca-certificates", "docker-registry", "etcd-server", "python3"),
)

BLOB = Recipe(name="blob", suite="bookworm", packages=("ca-certificates", "nodejs"))
"""What Azurite runs on."""

VPN = Recipe(name="vpn", suite="bookworm", packages=("iproute2", "nftables", "openvpn"))
"""The gateway of a private cluster, and the router of a site."""

BUSYBOX = Recipe(name="busybox", suite="bookworm", packages=("busybox-static",), variant="extract")
"""What the workload image consists of."""

KUBE_PROXY = Recipe(name="kube-proxy", suite="bookworm", packages=("nftables",), variant="extract")
"""What kube-proxy calls, and nothing else."""


def node(platform: str) -> Recipe:
    """The root file system of a node platform."""
    if platform not in PLATFORMS:
        raise TestbedError(f"platform {platform!r} is unknown: choose one of {', '.join(PLATFORMS)}")
    ubuntu = PLATFORMS[platform] in UBUNTU
    return Recipe(
        name=f"node-{platform}",
        suite=PLATFORMS[platform],
        # Every server has apt; Ubuntu does not count it to the smallest possible system.
        packages=("apt", *NODE_PACKAGES) if ubuntu else NODE_PACKAGES,
        overlay=NODE_OVERLAY,
        hooks=NODE_HOOKS,
        keys=UBUNTU_KEYS if ubuntu else None,
    )
