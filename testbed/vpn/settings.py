# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway is told, by the emulated Azure or a test: who may connect, which addresses clients get."""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

POOL = IPv4Network("192.168.100.0/24")


@dataclass(frozen=True)
class Settings:
    """The gateway's point-to-site configuration."""

    root_certificates: tuple[str, ...] = ()
    """DER in base64, without PEM lines, as Azure takes them."""
    revoked_thumbprints: tuple[str, ...] = ()
    address_pool: IPv4Network = POOL

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Settings:
        """From the JSON of the emulated Azure."""
        return cls(
            tuple(str(one) for one in document.get("rootCertificates", ())),
            tuple(str(one).upper() for one in document.get("revokedThumbprints", ())),
            IPv4Network(document.get("addressPool") or str(POOL)),
        )

    @property
    def authorities(self) -> str:
        """The roots of clients in PEM form."""
        return "".join(pem(one) for one in self.root_certificates)


def pem(der: str) -> str:
    """A certificate of Azure's form in PEM form."""
    body = "\n".join(textwrap.wrap("".join(der.split()), 64))
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


def der(certificate_pem: str) -> str:
    """A certificate as Azure takes it: DER in base64."""
    certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
    return base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()


def thumbprint(certificate_pem: str) -> str:
    """By which a client certificate is revoked: SHA-1 of its DER, in capitals."""
    certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
    return hashlib.sha1(certificate.public_bytes(Encoding.DER), usedforsecurity=False).hexdigest().upper()
