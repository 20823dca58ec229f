# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A healthy machine and its surroundings, from which each test takes away one thing."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.every import CHECKS
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.finding import Outcome
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.seen import (
    ApiAnswer,
    Disk,
    Link,
    Machine,
    Reached,
    Situation,
    Source,
)
from tests.unit.node.config.test_samples import joining

GIB = 1 << 30
NOW = 1_800_000_000.0
PLACES = (
    "/etc",
    "/opt/aks-flex-node",
    "/usr/local/bin",
    "/var/lib/aks-flex-node",
    "/var/lib/containerd",
    "/var/lib/kubelet",
)
DISK = Disk("/", 1, 100 * GIB, 60 * GIB, 1000, 900)
HEALTHY = Machine(
    machine="x86_64",
    os_id="ubuntu",
    os_version="24.04",
    hostname="edge-1",
    root=True,
    systemd=True,
    cgroup_v2=True,
    controllers=frozenset(("cpu", "memory", "pids", "io")),
    cpus=4,
    memory=8 * GIB,
    memory_available=6 * GIB,
    swaps=(),
    listeners=(),
    foreign=(),
    ours=frozenset(),
    processes=frozenset(),
    joined=False,
    identity_left="",
    cni_files=("/etc/cni/net.d/05-cilium.conflist",),
    nameservers=(ip_address("192.0.2.53"),),
    links=(Link("eth0", ip_network("192.0.2.0/24")),),
    mtus={"eth0": 1500},
    tools=frozenset(("mount", "umount", "modprobe", "iptables")),
    modules_missing=(),
    modules_to_load=(),
    environment={},
    refused_token="",
    state_error="",
    disks=tuple(replace(DISK, path=path) for path in PLACES),
)
IN_AZURE = {"azure": {"targetCluster": {"nodeResourceGroup": "MC_rg_plant_westeurope"}}}
API = ApiAnswer(addresses=("192.0.2.10",), status=200, version="v1.34.4", is_kubernetes=True, skew=0.2)
GOOD = Reached(
    api=API,
    sources=(Source(("kubelet",), "https://mirror.example/kubelet", skew=0.4),),
    registries=(Source(("pause",), "https://mcr.microsoft.com/v2/"),),
)


def situation(*documents: dict[str, Any], reached: Reached = GOOD, **seen: Any) -> Situation:
    """A healthy machine with some things different; `documents` are merged over one that joins."""
    config = parse(joining(IN_AZURE, *documents))
    given = {name: seen.pop(name) for name in ("token_expires", "secrets_missing") if name in seen}
    return Situation(replace(HEALTHY, **seen), config, reached, NOW, **given)


def judged(now: Situation) -> list[Outcome]:
    """What all checks together say."""
    return [outcome for check in CHECKS for outcome in check.judge(now)]


def ids(outcomes: Iterable[Outcome]) -> list[str]:
    """Only their ids."""
    return [outcome.id for outcome in outcomes]
