# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the OpenVPN server, and of the router between it and the site. Pure."""

from __future__ import annotations

from ipaddress import IPv4Network

from testbed.vpn.settings import Settings

PORT = 443
INSIDE = "/etc/testbed"
NAME = "gateway.vpn.testbed"

# OpenVPN calls it for each certificate of a chain; depth 0 is the client's own.
VERIFY = f"""#!/bin/sh
[ "$1" = 0 ] || exit 0
thumbprint=$(printf %s "$tls_digest_0" | tr -d : | tr a-f A-F)
! grep -qix "$thumbprint" {INSIDE}/revoked
"""


def server_conf(settings: Settings, routes: tuple[str, ...]) -> str:
    """A server as Azure's gateway is one: TCP 443, TLS 1.2, tls-auth, client certificates, no passwords."""
    pool = settings.address_pool
    return "".join(
        f"{line}\n"
        for line in (
            f"port {PORT}",
            "proto tcp-server",
            "dev tun0",
            "topology subnet",
            f"server {pool.network_address} {pool.netmask}",
            f"ca {INSIDE}/client-roots.crt",
            f"cert {INSIDE}/server.crt",
            f"key {INSIDE}/server.key",
            "dh none",
            f"tls-auth {INSIDE}/tls-auth.key 0",
            "tls-version-min 1.2",
            "auth SHA256",
            "cipher AES-256-GCM",
            "data-ciphers AES-256-GCM",
            "remote-cert-tls client",
            "verify-client-cert require",
            "script-security 2",
            f"tls-verify {INSIDE}/verify",
            "keepalive 10 60",
            *(f'push "route {route} 255.255.255.255"' for route in routes),
            # What a client must not obey: all of its traffic would go through the gateway.
            'push "redirect-gateway def1"',
            "verb 3",
        )
    )


def router_script(site: IPv4Network, cluster: IPv4Network, public: tuple[str, ...]) -> str:
    """The site's router: NAT, and nothing of the cluster's network but what the world would see of it."""
    return f"""#!/bin/sh
set -eu
nft -f - <<'RULES'
table ip testbed
delete table ip testbed
table ip testbed {{
  chain forward {{
    type filter hook forward priority 0; policy drop;
    ct state established,related accept
    ip saddr {site} ip daddr {{ {", ".join(public)} }} accept
    ip saddr {site} ip daddr != {cluster} accept
  }}
  chain nat {{
    type nat hook postrouting priority 100;
    ip saddr {site} masquerade
  }}
}}
RULES
exec sleep infinity
"""
