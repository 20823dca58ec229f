# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validity and digests of certificates. The standard library has no public parser for them."""

from __future__ import annotations

import base64
import binascii
import calendar
import contextlib
import hashlib
import re
import time

from ..dataclass import dataclass

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17


@dataclass(frozen=True)
class Validity:
    """Seconds since the epoch."""

    issued: float
    expires: float


def validity(pem: bytes) -> Validity | None:
    """The validity of the first certificate in a file; None: there is none that can be read."""
    found = _PEM.search(pem)
    try:
        return _validity(base64.b64decode(found[1])) if found else None
    except (binascii.Error, IndexError, ValueError):
        return None


def thumbprint(pem: bytes) -> str:
    """SHA-1 of the first certificate, in capital letters, as Azure names it; empty: there is none."""
    found = _PEM.search(pem)
    with contextlib.suppress(binascii.Error):
        if found:
            return hashlib.sha1(base64.b64decode(found[1]), usedforsecurity=False).hexdigest().upper()
    return ""


def fingerprints(pem: bytes) -> list[str]:
    """SHA-256 of each certificate, in small letters; what can't be read is left out."""
    found = []
    for match in _PEM.finditer(pem):
        with contextlib.suppress(binascii.Error):
            found.append(hashlib.sha256(base64.b64decode(match[1])).hexdigest())
    return found


def _validity(der: bytes) -> Validity:
    """RFC 5280, 4.1: version (optional), serial number, algorithm and issuer come before the validity."""
    _tag, certificate, _rest = _element(der)
    _tag, fields, _rest = _element(certificate)
    if fields[0] == _VERSION:
        _tag, _version, fields = _element(fields)
    for _field in ("serial number", "algorithm", "issuer"):
        _tag, _content, fields = _element(fields)
    tag, both, _rest = _element(fields)
    if tag != _SEQUENCE:
        raise ValueError("not a validity")
    issued, from_, rest = _element(both)
    expires, until, _rest = _element(rest)
    return Validity(_time(issued, from_), _time(expires, until))


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Tag and content of the first DER element, and what follows it."""
    tag, length, start = der[0], der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    if len(der) < start + length:
        raise ValueError("cut off")
    return tag, der[start : start + length], der[start + length :]


def _time(tag: int, content: bytes) -> float:
    """A UTCTime has two digits for the year: 50 and more are of the last century."""
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return float(calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ")))
