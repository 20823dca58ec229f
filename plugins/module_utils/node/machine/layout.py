# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths and unit names that this collection uses on a machine."""

from __future__ import annotations

PROGRAM_DIR = "/opt/aks-flex-node"
VERSIONS_DIR = f"{PROGRAM_DIR}/versions"
AGENT_DIR = f"{PROGRAM_DIR}/agent"  # versions of the aks-flex-node command
BIN_DIR = "/usr/local/bin"
SBIN_DIR = "/usr/local/sbin"
UNIT_DIR = "/etc/systemd/system"
CONTAINERD_DIR = "/etc/containerd"
# Where node_exporter's textfile collector reads, by its documentation and in Debian's package.
TEXTFILE_DIRECTORIES = ("/var/lib/node_exporter/textfile_collector", "/var/lib/prometheus/node-exporter")
RUN_DIR = "/run/aks-flex-node"  # of the present boot only: a tmpfs
CONTAINERD_SOCKET = "unix:///run/containerd/containerd.sock"

CONTAINERD = "containerd.service"
KUBELET = "kubelet.service"
POLL_SERVICE = "aks-flex-node-poll.service"  # checks for a new configuration
POLL_TIMER = "aks-flex-node-poll.timer"
NPD = "node-problem-detector.service"
NPD_BINARY = "node-problem-detector"
NPD_DIR = "/etc/node-problem-detector"
APPLY_SERVICE = "aks-flex-node-apply.service"  # applies it
PULL_SERVICE = "aks-flex-node-pull.service"  # runs the playbooks of the team's repository
PULL_TIMER = "aks-flex-node-pull.timer"
PULL_CRON = "/etc/cron.d/aks-flex-node-pull"
ANSIBLE_DIR = f"{PROGRAM_DIR}/ansible"  # a venv with ansible-core, for ansible-pull
SYSTEM_PYTHON = "/usr/bin/python3"  # runs the command and Ansible
DEFAULT_PLAYBOOK = f"{ANSIBLE_DIR}/reconcile.yml"  # for a repository without a playbook
KUBELET_DEFAULTS = "/etc/default/kubelet"  # its flags
VPN = "aks-flex-node-vpn.service"  # the OpenVPN client
VPN_DIR = "/etc/aks-flex-node/vpn"
VPN_DEVICE = "aksvpn0"  # a name of its own: tun0 may belong to another VPN of the site
VPN_SOCKET = "/run/aks-flex-node-vpn/management"  # exists while the client runs; for root only
WHEELS_DIR = f"{PROGRAM_DIR}/wheels"  # files that a controller copied, for machines without an index


STAGING = ".staging"  # a version that is unpacked, but not in place yet


def version_dir(name: str, version: object, sha256: str) -> str:
    """The directory of one build of an artifact: other bytes are another version, under any name."""
    return f"{VERSIONS_DIR}/{name}/{version}-{sha256[:12]}"


def enabled(unit: str, by: str = "multi-user.target") -> tuple[str, str]:
    """The link that enables a unit at boot, and its target."""
    return f"{UNIT_DIR}/{by}.wants/{unit}", f"{UNIT_DIR}/{unit}"
