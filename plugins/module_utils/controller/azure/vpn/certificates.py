# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root and client certificates, made on the controller. Times come in, so that tests can choose them."""

from __future__ import annotations

import base64
import hashlib
import traceback
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from .errors import RecordUnusable

CRYPTOGRAPHY_ERROR = ""
try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    CRYPTOGRAPHY_ERROR = traceback.format_exc()

ROOT_BITS, CLIENT_BITS = 3072, 2048
ROOT_DAYS = 3650
SKEW = timedelta(hours=1)  # clocks of machines may be behind
LONGEST_NAME = 64  # of a common name, by X.520


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both in PEM; the key is a secret and never part of a repr."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return f"Pair({self.thumbprint})"

    @property
    def thumbprint(self) -> str:
        """How Azure names it."""
        return hashlib.sha1(der_of(self.certificate), usedforsecurity=False).hexdigest().upper()

    @property
    def public_data(self) -> str:
        """As a gateway takes it: base64 of DER, without the lines of PEM."""
        return base64.b64encode(der_of(self.certificate)).decode("ascii")

    @property
    def expires(self) -> float:
        """Until when it is valid, in seconds since the epoch."""
        found: float = x509.load_pem_x509_certificate(
            self.certificate.encode()
        ).not_valid_after_utc.timestamp()
        return found


def new_root(name: str, now: float) -> Pair:
    """A root of its own for one gateway: a certificate of another site must not open this one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=ROOT_BITS)
    subject = _name(f"aks-flexnode VPN {name}")
    start = datetime.fromtimestamp(now, timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - SKEW)
        .not_valid_after(start + timedelta(days=ROOT_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_client(root: Pair, node: str, now: float, days: int) -> Pair:
    """The certificate of one machine; it never outlives its root."""
    issuer = x509.load_pem_x509_certificate(root.certificate.encode())
    signer: Any = serialization.load_pem_private_key(root.key.encode(), None)
    key = rsa.generate_private_key(public_exponent=65537, key_size=CLIENT_BITS)
    start = datetime.fromtimestamp(now, timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(node))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(start - SKEW, issuer.not_valid_before_utc))
        .not_valid_after(min(start + timedelta(days=days), issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(node)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def given_root(certificate: str, key: str, passphrase: str, now: float) -> Pair:
    """A root that the user has: checked, and its key without encryption, in memory only."""
    fix = "set ca_certificate and ca_key (flexnode_vpn_ca_certificate, flexnode_vpn_ca_key) to PEM texts"
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        secret = _loaded(key, passphrase)
    except (ValueError, TypeError) as error:
        # The error's text is not shown: it may quote a part of the key.
        why = "the certificate or its key is not PEM, or the passphrase is wrong"
        raise RecordUnusable("the given root certificate can't be used", why=why, fix=fix) from error
    wrong = ""
    if found.subject != found.issuer:
        wrong = "it is not self-signed: Azure takes root certificates"
    elif not _is_authority(found):
        wrong = "it may not sign certificates: it has no CA:TRUE"
    elif not isinstance(secret, rsa.RSAPrivateKey):
        wrong = "its key is not RSA"
    elif found.public_key() != secret.public_key():
        wrong = "the key belongs to another certificate"
    elif found.not_valid_after_utc.timestamp() <= now:
        wrong = f"it expired on {found.not_valid_after_utc:%Y-%m-%d}"
    if wrong:
        raise RecordUnusable("the given root certificate can't be used", why=wrong, fix=fix)
    return _pair(found, secret)


def der_of(pem: str) -> bytes:
    """A certificate in DER."""
    found: bytes = x509.load_pem_x509_certificate(pem.encode()).public_bytes(serialization.Encoding.DER)
    return found


def _loaded(key: str, passphrase: str) -> Any:
    try:
        return serialization.load_pem_private_key(key.encode(), None)
    except TypeError:  # it is encrypted
        return serialization.load_pem_private_key(key.encode(), passphrase.encode())


def _is_authority(certificate: Any) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        return False


def _name(text: str) -> Any:
    if len(text) > LONGEST_NAME:
        text = f"{text[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> Any:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: Any, key: Any) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode("ascii"),
    )
