# SPDX-License-Identifier: GPL-3.0-or-later
"""Access tokens: signed as Entra signs them, and read as a resource reads them."""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from testbed.azure.sign_in.directory import Principal
from testbed.basics import files

RESOURCE_MANAGER = ("https://management.core.windows.net", "https://management.azure.com")
BACKDATED = 300


class BadToken(Exception):
    """A token that a resource does not take; the reason is one of Azure's."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Caller:
    """Who a token speaks for."""

    object_id: str
    client_id: str


def ensure_key(path: Path) -> rsa.RSAPrivateKey:
    """The signing key, generated once."""
    loaded = serialization.load_pem_private_key(files.once(path, _private_key), None)
    if not isinstance(loaded, rsa.RSAPrivateKey):
        raise ValueError(f"{path} is not an RSA key")
    return loaded


def _private_key() -> bytes:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _number(value: int) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Authority:
    """Issues tokens of one tenant."""

    def __init__(self, key: rsa.RSAPrivateKey, origin: str, tenant_id: str) -> None:
        self._key = key
        self.origin = origin
        self.tenant_id = tenant_id
        public = key.public_key().public_numbers()
        self._public = {"kty": "RSA", "n": _number(public.n), "e": _number(public.e)}
        thumbprint = hashlib.sha256(self._public["n"].encode()).digest()[:20]
        self.key_id = base64.urlsafe_b64encode(thumbprint).rstrip(b"=").decode()

    def issuer(self, version: int) -> str:
        """Version 1 names Entra's token service, version 2 the authority itself."""
        if version == 1:
            return f"https://sts.windows.net/{self.tenant_id}/"
        return f"{self.origin}/{self.tenant_id}/v2.0"

    def keys(self) -> dict[str, Any]:
        """The public keys, as JWKS."""
        return {
            "keys": [{**self._public, "use": "sig", "alg": "RS256", "kid": self.key_id, "x5t": self.key_id}]
        }

    def issue(
        self, principal: Principal, audience: str, seconds: float, version: int = 1, fault: str = ""
    ) -> str:
        """A token; a fault makes it one that its resource must refuse."""
        now = time.time() - (2 * seconds + BACKDATED if fault == "expired" else 0)
        application = (
            {"appid": principal.client_id, "appidacr": "1", "idp": self.issuer(1)}
            if version == 1
            else {"azp": principal.client_id, "azpacr": "1"}
        )
        claims = {
            "aud": "https://graph.microsoft.com/" if fault == "audience" else audience,
            "iss": self.issuer(version),
            "iat": int(now) - BACKDATED,
            "nbf": int(now) - BACKDATED,
            "exp": int(now + seconds),
            **application,
            "idtyp": "app",
            "oid": principal.object_id,
            "sub": principal.object_id,
            "tid": str(uuid.UUID(int=0)) if fault == "tenant" else self.tenant_id,
            "uti": base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode(),
            "ver": f"{version}.0",
        }
        token = jwt.encode(claims, self._key, "RS256", {"kid": self.key_id, "x5t": self.key_id})
        if fault == "signature":
            head, _, signature = token.rpartition(".")
            token = f"{head}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
        return token

    def read(self, token: str, audiences: tuple[str, ...]) -> Caller:
        """Who a token speaks for; BadToken if it is not for us."""
        options: Any = {
            "verify_aud": False,
            "verify_exp": False,
            "require": ["exp", "iss", "aud", "tid", "oid"],
        }
        try:
            claims = jwt.decode(token, self._key.public_key(), ["RS256"], options=options)
        except jwt.InvalidSignatureError as error:
            raise BadToken("signature") from error
        except jwt.PyJWTError as error:
            raise BadToken("malformed") from error
        if claims["iss"] not in (self.issuer(1), self.issuer(2)) or claims["tid"] != self.tenant_id:
            raise BadToken("tenant", str(claims["iss"]))
        if str(claims["aud"]).rstrip("/") not in audiences:
            raise BadToken("audience", str(claims["aud"]))
        if claims["exp"] <= time.time():
            raise BadToken("expired", str(claims["exp"]))
        return Caller(str(claims["oid"]), str(claims.get("appid") or claims.get("azp")))
