# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a TLS connection trusts, and in words why it does not. Verification can't be switched off."""

from __future__ import annotations

import os
import ssl

from .answer import HttpFailure

SYSTEM_CAS = "/etc/ssl/certs/ca-certificates.crt"
SET_CA = "set mirror.caCert to the CA of that server"
INSTALL_CAS = "this machine has no CA certificates: apt-get install ca-certificates"
OUT_OF_TIME = (9, 10)  # OpenSSL: X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def quick_context(ca_pem: str = "") -> ssl.SSLContext | None:
    """The same trust, loaded on demand: system CAs by name from their directory, not all from one file.

    It saves a third of the time of a short request. None: the system has no such directory. If it is not
    up to date a server may seem untrusted, so the caller must retry with the full set.
    """
    directory = ssl.get_default_verify_paths().capath
    return tls_context(capath=directory, cadata=ca_pem or None) if directory or ca_pem else None


def tls_context(
    *, cafile: str | None = None, capath: str | None = None, cadata: str | None = None
) -> ssl.SSLContext:
    """Verified TLS, host names included; trust as for `ssl.create_default_context`.

    Without strict X.509, which is the default since Python 3.13: it refuses CAs without key identifiers.
    Go accepts those, so the kubelet and containerd do.
    """
    context = ssl.create_default_context(cafile=cafile, capath=capath, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def lacks_system_cas() -> bool:
    """Whether this machine knows no public CA: a minimal image may lack the package."""
    try:
        return os.stat(SYSTEM_CAS).st_size == 0
    except OSError:
        return True


def distrusts(reason: object) -> bool:
    """Whether TLS was refused. A connection that ends in the middle of the handshake is a cut line."""
    cut = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return isinstance(reason, ssl.SSLError) and not isinstance(reason, (*cut, TimeoutError))


def in_words(reason: object) -> str:
    """The cause, in short."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, UnicodeError):
        return "its host name has an empty part, or one of more than 63 characters"
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__


def is_out_of_time(reason: object) -> bool:
    """Whether a certificate is not valid now. All else of it is not judged yet: OpenSSL stops there."""
    return isinstance(reason, ssl.SSLCertVerificationError) and reason.verify_code in OUT_OF_TIME


def no_answer(url: str, reason: object) -> HttpFailure:
    """The failure of a request that no server answered, with all that its reason says."""
    return HttpFailure(
        url,
        in_words(reason),
        tls=distrusts(reason),
        advice=advice_for(reason),
        out_of_time=is_out_of_time(reason),
    )


def advice_for(reason: object) -> str:
    """The remedy for a certificate that is not valid now: often the clock is wrong, not the certificate."""
    if is_out_of_time(reason):
        return "check this machine's clock (timedatectl); if it is right, renew the server's certificate"
    return ""
