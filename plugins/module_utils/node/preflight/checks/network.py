# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the machine's network: addresses, packets, resolvers, proxy. Pure."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from ipaddress import ip_address

from ...config.types.addresses import Network
from ...machine.layout import VPN_DEVICE
from ...net.answer import shown
from ...net.proxies import bypassed
from ...net.proxy import direct
from ..finding import Outcome, error, listed, warning
from ..seen import Link, Situation

LEAST_MTU, SMALL_MTU = 1280, 1400
# Interfaces of pod networks: on a node they have the ranges that are checked.
POD_INTERFACES = (
    "cni",
    "cilium",
    "lxc",
    "cali",
    "flannel",
    "veth",
    "tunl",
    "vxlan",
    "kube-",
    "weave",
    "nodelocal",
)


def overlaps(now: Situation) -> Iterator[Outcome]:
    """The ranges of pods, Services and VPN clients do not overlap this machine's networks."""
    network, vpn = now.config.network, now.config.azure.vpn
    ranges = [
        ("network.podCIDR", network.pod_cidr),
        ("network.serviceCIDR", network.service_cidr),
        ("cni.podCIDR", now.config.cni.pod_cidr),
        ("azure.vpn.p2sGatewayCIDR", vpn.p2s_gateway_cidr if vpn.enabled else None),
    ]
    links = _own_links(now)
    for name, cidr in ranges:
        if cidr is None:
            continue
        for link in links:
            if _overlap(cidr, link.network):
                place = f"{link.interface} has " if link.interface else "this machine has the address "
                yield error(
                    "cidr-overlap",
                    f"{place}{link.network}, which overlaps {name} ({cidr})",
                    "the machine would route traffic to its neighbours into the cluster, or the reverse",
                    "renumber this machine's network, or use a cluster with other ranges",
                )
        for server in now.machine.nameservers:
            if server in cidr and not any(server in link.network for link in links):
                yield error(
                    "cidr-overlap",
                    f"the name server {server} is in {name} ({cidr})",
                    "it can't be reached after the join",
                    "use another name server, or a cluster with other ranges",
                )
    yield from _vnet(now, links)


def _vnet(now: Situation, links: tuple[Link, ...]) -> Iterator[Outcome]:
    """The cluster's VNet; a machine in Azure may be part of it."""
    if now.config.azure_auth.method == "managedIdentity" or now.config.azure.managed_identity:
        return
    through_tunnel = now.config.azure.vpn.enabled
    for cidr in now.config.network.vnet_cidrs:
        for link in links:
            if not _overlap(cidr, link.network):
                continue
            found = f"{link.interface or 'an address'} ({link.network}) overlaps network.vnetCIDRs ({cidr})"
            if through_tunnel:
                yield error(
                    "cidr-overlap",
                    found,
                    "the VPN routes this range, and this machine loses its neighbours",
                    "renumber this machine's network",
                )
            else:
                yield warning(
                    "cidr-overlap",
                    found,
                    "unless this machine is part of that VNet, the cluster can't reach it (logs, exec)",
                    "renumber this machine's network, if it is not part of the VNet",
                )


def _own_links(now: Situation) -> tuple[Link, ...]:
    """Networks of the machine without those of pods and of the tunnel, which this collection creates."""
    links = tuple(link for link in now.machine.links if link.interface != VPN_DEVICE)
    if not now.machine.joined:
        return links
    of_pods = [link.network for link in links if link.interface.startswith(POD_INTERFACES)]
    return tuple(link for link in links if not any(_overlap(link.network, pods) for pods in of_pods))


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def mtu(now: Situation) -> Iterator[Outcome]:
    """The MTU: pod networks encapsulate packets, which makes them larger."""
    for interface, size in sorted(now.machine.mtus.items()):
        fix = (
            f"ip link set dev {interface} mtu 1500, if the path to the cluster supports that (try: tracepath)"
        )
        if size < LEAST_MTU:
            why = "IPv6 and many TLS handshakes need 1280: connections hang after the first bytes"
            yield error("mtu", f"the MTU of {interface} is {size}", why, fix)
        elif size < SMALL_MTU:
            why = "pod networks encapsulate packets: the MTU of pods is small, and large packets may be lost"
            yield warning("mtu", f"the MTU of {interface} is {size}", why, fix)


def resolvers(now: Situation) -> Iterator[Outcome]:
    """Pods inherit the machine's name servers."""
    servers = now.machine.nameservers
    if not servers:
        yield warning(
            "resolver",
            "no name server is configured",
            "neither the machine nor its pods can resolve names",
            "add one to /etc/resolv.conf, or to the network's configuration",
        )
    elif all(server.is_loopback for server in servers):
        yield warning(
            "resolver",
            f"the only name server is this machine itself ({listed(servers)})",
            "for pods with dnsPolicy Default, such as CoreDNS, that address is the pod",
            "set kubelet.configOverrides.resolvConf to a file that names the real servers",
        )


def proxy(now: Situation) -> Iterator[Outcome]:
    """The configured proxy and the system's proxy agree."""
    proxy, found = now.config.proxy, now.machine.environment
    there = found.get("https_proxy") or found.get("http_proxy")
    if there and not (proxy.http or proxy.https):
        yield warning(
            "proxy",
            f"/etc/environment names the proxy {shown(there)}, and the configuration names none",
            "downloads and image pulls go directly, and may fail",
            "set proxy.http and proxy.https",
        )
    if proxy.http and not proxy.https:
        yield warning(
            "proxy",
            "proxy.http is set, and proxy.https is not",
            "artifacts, images and Azure use https: they are reached directly",
            "set proxy.https too, to the same URL if one proxy serves both",
        )
    for name, address in (("https", proxy.https), ("http", proxy.http)):
        system = found.get(f"{name}_proxy", "")
        if address and system and shown(system).rstrip("/") != shown(address.reveal()).rstrip("/"):
            yield warning(
                "proxy",
                f"proxy.{name} is {shown(address.reveal())}, and this machine uses {shown(system)}",
                "one of the two is wrong or outdated",
                "use the same URL in proxy and /etc/environment",
            )
    yield from _mirror_by_proxy(now)


def _mirror_by_proxy(now: Situation) -> Iterator[Outcome]:
    """A mirror on the local network usually does not need the proxy."""
    mirror, proxy = now.config.mirror.url, now.config.proxy
    there = urllib.parse.urlsplit(mirror or "")
    host, port = there.hostname or "", there.port or (443 if there.scheme == "https" else 80)
    if not host or not (proxy.https or proxy.http) or bypassed(host, direct(now.config), port):
        return
    if any(_inside(host, link) for link in now.machine.links):
        yield warning(
            "proxy",
            f"the mirror {host} is on this machine's own network, and is reached through the proxy",
            "the proxy may not reach it, and downloads are slower",
            f"add {host} to proxy.no",
        )


def _inside(host: str, link: Link) -> bool:
    try:
        return ip_address(host) in link.network
    except ValueError:
        return False
