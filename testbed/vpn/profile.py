# SPDX-License-Identifier: GPL-3.0-or-later
"""A client profile in the form in which Azure generates it. Pure; the emulated Azure uses it, too."""

from __future__ import annotations

import secrets

PLACEHOLDERS = ("$CLIENTCERTIFICATE", "$PRIVATEKEY")


def azure_profile(host: str, port: int, name: str, authority: str, tls_auth: str) -> str:
    """One profile for all clients of a gateway: places for a certificate and its key are left open.

    name: what the server's certificate is verified against.
    """
    return f"""client
remote {host} {port}
verify-x509-name '{name}' name
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

log openvpn.log
verb 3

# P2S CA root certificate
<ca>
{authority.strip()}
</ca>

# Pre Shared Key
<tls-auth>
{tls_auth.strip()}
</tls-auth>

# P2S client certificate
# Please fill this field with a PEM formatted client certificate
<cert>
{PLACEHOLDERS[0]}
</cert>

# P2S client certificate private key
# Please fill this field with a PEM formatted private key of the client certificate
<key>
{PLACEHOLDERS[1]}
</key>
"""


def filled(profile: str, certificate: str, key: str) -> str:
    """The profile of one client."""
    for place, text in zip(PLACEHOLDERS, (certificate, key), strict=True):
        profile = profile.replace(place, text.strip())
    return profile


def static_key() -> str:
    """A key for tls-auth, as `openvpn --genkey` writes it: 2048 bits in hexadecimal lines."""
    digits = secrets.token_hex(256)
    lines = [digits[at : at + 32] for at in range(0, len(digits), 32)]
    begin, end = "-----BEGIN OpenVPN Static key V1-----", "-----END OpenVPN Static key V1-----"
    return "\n".join([begin, *lines, end]) + "\n"
