# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe the machine's network as the kernel lists it: ports, addresses, routes, resolvers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Interface, ip_address

from ...config.model import NodeConfig
from ...config.types.addresses import Address
from ...dataclass import replace
from ...machine.host import Host
from ..seen import Link, Listener

LISTEN = "0A"
RESOLVERS = ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf")
LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


def ports_of(config: NodeConfig | None) -> dict[int, str]:
    """The ports that a node listens on, and their use."""
    metrics = config.containerd.metrics_address if config else "127.0.0.1:10257"
    overrides: Mapping[str, object] = config.kubelet.config_overrides if config else {}
    wanted = {
        overrides.get("port", 10250): "the kubelet (logs, exec, metrics)",
        overrides.get("healthzPort", 10248): "the kubelet's health",
        # Disabled by default, as it needs no login; an override may enable it.
        overrides.get("readOnlyPort", 0): "the kubelet's read-only port",
        int(metrics.rpartition(":")[2]): "containerd's metrics (containerd.metricsAddress)",
    }
    return {port: use for port, use in wanted.items() if isinstance(port, int) and port > 0}


def listeners(host: Host) -> tuple[Listener, ...]:
    """All listening TCP ports."""
    found = []
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in (line.split() for line in host.text(file).splitlines()[1:]):
            if len(row) > 9 and row[3] == LISTEN:
                address, _colon, port = row[1].rpartition(":")
                found.append(Listener(int(port, 16), str(_address(address)), row[9]))
    return tuple(found)


def owner_of(host: Host, listener: Listener) -> Listener:
    """The same with its process, found by searching all processes."""
    wanted = f"socket:[{listener.inode}]"
    for pid in (name for name in host.names("/proc") if name.isdecimal()):
        try:
            for number in host.names(f"/proc/{pid}/fd"):
                if os.readlink(host.path(f"/proc/{pid}/fd/{number}")) == wanted:
                    name = host.text(f"/proc/{pid}/comm").strip()
                    return replace(listener, owner=name, pid=int(pid))
        except OSError:  # it has exited meanwhile, or may not be read
            continue
    return listener


def links(host: Host) -> tuple[Link, ...]:
    """Networks that are reached without a gateway, and addresses outside of them."""
    found = list(dict.fromkeys((*_links_4(host), *_links_6(host))))
    for text in LOCAL.findall(host.text("/proc/net/fib_trie")):
        address = IPv4Address(text)
        if not address.is_loopback and not any(address in link.network for link in found):
            found.append(Link("", IPv4Network(address)))
    return tuple(found)


def _links_4(host: Host) -> Iterator[Link]:
    for interface, target, gateway, mask in _routes_4(host):
        if not int(gateway, 16) and int(mask, 16) and interface != "lo":
            yield Link(interface, IPv4Network((_bytes(target), str(IPv4Address(_bytes(mask))))))


def _links_6(host: Host) -> Iterator[Link]:
    for row in (line.split() for line in host.text("/proc/net/if_inet6").splitlines()):
        if len(row) == 6 and row[3] == "00":  # of global scope
            address = IPv6Interface((int(row[0], 16), int(row[2], 16)))
            yield Link(row[5], address.network)


def _routes_4(host: Host) -> Iterator[tuple[str, str, str, str]]:
    for row in (line.split() for line in host.text("/proc/net/route").splitlines()[1:]):
        if len(row) > 7 and int(row[3], 16) & 1:  # the route is up
            yield row[0], row[1], row[2], row[7]


def default_mtus(host: Host) -> dict[str, int]:
    """The MTU of each interface with a default route."""
    names = {interface for interface, _to, _by, mask in _routes_4(host) if not int(mask, 16)}
    for row in (line.split() for line in host.text("/proc/net/ipv6_route").splitlines()):
        if len(row) == 10 and row[1] == "00" and row[9] != "lo" and int(row[4], 16):
            names.add(row[9])
    texts = {name: host.text(f"/sys/class/net/{name}/mtu").strip() for name in sorted(names)}
    return {name: int(text) for name, text in texts.items() if text.isdecimal()}


def nameservers(host: Host) -> tuple[Address, ...]:
    """The name servers that pods will use."""
    file = next((file for file in RESOLVERS if host.exists(file)), RESOLVERS[-1])
    found: list[Address] = []
    for row in (line.split() for line in host.text(file).splitlines()):
        if len(row) > 1 and row[0] == "nameserver":
            try:
                found.append(ip_address(row[1].partition("%")[0]))
            except ValueError:
                continue
    return tuple(found)


def _bytes(text: str) -> bytes:
    """An address as the kernel prints it, a little-endian number."""
    return int(text, 16).to_bytes(4, "little")


def _address(text: str) -> Address:
    if len(text) == 8:
        return IPv4Address(_bytes(text))
    words = (text[start : start + 8] for start in range(0, 32, 8))
    return IPv6Address(b"".join(_bytes(word) for word in words))
