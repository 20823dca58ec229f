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
from testbed.vpn.profile import azure_profile

VALID_SECONDS = 300
TABLE = (
    "CREATE TABLE IF NOT EXISTS vpn_profiles (signature TEXT PRIMARY KEY, ends REAL NOT NULL,"
    " document TEXT NOT NULL)"
)


def profile(here: dict[str, Any]) -> str:
    """The profile of the gateway that this server stands for."""
    return azure_profile(here["host"], here["port"], here["name"], here["caCertificate"], here["tlsAuthKey"])


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
