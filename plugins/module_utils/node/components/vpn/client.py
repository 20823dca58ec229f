# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenVPN client: the distribution's package, one profile, one unit of this collection."""

from __future__ import annotations

import urllib.parse
from ipaddress import IPv4Network, ip_address

from ...config.model import NodeConfig
from ...config.types.openvpn import Profile, read_profile
from ...config.types.openvpn_directives import SET_BY_US
from ...machine.facts import Facts
from ...machine.layout import KUBELET, UNIT_DIR, VPN, VPN_DEVICE, VPN_DIR, VPN_SOCKET, enabled
from ...resources.base import Resource
from ...resources.package import Package
from ...resources.paths import Directory, File, Link
from ...resources.units import Unit
from ..system_config import HEADER

PROGRAM = "/usr/sbin/openvpn"
PROFILE, DNS_SCRIPT = f"{VPN_DIR}/client.conf", f"{VPN_DIR}/dns"
# What gateways send for forced tunneling: all traffic of the machine, SSH included, would go through it.
# OpenVPN compares the beginnings of lines, so this is no protection from a gateway that is in wrong hands:
# it can send the same routes in smaller parts (SECURITY.md).
IGNORED = (
    "redirect-gateway",
    "redirect-private",
    "block-outside-dns",
    # Some send these instead.
    "route 0.0.0.0",
    "route 128.0.0.0 128.0.0.0",
    "route-ipv6 ::/",
    "route-ipv6 2000::/3",
    "route-ipv6 8000::/1",
)


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Everything that the tunnel consists of; nothing without a VPN."""
    if not config.azure.vpn.enabled:
        return []
    return [
        Package("openvpn"),
        Directory(VPN_DIR, 0o700, ours=True),
        File(DNS_SCRIPT, dns_script(config), 0o755, restarts=(VPN,)),
        File(PROFILE, client_profile(config), 0o600, restarts=(VPN,), secret=True),
        File(f"{UNIT_DIR}/{VPN}", UNIT, restarts=(VPN,)),
        # The kubelet reads it at its next start: until then it runs with the same tunnel.
        File(f"{UNIT_DIR}/{KUBELET}.d/20-vpn.conf", KUBELET_DROP_IN),
        Link(*enabled(VPN)),
        Unit(VPN),
    ]


def client_profile(config: NodeConfig) -> str:
    """The profile, and after it what this client needs: a later directive replaces an earlier one."""
    secret = config.azure.vpn.profile
    # In check mode the profile may be a placeholder: it is not created yet.
    profile = read_profile(secret.reveal()) if secret and not secret.redacted else Profile()
    return (
        HEADER
        + profile.rendered(without=SET_BY_US | {"dev"})
        + "".join(f"{line}\n" for line in own(config, profile))
    )


def certificate_in(profile: bytes) -> bytes:
    """The client certificate of a profile that is installed; the CA's comes before it."""
    return profile.partition(b"<cert>")[2].partition(b"</cert>")[0]


def own(config: NodeConfig, profile: Profile) -> list[str]:
    """The directives of this collection."""
    identified = ("remote-cert-tls", "remote-cert-eku", "remote-cert-ku", "verify-x509-name")
    return [
        f"dev {VPN_DEVICE}",
        "dev-type tun",
        "nobind",
        "persist-key",
        "persist-tun",
        "auth-nocache",
        # Reconnect for as long as it takes, and soon after a long outage.
        "resolv-retry infinite",
        "connect-retry 1 5",
        "connect-timeout 10",
        # Otherwise another machine with a certificate of the same CA could act as the gateway.
        *(["remote-cert-tls server"] if not any(map(profile.first, identified)) else []),
        *(f'pull-filter ignore "{name}"' for name in IGNORED),
        *(f"route {cidr.network_address} {cidr.netmask}" for cidr in routes(config)),
        "script-security 2",
        f"up {DNS_SCRIPT}",
        "up-restart",
        f"management {VPN_SOCKET} unix",
        "verb 2",
    ]


def routes(config: NodeConfig) -> list[IPv4Network]:
    """The networks behind the tunnel, for gateways that do not send their routes."""
    return [cidr for cidr in config.network.vnet_cidrs if isinstance(cidr, IPv4Network)]


def dns_script(config: NodeConfig) -> str:
    """Hands the name servers of the VNet to systemd-resolved, for the API server's name and sent domains.

    It never fails: a client whose script fails would end, and there is a tunnel without DNS, too.
    """
    host = urllib.parse.urlsplit(config.node.kubelet.server_url or "").hostname or ""
    domain = "" if not host or is_address(host) else f"~{host}"
    return DNS.replace("@DOMAINS@", domain)


def is_address(host: str) -> bool:
    """Whether the API server is named by its address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


DNS = f"""#!/bin/sh
{HEADER}# OpenVPN runs this when the tunnel is up, with what the gateway sent in its environment.
command -v resolvectl >/dev/null && [ -e /run/systemd/resolve/resolv.conf ] || exit 0
servers= domains='@DOMAINS@' number=1
while eval "option=\\${{foreign_option_$number:-}}" && [ -n "$option" ]; do
  value=${{option##* }}
  case $option in
    'dhcp-option DNS '* | 'dhcp-option DNS6 '*) servers="$servers $value" ;;
    'dhcp-option DOMAIN'*)
      # No zone of Azure Private DNS has one label only: that would be every name of a top-level domain.
      case ${{value%.}} in ?*.?*) domains="$domains ~$value" ;; esac ;;
  esac
  number=$((number + 1))
done
if [ -n "$servers" ] && [ -n "$domains" ]; then
  resolvectl dns "$dev" $servers
  resolvectl domain "$dev" $domains
  resolvectl default-route "$dev" false
fi
exit 0
"""

KUBELET_DROP_IN = f"""{HEADER}[Unit]
Wants={VPN}
After={VPN}
"""

UNIT = f"""{HEADER}[Unit]
Description=VPN of this node to the network of its cluster (OpenVPN)
After=network-online.target
Wants=network-online.target
# Restart forever: there may be no administrator at the site.
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={PROGRAM} --suppress-timestamps --config {PROFILE}
Restart=always
RestartSec=2
RuntimeDirectory={VPN_SOCKET.split("/")[2]}
RuntimeDirectoryMode=0700
CapabilityBoundingSet=CAP_NET_ADMIN
LockPersonality=yes
NoNewPrivileges=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectKernelModules=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
"""
