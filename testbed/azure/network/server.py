# SPDX-License-Identifier: GPL-3.0-or-later
"""The server behind the gateways: what a real OpenVPN server reads, and what it tells about itself.

The control interface has one document per testbed (GET /_testbed/vpn):

    {"gateway": "/subscriptions/.../virtualNetworkGateways/flexnode-vpn",   empty while there is none
     "provisioningState": "Succeeded",
     "rootCertificates": ["base64 of DER", ...],
     "revokedThumbprints": ["SHA-1 in capital letters", ...],
     "addressPool": "192.168.100.0/24",
     "routes": ["10.224.0.0/12", ...],                                       the VNet's address space
     "server": {"host": "...", "port": 443, "caCertificate": "PEM", "tlsAuthKey": "OpenVPN static key",
                "name": "what its certificate is verified against"}}

PUT /_testbed/vpn/server replaces the part "server": from then on generated profiles lead there. Until then
they hold a CA and a key that were made up, so that they have Azure's form all the same.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testbed.azure.cloud import Cloud
from testbed.azure.network.store import Resources
from testbed.vpn.profile import static_key

FIELDS = {"host", "port", "caCertificate", "tlsAuthKey", "name"}
NEEDED = FIELDS - {"name"}
TABLE = "CREATE TABLE IF NOT EXISTS vpn_server (id INTEGER PRIMARY KEY, document TEXT NOT NULL)"
HOST = "azuregateway-00000000-0000-4000-8000-000000000001.vpn.azure.com"


def server(cloud: Cloud) -> dict[str, Any]:
    """The server that profiles lead to; made up the first time."""
    cloud.database.change(TABLE)
    row = cloud.database.row("SELECT document FROM vpn_server WHERE id = 1")
    if row is None:
        made = {"host": HOST, "port": 443, "caCertificate": _authority(), "tlsAuthKey": static_key()}
        # Another request may have made one meanwhile: the first stays.
        cloud.database.change(
            "INSERT OR IGNORE INTO vpn_server VALUES (1, ?)", json.dumps({**made, "name": HOST})
        )
        return server(cloud)
    found: dict[str, Any] = json.loads(row["document"])
    return found


def set_server(cloud: Cloud, given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the server; a ValueError names what is wrong."""
    if set(given) - FIELDS or NEEDED - set(given):
        raise ValueError(f"a server has exactly {', '.join(sorted(NEEDED))}, and may have a name")
    if not isinstance(given["port"], int) or not given["host"]:
        raise ValueError("a server has a host, and a port that is a number")
    x509.load_pem_x509_certificate(given["caCertificate"].encode())
    document = {"name": given["host"], **given}
    cloud.database.change(TABLE)
    cloud.database.change("REPLACE INTO vpn_server VALUES (1, ?)", json.dumps(document))
    return document


def forget_server(cloud: Cloud) -> None:
    """Back to a server that is made up."""
    cloud.database.change(TABLE)
    cloud.database.change("DELETE FROM vpn_server")


def settings(cloud: Cloud) -> dict[str, Any]:
    """All that a server needs to be the gateway."""
    gateways = Resources(cloud).all("virtualNetworkGateways")
    gateway = next((one for one in gateways if one["properties"].get("vpnClientConfiguration")), None)
    known = (gateway or {}).get("properties") or {}
    clients = known.get("vpnClientConfiguration") or {}
    pool = (clients.get("vpnClientAddressPool") or {}).get("addressPrefixes") or [""]
    return {
        "gateway": gateway["id"] if gateway else "",
        "provisioningState": known.get("provisioningState", ""),
        "rootCertificates": [
            one["properties"]["publicCertData"] for one in clients.get("vpnClientRootCertificates") or ()
        ],
        "revokedThumbprints": [
            one["properties"]["thumbprint"].upper()
            for one in clients.get("vpnClientRevokedCertificates") or ()
        ],
        "addressPool": pool[0],
        "routes": _routes(cloud, known),
        "server": server(cloud),
    }


def _routes(cloud: Cloud, gateway: Mapping[str, Any]) -> list[str]:
    for one in gateway.get("ipConfigurations") or ():
        vnet = Resources(cloud).find(one["properties"]["subnet"]["id"].partition("/subnets/")[0])
        if vnet:
            return list(vnet["properties"]["addressSpace"]["addressPrefixes"])
    return []


def _authority() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made up VPN server root")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()
