# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What contradicts itself in an inventory, found before anything is touched. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...node.errors import ConfigInvalid
from ...node.sources.machines import POOL_PATTERN, machine_name
from .machines import POOLS, Machine, section
from .variables import incomplete_onboarding, unknown_variables, wrong_values

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction, of one or several hosts."""

    hosts: tuple[str, ...]
    what: str
    fix: str
    severity: str = "error"

    @property
    def some(self) -> str:
        """The first few hosts."""
        return ", ".join(self.hosts[:4]) + (f", +{len(self.hosts) - 4}" if len(self.hosts) > 4 else "")


def lines_of(findings: Iterable[Finding]) -> list[str]:
    """Findings as a list: who and what, then the remedy on a line of its own. A table would be too wide."""
    lines = []
    for found in findings:
        label = "" if found.severity == "error" else f"{found.severity.upper()} "
        lines.append(f"{label}{found.some}: {found.what}")
        if found.fix:
            lines.append(f"  fix: {found.fix}")
    return lines


def check_variables(of_hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Mistyped variables and wrong values; the same one on many hosts is one finding."""
    mistyped: dict[tuple[str, str], list[str]] = {}
    wrong: dict[tuple[str, str, str], list[str]] = {}
    for host, variables in of_hosts.items():
        for name, near in unknown_variables(variables).items():
            mistyped.setdefault((name, near), []).append(host)
        for found in (*wrong_values(variables), *incomplete_onboarding(variables)):
            wrong.setdefault(found, []).append(host)
    for (name, why, fix), hosts in wrong.items():
        yield Finding(tuple(hosts), f"{name}: {why}", fix)
    for (name, near), hosts in mistyped.items():
        fix = f"did you mean {near}?" if near else "remove it; docs/variables.md lists every variable"
        yield Finding(tuple(hosts), f"unknown variable {name}: it has no effect", fix, "warning")


def check_source(machine: Machine, *, chosen: bool) -> Iterator[Finding]:
    """What a machine's source lacks. `chosen`: the inventory names the source."""
    host = (machine.host,)
    kubelet = section(section(machine.document, "node"), "kubelet")
    if machine.source == "url" and not machine.url:
        yield Finding(host, "source url needs flexnode_config_url", "set flexnode_config_url for this host")
    elif machine.source in ("rp", "cluster", POOLS) and not machine.cluster_id:
        yield Finding(
            host,
            f"source {machine.source} needs flexnode_cluster_id",
            "set it to the id of the cluster: az aks show -g GROUP -n NAME --query id",
        )
    elif machine.source == "inline" and not chosen and machine.cluster_id and not kubelet.get("serverURL"):
        yield Finding(
            host,
            "flexnode_cluster_id is set, but no source is, and the document names no API server",
            "set flexnode_config_source: cluster (or machines, rp, blob) beside it",
        )
    if machine.source == POOLS:
        yield from _check_pool(machine)
    elif machine.pool:
        yield Finding(
            host,
            f"flexnode_pool has no effect with source {machine.source}",
            "set flexnode_config_source: machines, or remove flexnode_pool",
        )


def _check_pool(machine: Machine) -> Iterator[Finding]:
    """What a machine of a FlexNodes pool lacks; checked before any call."""
    host = (machine.host,)
    if not machine.pool:
        yield Finding(
            host,
            "source machines needs flexnode_pool",
            "set it to the name of a FlexNodes pool: az aks nodepool list -g GROUP --cluster-name NAME",
        )
    elif not re.fullmatch(POOL_PATTERN, machine.pool):
        what = f"flexnode_pool {machine.pool!r} is not the name of a pool"
        yield Finding(host, what, "use 1-12 lower-case letters and digits, a letter first")
    try:
        machine_name(machine.node)
    except ConfigInvalid as invalid:
        for problem in invalid.problems:
            fix = f"set agent.nodeName (in flexnode_host_config) to {problem.accepted}"
            yield Finding(host, f"Node name {machine.node} can't be the name of a machine in Azure", fix)


def check_fleet(machines: Sequence[Machine], others: Iterable[Machine] = ()) -> Iterator[Finding]:
    """Machines that can't all be what they say. `others`: machines of the inventory outside this run."""
    run = {machine.host for machine in machines}
    everyone = [*machines, *(machine for machine in others if machine.host not in run)]
    yield from _same_names(everyone, run)
    yield from _pod_ranges(everyone, run)


def _same_names(machines: Sequence[Machine], run: set[str]) -> Iterator[Finding]:
    by_name: dict[tuple[str, str], list[Machine]] = {}
    for machine in machines:
        if machine.node:
            by_name.setdefault(machine.key, []).append(machine)
            if machine.source == "blob":  # a blob container is named after its Node alone
                by_name.setdefault((machine.node, "blob of any cluster"), []).append(machine)
    reported: set[tuple[str, ...]] = set()
    for (name, _cluster), found in by_name.items():
        hosts = tuple(machine.host for machine in found)
        if len(found) > 1 and run & set(hosts) and hosts not in reported:
            reported.add(hosts)
            fix = "set a different agent.nodeName for each (in flexnode_host_config)"
            yield Finding(hosts, f"all of these would be Node {name}", fix)


def _pod_ranges(machines: Sequence[Machine], run: set[str]) -> Iterator[Finding]:
    ranges = [(machine, network) for machine in machines for network in _networks(machine.pod_cidr)]
    # Sorted by their first address, only neighbours can overlap: 1000 hosts are not a million comparisons.
    ranges.sort(key=lambda pair: (pair[1].version, int(pair[1].network_address), -pair[1].num_addresses))
    open_ranges: list[tuple[Machine, Network]] = []
    equal: dict[tuple[str, str], list[str]] = {}
    for machine, network in ranges:
        open_ranges = [
            (other, wide)
            for other, wide in open_ranges
            if wide.version == network.version and int(wide.broadcast_address) >= int(network.network_address)
        ]
        for other, wide in open_ranges:
            if other.host != machine.host and run & {other.host, machine.host}:
                if wide == network and other.cluster_id.lower() == machine.cluster_id.lower():
                    hosts = equal.setdefault((str(network), machine.cluster_id), [])
                    hosts += [host for host in (other.host, machine.host) if host not in hosts]
                else:
                    yield _overlap(other, wide, machine, network)
        open_ranges.append((machine, network))
    for (network_text, _cluster), hosts in equal.items():
        yield Finding(
            tuple(hosts),
            f"all of these have cni.podCIDR {network_text}",
            "set a different cni.podCIDR for each (in flexnode_host_config)",
        )


def _overlap(one: Machine, wide: Network, other: Machine, network: Network) -> Finding:
    hosts, what = (one.host, other.host), f"cni.podCIDR {wide} and {network} overlap"
    if one.cluster_id.lower() == other.cluster_id.lower():
        return Finding(hosts, what, "set a different cni.podCIDR for each (in flexnode_host_config)")
    return Finding(
        hosts,
        f"{what}: nodes of two clusters in one pod range",
        "use another range, unless the two networks are never routed to each other",
        "warning",
    )


def _networks(text: str) -> list[Network]:
    """The ranges in a setting; what is no range is refused by the document's own checks."""
    found = []
    for part in text.split(","):
        try:
            found.append(ipaddress.ip_network(part.strip(), strict=False))
        except ValueError:
            continue
    return found
