# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what the VPN client needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

from ..finding import Outcome, error, warning
from ..seen import Situation

PRIVATE = tuple(
    ip_network(cidr)
    for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
USE_VPN = (
    "the API server of a private cluster answers in its VNet only: set azure.vpn (docs/vpn.md), or use a "
    "tunnel of your own and node.kubelet.nodeIP"
)


def client(now: Situation) -> Iterator[Outcome]:
    """The kernel has tunnels, and the client can be installed."""
    vpn = now.config.azure.vpn
    if not vpn.enabled:
        return
    if vpn.profile is None and vpn.auto_provision:
        yield warning(
            "vpn-profile",
            "there is no VPN profile yet",
            "what is behind the VPN can't be checked without it",
            "bootstrap creates it, and the gateway too where there is none (azure.vpn.autoProvision)",
        )
    if not now.machine.tun_device:
        yield error(
            "vpn-device",
            "there is no /dev/net/tun",
            "the VPN client creates its device with it",
            "modprobe tun; in a container or a small VM, allow the device on the host",
        )
    if "openvpn" in now.machine.tools:
        return
    if not now.machine.package_sources:
        yield error(
            "vpn-package",
            "openvpn is not installed, and apt has no source for packages",
            "the client is a package of the distribution",
            "apt-get install openvpn from the site's mirror of the distribution, or add one to "
            "/etc/apt/sources.list.d",
        )


def is_private(addresses: Iterable[str]) -> bool:
    """Whether a server has private addresses only: it may be one of a private cluster."""
    found = [ip_address(address.partition("%")[0]) for address in addresses]
    return bool(found) and all(any(address in network for network in PRIVATE) for address in found)
