# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate signs for a service principal. The standard library can't sign: the openssl command does."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import uuid
from dataclasses import dataclass

from ..machine.host import Host
from .errors import CredentialUnusable

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
EARLIER = 300  # seconds: a clock that is a little ahead must not make an assertion of the future
LIFE = 600
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CertificateFile:
    """One PEM file with an RSA key and its certificate. The key stays in it: openssl is told its path."""

    host: Host
    path: str

    def key(self) -> str:
        """A digest of the certificate."""
        return hashlib.sha256(self._certificate()).hexdigest()

    def fields(self, client_id: str, endpoint: str) -> dict[str, str]:
        """A signed statement of who we are, good for minutes and for this address alone."""
        return {
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": self._assertion(client_id, endpoint),
        }

    def _assertion(self, client_id: str, endpoint: str) -> str:
        certificate, now = self._certificate(), int(self.host.clock.now())
        header = {
            "alg": "RS256",
            "typ": "JWT",
            "x5t": _encoded(hashlib.sha1(certificate).digest()),  # noqa: S324 - a name, not a protection
            "x5t#S256": _encoded(hashlib.sha256(certificate).digest()),
        }
        statement = {
            "aud": endpoint,
            "iss": client_id,
            "sub": client_id,
            "jti": str(uuid.uuid4()),
            "nbf": now - EARLIER,
            "exp": now + LIFE,
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
            raise self._unusable("there is no certificate in it" if text else "it is empty, or not there")
        try:
            return ssl.PEM_cert_to_DER_cert(found[0])
        except ValueError as error:
            raise self._unusable("its certificate is not PEM") from error

    def _signature(self, data: bytes) -> bytes:
        # An empty password: an encrypted key fails at once instead of asking a terminal.
        argv = ["openssl", "dgst", "-sha256", "-passin", "pass:", "-hex", "-sign", self.host.path(self.path)]
        done = self.host.run(argv, data=data, timeout=30, check=False)
        if done.status == 127:
            raise self._unusable("the openssl command is not on this machine", "apt-get install openssl")
        found = re.search(r"= ?([0-9a-f]{256,})\s*$", done.stdout)
        if done.status != 0 or not found:
            said = (done.stderr.strip().splitlines() or ["no signature"])[0]
            raise self._unusable(f"openssl can't sign with its key: {said[:200]}")
        return bytes.fromhex(found[1])

    def _unusable(self, why: str, fix: str = "") -> CredentialUnusable:
        return CredentialUnusable(
            "the service principal's certificate can't be used",
            where=self.path,
            why=why,
            fix=fix
            or "put an RSA key (without a password) and its certificate there, as PEM, mode 0600, owner root",
        )


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
