# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive that Azure generates for clients, and the place that it is downloaded from."""

from __future__ import annotations

import io
import json
import secrets
import time
import zipfile
from typing import Any

from fastapi import APIRouter, Header
from fastapi.responses import JSONResponse, Response

from testbed.azure.cloud import Cloud
from testbed.azure.network.server import server

VALID_SECONDS = 300
TABLE = (
    "CREATE TABLE IF NOT EXISTS vpn_profiles (signature TEXT PRIMARY KEY, ends REAL NOT NULL,"
    " document TEXT NOT NULL)"
)


def profile(here: dict[str, Any]) -> str:
    """An OpenVPN profile in Azure's form: places for a certificate and its key are left open."""
    return f"""client
remote {here["host"]} {here["port"]}
verify-x509-name '{here["name"]}' name
remote-cert-tls server

dev tun
proto tcp
resolv-retry infinite
nobind

auth SHA256
cipher AES-256-GCM
persist-key
persist-tun

tls-timeout 30
tls-version-min 1.2
key-direction 1

#log openvpn.log
verb 3

# P2S CA root certificate
<ca>
{here["caCertificate"].strip()}
</ca>

# Pre Shared Key
<tls-auth>
{here["tlsAuthKey"].strip()}
</tls-auth>

# P2S client certificate
# Please fill this field with a PEM formatted client certificate
<cert>
$CLIENTCERTIFICATE
</cert>

# P2S client certificate private key
# Please fill this field with a PEM formatted private key of the client certificate
<key>
$PRIVATEKEY
</key>
"""


def archive(here: dict[str, Any], protocols: list[str]) -> bytes:
    """The archive; without OpenVPN among the gateway's protocols it has no profile for it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as found:
        found.writestr("Generic/VpnServerRoot.cer_0", here["caCertificate"])
        found.writestr(
            "Generic/VpnSettings.xml",
            f"<VpnProfile><VpnServer>{here['host']}</VpnServer><Auth>Certificate</Auth></VpnProfile>\r\n",
        )
        if "OpenVPN" in protocols:
            # Azure's files have the line ends of Windows.
            found.writestr("OpenVPN/vpnconfig.ovpn", profile(here).replace("\n", "\r\n"))
    return packed.getvalue()


def offer(cloud: Cloud, protocols: list[str]) -> str:
    """A signed URL of a fresh archive."""
    signature = secrets.token_urlsafe(24)
    cloud.database.change(TABLE)
    document = json.dumps({"server": server(cloud), "protocols": protocols})
    cloud.database.change(
        "INSERT INTO vpn_profiles VALUES (?, ?, ?)", signature, time.time() + VALID_SECONDS, document
    )
    return f"{cloud.place.origin}/vpn-profiles/vpnclientconfiguration.zip?sv=2023-11-03&sig={signature}"


def router(cloud: Cloud) -> APIRouter:
    """Where archives are downloaded from, as from Blob Storage: the signature is all that counts."""
    routes = APIRouter(prefix="/vpn-profiles")

    @routes.get("/vpnclientconfiguration.zip")
    def download(sig: str = "", authorization: str = Header("")) -> Response:
        if authorization:  # Blob Storage refuses a request with two kinds of credentials
            return JSONResponse({"error": {"code": "InvalidAuthenticationInfo"}}, 400)
        cloud.database.change(TABLE)
        row = cloud.database.row("SELECT * FROM vpn_profiles WHERE signature = ?", sig)
        if row is None or row["ends"] < time.time():
            return JSONResponse({"error": {"code": "AuthenticationFailed"}}, 403)
        found = json.loads(row["document"])
        packed = archive(found["server"], found["protocols"])
        return Response(packed, media_type="application/zip")

    return routes
