# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client profile that Azure generates: fetched, read out of its archive, filled for each machine."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import traceback
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ....node.config.types.openvpn import profile_problems
from .certificates import Pair
from .errors import ProfileUnusable
from .plan import AUTHENTICATION
from .resources import properties

REQUESTS_ERROR = ""
try:
    import requests
except ImportError:
    REQUESTS_ERROR = traceback.format_exc()

MEMBER = "openvpn/vpnconfig.ovpn"
CERTIFICATE, KEY = "$CLIENTCERTIFICATE", "$PRIVATEKEY"
LARGEST_ARCHIVE, LARGEST_PROFILE = 32 << 20, 256 << 10  # bytes
# What zipfile raises for an archive that is damaged, encrypted or packed in an unknown way.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
SECONDS = (10, 60)  # to connect, between two parts of an answer


def stamp_of(gateway: Mapping[str, Any]) -> str:
    """What a generated profile depends on: which gateway it is, and how its clients connect."""
    known = properties(gateway)
    clients = known.get("vpnClientConfiguration") or {}
    # Azure returns protocols in another order than they were PUT, and names the authentication later.
    kept = {
        "vpnClientProtocols": sorted(clients.get("vpnClientProtocols") or ()),
        "vpnAuthenticationTypes": sorted(clients.get("vpnAuthenticationTypes") or (AUTHENTICATION,)),
    }
    text = json.dumps([known.get("resourceGuid"), kept], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fetch(url: str, ca_bundle: str = "") -> bytes:
    """The archive. The signed URL is all that it takes: no token and no credential file goes with it."""
    where = shown(url)
    if urlsplit(url).scheme != "https":
        raise ProfileUnusable("Azure named no https URL for the profile", where=where)
    session = requests.Session()
    session.auth = _without  # else requests would look into .netrc
    try:
        with session.get(
            url, stream=True, timeout=SECONDS, allow_redirects=False, verify=ca_bundle or True
        ) as answer:
            if answer.status_code != 200:
                raise ProfileUnusable(
                    f"the profile can't be downloaded (HTTP {answer.status_code})",
                    where=where,
                    fix="run this again: the URL is valid for a short time only; a proxy may refuse it too",
                )
            data = b""
            for part in answer.iter_content(1 << 16):
                data += part
                if len(data) > LARGEST_ARCHIVE:
                    raise ProfileUnusable(
                        "the archive of the profile is too large",
                        where=where,
                        why=f"more than {LARGEST_ARCHIVE >> 20} MiB",
                    )
            return data
    except requests.RequestException as error:
        # Its text may hold the signed URL.
        raise ProfileUnusable(
            "the profile can't be downloaded",
            where=where,
            why=type(error).__name__,
            fix="check network, proxy and ca_bundle, then run this again",
        ) from None


def template_in(archive: bytes) -> str:
    """The OpenVPN profile in an archive. Nothing is unpacked to a disk, and no name in it is used."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as found:
            names = [one for one in found.infolist() if one.filename.lower() == MEMBER]
            if len(names) != 1:
                raise ProfileUnusable(
                    f"the archive holds {'no' if not names else 'more than one'} OpenVPN profile",
                    where="OpenVPN/vpnconfig.ovpn",
                    fix="the gateway must offer OpenVPN to its clients: look at its point-to-site "
                    "configuration",
                )
            with found.open(names[0]) as file:
                data = file.read(LARGEST_PROFILE + 1)  # the size in its header proves nothing
    except BROKEN as error:
        raise ProfileUnusable("the profile is no archive", why=type(error).__name__) from error
    if len(data) > LARGEST_PROFILE:
        raise ProfileUnusable("the profile is too large", why=f"more than {LARGEST_PROFILE >> 10} KiB")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ProfileUnusable("the profile is no text", why=str(error.reason)) from error
    return checked(text)


def checked(text: str) -> str:
    """A profile with one place for a certificate, one for its key, a gateway and its CA."""
    missing = [
        what
        for what, there in (
            (CERTIFICATE, text.count(CERTIFICATE) == 1),
            (KEY, text.count(KEY) == 1),
            ("remote", bool(re.search(r"(?m)^remote\s+\S+", text))),
            ("<ca>", "<ca>" in text and "</ca>" in text),
            ("client", bool(re.search(r"(?m)^client\s*$", text))),
        )
        if not there
    ]
    if missing:
        raise ProfileUnusable("the profile is not of the form that is known", why=f"without {missing[0]}")
    return text


def filled(template: str, pair: Pair) -> str:
    """The profile of one machine; it is a secret."""
    return template.replace(CERTIFICATE, pair.certificate.strip()).replace(KEY, pair.key.strip())


def require_readable(template: str, pair: Pair, gateway: str) -> None:
    """Refuse, before any machine gets it, a profile that machines would refuse. No line of it is shown."""
    if problems := profile_problems(filled(template, pair)):
        raise ProfileUnusable(
            "machines would refuse the profile that Azure generated",
            where=gateway,
            why="; ".join(problems),
            fix="look at the point-to-site configuration of the gateway; az network vnet-gateway vpn-client "
            "generate shows the same profile",
        )


def shown(url: str) -> str:
    """A URL without its signature."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _without(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
