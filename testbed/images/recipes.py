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

# They would make measurements jump.
PACKAGE_TIMERS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
)
# A privileged container sees the outer machine's terminals, kernel log and binfmt entries (at its stop it
# would unregister them all): it must touch none.
OUTER_UNITS = (
    "console-getty.service",
    "getty.target",
    "getty@.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
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


def masked(*units: str) -> dict[str, Entry]:
    """Units that do not start."""
    return {f"etc/systemd/system/{unit}": Entry("/dev/null") for unit in units}


LOGIN = {
    "etc/ssh/sshd_config.d/testbed.conf": Entry(SSHD.encode()),
    "etc/sudoers.d/testbed": Entry(f"{SSH_USER} ALL=(ALL) NOPASSWD: ALL\n".encode(), 0o440),
}
NODE_OVERLAY = {
    **masked(*PACKAGE_TIMERS, *OUTER_UNITS),
    **LOGIN,
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

# What a machine with a kernel of its own has beside that.
VM_PACKAGES = ("apparmor", "e2fsprogs", "initramfs-tools", "nftables", "udev")
SEED_UNIT = """[Unit]
Description=What makes this machine itself, from its seed disk: a tar without a file system around it
DefaultDependencies=no
Requires=dev-disk-by\\x2did-virtio\\x2dseed.device
After=dev-disk-by\\x2did-virtio\\x2dseed.device local-fs.target
Before=network-pre.target systemd-networkd.service ssh.service
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/tar --extract --no-overwrite-dir --directory / --file /dev/disk/by-id/virtio-seed
"""
WANTED = "etc/systemd/system/multi-user.target.wants"
VM_OVERLAY = {
    **masked(*PACKAGE_TIMERS),
    **LOGIN,
    "etc/systemd/journald.conf.d/testbed.conf": Entry(b"[Journal]\nStorage=persistent\n"),
    "etc/systemd/system/testbed-seed.service": Entry(SEED_UNIT.encode()),
    f"{WANTED}/testbed-seed.service": Entry("/etc/systemd/system/testbed-seed.service"),
    f"{WANTED}/systemd-networkd.service": Entry("/lib/systemd/system/systemd-networkd.service"),
}


def node(platform: str) -> Recipe:
    """The root file system of a node platform, for containers."""
    return Recipe(
        name=f"node-{platform}",
        suite=_suite(platform),
        packages=_node_packages(platform),
        overlay=NODE_OVERLAY,
        hooks=NODE_HOOKS,
        keys=_keys(platform),
    )


def vm(platform: str, arch: str) -> Recipe:
    """The disk of a node platform for a virtual machine: with a kernel, its modules and an initrd."""
    kernel = "linux-image-virtual" if _is_ubuntu(platform) else f"linux-image-cloud-{arch}"
    return Recipe(
        name=f"vm-{platform}-{arch}",
        suite=_suite(platform),
        packages=(*_node_packages(platform), *VM_PACKAGES, kernel),
        overlay=VM_OVERLAY,
        hooks=NODE_HOOKS,
        keys=_keys(platform),
        arch=arch,
    )


def _suite(platform: str) -> str:
    if platform not in PLATFORMS:
        raise TestbedError(f"platform {platform!r} is unknown: choose one of {', '.join(PLATFORMS)}")
    return PLATFORMS[platform]


def _is_ubuntu(platform: str) -> bool:
    return _suite(platform) in UBUNTU


def _node_packages(platform: str) -> tuple[str, ...]:
    # Every server has apt; Ubuntu does not count it to the smallest possible system.
    return ("apt", *NODE_PACKAGES) if _is_ubuntu(platform) else NODE_PACKAGES


def _keys(platform: str) -> Recipe | None:
    return UBUNTU_KEYS if _is_ubuntu(platform) else None
