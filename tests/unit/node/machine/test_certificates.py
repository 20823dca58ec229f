# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""When certificates expire, compared with what another parser reads."""

from __future__ import annotations

import datetime
import hashlib
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.certificates import (
    fingerprints,
    validity,
)
from tests.unit.node.servers import Pki


def a_certificate(until: datetime.datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:node:edge-1")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(1999, 1, 2, 3, 4, 5))
        .not_valid_after(until)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("year", [2027, 2049, 2050, 9999])  # from 2050 on the format of times is another
def test_both_formats_of_times_are_read(year: int) -> None:
    until = datetime.datetime(year, 12, 31, 23, 59, 59, tzinfo=datetime.timezone.utc)
    found = validity(b"# a key may come first\n" + a_certificate(until.replace(tzinfo=None)))
    assert found
    assert found.expires == until.timestamp()
    assert found.issued == datetime.datetime(1999, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc).timestamp()


def test_the_certificate_of_a_kubelet_is_read(pki: Pki) -> None:
    pem = pki.client.read_bytes()
    found, known = validity(pem), x509.load_pem_x509_certificate(pem)
    assert found
    assert (found.issued, found.expires) == (
        known.not_valid_before_utc.timestamp(),
        known.not_valid_after_utc.timestamp(),
    )


@pytest.mark.parametrize("cut", [0, 1, 40, 200])
def test_what_is_no_certificate_has_no_validity(cut: int) -> None:
    whole = a_certificate(datetime.datetime(2030, 1, 1))
    begin, _newline, body = whole.partition(b"\n")
    assert validity(begin + body[:cut] + b"\n-----END CERTIFICATE-----") is None
    assert validity(b"") is None


def test_each_certificate_of_a_file_has_a_fingerprint() -> None:
    one, two = (a_certificate(datetime.datetime(2040, 1, 1)) for _count in range(2))
    digests = [hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest() for pem in (one, two)]
    damaged = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    assert fingerprints(one + damaged + two) == digests
    assert fingerprints(b"") == []
