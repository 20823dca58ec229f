# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates of a testbed: CAs, and what they sign, as PEM files that are created once."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from testbed.basics import files
from testbed.basics.errors import TestbedError

VALID = datetime.timedelta(days=730)
BACKDATED = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path

    @property
    def pem(self) -> str:
        """The certificate's text."""
        return self.cert.read_text(encoding="ascii")


def _subject(common_name: str, organization: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def private_key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key in the form every program here reads."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory: Path, name: str, common_name: str) -> None:
        self.directory = directory
        self.pair = Pair(directory / f"{name}.crt", directory / f"{name}.key")
        self.common_name = common_name

    @property
    def pem(self) -> str:
        """The CA's own certificate."""
        return self.pair.pem

    def ensure(self) -> None:
        """Create the CA if needed: the certificate is written last, so where it is, both are complete."""
        files.once(self.pair.cert, self._own_certificate, 0o644)

    def _own_certificate(self) -> bytes:
        key = ensured_key(self.pair.key)
        name = _subject(self.common_name, None)
        builder = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(authority=True), critical=True)
        )
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(
        self, name: str, common_name: str, *, organization: str | None = None, names: Sequence[str] = ()
    ) -> Pair:
        """A certificate of this CA, created if needed: for clients, and with names for servers too."""
        pair = Pair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        files.once(pair.cert, lambda: self._signed(pair.key, common_name, organization, names), 0o644)
        return pair

    def _signed(self, path: Path, common_name: str, organization: str | None, names: Sequence[str]) -> bytes:
        """A certificate for the key at path, which is created if needed."""
        issuer = x509.load_pem_x509_certificate(self.pair.cert.read_bytes())
        key = ensured_key(path)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])
        builder = (
            _builder(_subject(common_name, organization), issuer.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
                ),
                critical=False,
            )
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_general_name(one) for one in names])
            builder = builder.add_extension(alternatives, critical=False)
        signer = _ec_key(self.pair.key, self.pair.key.read_bytes())
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def ensured_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key at path, generated if needed."""
    return _ec_key(path, files.once(path, lambda: private_key_pem(ec.generate_private_key(ec.SECP256R1()))))


def _ec_key(path: Path, pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TestbedError(f"{path} is not an EC key: run 'python -m testbed down', then up")
    return key
