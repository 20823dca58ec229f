# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's proxy: as environment variables, and for the HTTP client."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from ..config.model import NodeConfig
from ..machine.clock import Clock
from .proxies import Proxies

if TYPE_CHECKING:
    from .http_client import HttpClient

ALWAYS_DIRECT = ("localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local", "169.254.169.254")


def environment(config: NodeConfig) -> dict[str, str]:
    """HTTP_PROXY, HTTPS_PROXY and NO_PROXY; empty without a proxy."""
    proxy = config.proxy
    pairs = {
        "HTTP_PROXY": proxy.http.reveal() if proxy.http else "",
        "HTTPS_PROXY": proxy.https.reveal() if proxy.https else "",
    }
    pairs = {name: value for name, value in pairs.items() if value}
    return {**pairs, "NO_PROXY": ",".join(direct(config))} if pairs else {}


def proxies(config: NodeConfig) -> Proxies:
    """The same for the HTTP client."""
    pairs = environment(config)
    return Proxies(pairs.get("HTTP_PROXY", ""), pairs.get("HTTPS_PROXY", ""), direct(config))


def download_client(config: NodeConfig, clock: Clock, **options: Any) -> HttpClient:
    """The client for artifacts: the mirror's CA and the site's proxy."""
    from .http_client import HttpClient  # slow to import
    from .tls import INSTALL_CAS, SET_CA, lacks_system_cas

    ca = config.mirror.ca_cert.pem if config.mirror.ca_cert else ""
    advice = INSTALL_CAS if not config.mirror.url and lacks_system_cas() else SET_CA
    return HttpClient(ca_pem=ca, proxies=proxies(config), clock=clock, untrusted=advice, **options)


def direct(config: NodeConfig) -> tuple[str, ...]:
    """What is reached without the proxy: as configured, and everything of the cluster itself."""
    network = config.network
    cidrs = (network.service_cidr, network.pod_cidr, *network.vnet_cidrs, config.cni.pod_cidr)
    server = config.node.kubelet.server_url
    api = (urllib.parse.urlsplit(server).hostname or "",) if server else ()
    entries = (*config.proxy.no, *ALWAYS_DIRECT, *api, *(str(cidr) for cidr in cidrs if cidr))
    return tuple(dict.fromkeys(entry for entry in entries if entry))
