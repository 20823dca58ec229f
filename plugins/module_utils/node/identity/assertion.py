# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client assertions of a service principal, signed with its certificate by the openssl command."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import uuid

from ..dataclass import dataclass
from ..machine.host import Host
from .errors import CredentialUnusable

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
EARLIER = 300  # seconds: with a clock slightly ahead, the assertion must not start in the future
LIFETIME = 600
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class CertificateFile:
    """One PEM file with an RSA key and its certificate. openssl reads the key from the file."""

    host: Host
    path: str

    def key(self) -> str:
        """A digest of the certificate."""
        return hashlib.sha256(self._certificate()).hexdigest()

    def fields(self, client_id: str, endpoint: str) -> dict[str, str]:
        """A signed assertion of this identity, valid for minutes and for this URL only."""
        return {
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self._assertion(client_id, endpoint),
        }

    def _assertion(self, client_id: str, endpoint: str) -> str:
        certificate, now = self._certificate(), int(self.host.clock.now())
        header = {
            "alg": "RS256",
            "typ": "JWT",
            "x5t": _encoded(hashlib.sha1(certificate).digest()),  # noqa: S324 - an identifier, not a protection
            "x5t#S256": _encoded(hashlib.sha256(certificate).digest()),
        }
        statement = {
            "aud": endpoint,
            "iss": client_id,
            "sub": client_id,
            "jti": str(uuid.uuid4()),
            "nbf": now - EARLIER,
            "exp": now + LIFETIME,
        }
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, statement))
        return f"{signed}.{_encoded(self._signature(signed.encode()))}"

    def _certificate(self) -> bytes:
        try:
            text = self.host.text(self.path)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        found = _CERTIFICATE.search(text)
        if not found:
            raise self._unusable("it contains no certificate" if text else "it is empty or missing")
        try:
            return ssl.PEM_cert_to_DER_cert(found[0])
        except ValueError as error:
            raise self._unusable("its certificate is not PEM") from error

    def _signature(self, data: bytes) -> bytes:
        # An empty password: an encrypted key fails at once instead of prompting.
        argv = ["openssl", "dgst", "-sha256", "-passin", "pass:", "-hex", "-sign", self.host.path(self.path)]
        done = self.host.run(argv, data=data, timeout=30, check=False)
        if done.status == 127:
            raise self._unusable("the openssl command is not installed", "apt-get install openssl")
        found = re.search(r"= ?([0-9a-f]{256,})\s*$", done.stdout)
        if done.status != 0 or not found:
            output = (done.stderr.strip().splitlines() or ["no signature"])[0]
            raise self._unusable(f"openssl can't sign with its key: {output[:200]}")
        return bytes.fromhex(found[1])

    def _unusable(self, why: str, fix: str = "") -> CredentialUnusable:
        return CredentialUnusable(
            "the service principal's certificate can't be used",
            where=self.path,
            why=why,
            fix=fix
            or "write an RSA key (without password) and its certificate to it, as PEM, mode 0600, owner root",
        )


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
