# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All checks, in report order, with the ids by which they are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..dataclass import dataclass
from ..errors import ConfigInvalid, Problem, shown
from .checks import machine as check_machine
from .checks import network as check_network
from .checks import owner as check_owner
from .checks import reach as check_reach
from .checks import vpn as check_vpn
from .finding import Outcome, Stage
from .seen import Situation

# Findings without a check: they come with the document.
DOCUMENT = ("configuration", "configuration-source", "not-available", "token-format")


@dataclass(frozen=True)
class Check:
    """A check of the probe results, and the ids of its findings."""

    judge: Callable[[Situation], Iterator[Outcome]]
    ids: tuple[str, ...]
    stage: Stage = "host"
    alone: bool = False  # checks the machine only, independent of the document


CHECKS = (
    Check(check_machine.root, ("root",), alone=True),
    Check(check_machine.platform, ("platform",), alone=True),
    Check(check_machine.architecture, ("architecture",), alone=True),
    Check(check_machine.systemd, ("systemd",), alone=True),
    Check(check_machine.cgroup, ("cgroup", "cgroup-controllers"), alone=True),
    Check(check_machine.memory, ("memory",), alone=True),
    Check(check_machine.processors, ("processors",), alone=True),
    Check(check_machine.swap, ("swap", "swap-in-use"), alone=True),
    Check(
        check_machine.disks,
        ("disk-answer", "disk-space", "disk-small", "disk-pressure", "read-only", "noexec"),
        alone=True,
    ),
    Check(check_machine.kernel_modules, ("kernel-module",), alone=True),
    Check(check_machine.tools, ("tool-missing",), alone=True),
    Check(check_machine.records, ("records",), alone=True),
    Check(check_owner.foreign, ("foreign-runtime",)),
    Check(check_owner.identity_left, ("kubelet-identity",), alone=True),
    Check(check_owner.ports, ("port-in-use",), alone=True),
    Check(check_owner.node_name, ("node-name", "node-name-taken")),
    Check(check_owner.pod_network, ("cni-none", "cni-files")),
    Check(check_owner.kube_proxy, ("kube-proxy",)),
    Check(check_owner.versions, ("artifact-unknown",)),
    Check(check_owner.token, ("token-expired", "token-refused")),
    Check(check_owner.secrets, ("secrets-missing",)),
    Check(check_network.overlaps, ("cidr-overlap",)),
    Check(check_vpn.client, ("vpn-profile", "vpn-device", "vpn-package")),
    Check(check_network.mtu, ("mtu",), alone=True),
    Check(check_network.resolvers, ("resolver",), alone=True),
    Check(check_network.proxy, ("proxy",)),
    Check(check_reach.proxies, ("proxy-unreachable",), "connectivity"),
    Check(check_reach.api_server, check_reach.API_CHECKS, "connectivity"),
    Check(check_reach.clock, ("clock-skew",), "connectivity"),
    Check(check_reach.artifacts, ("artifact-unreachable",), "connectivity"),
    Check(check_reach.registries, ("registry-unreachable",), "connectivity"),
    Check(check_reach.azure, check_reach.AZURE_CHECKS, "connectivity"),
)
IDS = (*DOCUMENT, *(id_ for check in CHECKS for id_ in check.ids))


def checks_of(stage: Stage, skip: Iterable[str] = ()) -> tuple[Check, ...]:
    """The checks of a stage, without those that are skipped."""
    unwanted = frozenset(skip)
    return tuple(
        check for check in CHECKS if stage in ("all", check.stage) and not unwanted.issuperset(check.ids)
    )


def known(skip: Iterable[str]) -> frozenset[str]:
    """The ids to skip; an unknown id is an error that names the nearest one."""
    wanted = tuple(id_.strip() for id_ in skip)  # Ansible splits a text at its commas and leaves the blanks
    if problems := [_unknown(number, id_) for number, id_ in enumerate(wanted) if id_ not in IDS]:
        raise ConfigInvalid(problems, fix="correct these ids (flexnode_preflight_skip, --skip)")
    return frozenset(wanted)


def _unknown(number: int, id_: str) -> Problem:
    from difflib import get_close_matches  # only needed for an error

    nearest = get_close_matches(id_, IDS, n=1, cutoff=0.3)
    hint = f"did you mean {nearest[0]}?" if nearest else ""
    return Problem(f"skip[{number}]", shown(id_), f"ids of checks: {', '.join(sorted(IDS))}", hint)
