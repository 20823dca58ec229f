# SPDX-License-Identifier: GPL-3.0-or-later
"""Client assertions: an application's certificate signs for it, instead of a secret."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# The header that names the certificate, by which digest of it. Entra still takes the older one.
NAMES = {"x5t#S256": hashes.SHA256(), "x5t": hashes.SHA1()}  # noqa: S303 - a name, not a protection
ALGORITHMS = ["RS256", "PS256"]
LEEWAY = 300  # seconds that clocks may differ


class BadAssertion(Exception):
    """An assertion that Entra does not take, with its number for that."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


def certificate(pem: str) -> x509.Certificate:
    """A certificate that can be registered: Entra takes RSA keys."""
    found = x509.load_pem_x509_certificate(pem.encode())
    if not isinstance(found.public_key(), rsa.RSAPublicKey):
        raise ValueError("the certificate's key is not an RSA key")
    return found


def check(
    assertion: str, client_id: str, registered: Iterable[x509.Certificate], audiences: Sequence[str]
) -> None:
    """Whether one of the application's certificates signed this, for us, and not too long ago."""
    key = _signer(assertion, registered)
    try:
        claims = jwt.decode(
            assertion,
            key,
            ALGORITHMS,
            audience=audiences,
            leeway=LEEWAY,
            options={"require": ["aud", "exp", "iss", "sub"]},
        )
    except jwt.InvalidSignatureError as error:
        raise BadAssertion(
            700027,
            "Client assertion contains an invalid signature. "
            "[Reason - Key was found, but use of the key to verify the signature failed.]",
        ) from error
    except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError) as error:
        raise BadAssertion(
            700024,
            "Client assertion is not within its valid time range. "
            f"Current time: {datetime.now(timezone.utc).isoformat()}.",
        ) from error
    except jwt.InvalidAudienceError as error:
        raise BadAssertion(700023, "Client assertion audience claim does not match Realm issuer.") from error
    except jwt.PyJWTError as error:
        raise _malformed(str(error)) from error
    if {claims["iss"], claims["sub"]} != {client_id}:
        raise BadAssertion(
            700021, "Client assertion application identifier doesn't match 'client_id' parameter."
        )


def _signer(assertion: str, registered: Iterable[x509.Certificate]) -> rsa.RSAPublicKey:
    """The key of the certificate that an assertion names."""
    try:
        header = jwt.get_unverified_header(assertion)
    except jwt.PyJWTError as error:
        raise _malformed(str(error)) from error
    named = next((name for name in NAMES if header.get(name)), None)
    if named is None:
        raise _malformed("No certificate thumbprint specified in token header.")
    for one in registered:
        if _encoded(one.fingerprint(NAMES[named])) == str(header[named]).rstrip("="):
            if one.not_valid_after_utc.timestamp() < time.time():
                raise BadAssertion(
                    700027,
                    "Client assertion contains an invalid signature. [Reason - The key used is expired.]",
                )
            key = one.public_key()
            if isinstance(key, rsa.RSAPublicKey):
                return key
    raise BadAssertion(
        700027,
        "The certificate with identifier used to sign the client assertion is not registered on application. "
        f"[Reason - The key was not found., Thumbprint of key used by client: '{header[named]}']",
    )


def _malformed(reason: str) -> BadAssertion:
    return BadAssertion(50027, f"JWT token is invalid or malformed. {reason}")


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
