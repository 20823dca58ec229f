# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sign-in for a fleet: the credential of azure-identity, shared by all clients and threads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import ssl
import subprocess
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...node.errors import FlexNodeError
from .clouds import Endpoints
from .errors import AzureUnavailable, Identity, SignInFailed
from .settings import Settings
from .transport import transport_options

IDENTITY_ERROR = ""
try:
    from azure.core.exceptions import AzureError
    from azure.identity import (
        AzureCliCredential,
        CertificateCredential,
        ClientSecretCredential,
        CredentialUnavailableError,
        ManagedIdentityCredential,
        WorkloadIdentityCredential,
    )
except ImportError:
    IDENTITY_ERROR = traceback.format_exc()

RENEW_BEFORE = 300
# For one token. The CLI takes a second or two, and many times that where many run on a busy controller.
CLI_SECONDS = 60
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class OneLogin:
    """A credential that signs in once per audience for all clients and threads."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, ...], Any] = {}

    def get_token(
        self, *scopes: str, claims: str | None = None, tenant_id: str | None = None, **options: Any
    ) -> Any:
        """An access token; a challenge (`claims`) always gets a new one."""
        with self._lock:
            known = self._tokens.get(scopes)
            if known is None or claims or known.expires_on - RENEW_BEFORE < time.time():
                known = self._credential.get_token(*scopes, claims=claims, tenant_id=tenant_id, **options)
                self._tokens[scopes] = known
            return known


@dataclass(frozen=True, slots=True)
class Login:
    """A credential and how clients use it."""

    credential: OneLogin
    settings: Settings

    @property
    def endpoints(self) -> Endpoints:
        """Where Azure is."""
        return self.settings.endpoints

    @property
    def client_options(self) -> dict[str, Any]:
        """Options for every client of the SDK."""
        return transport_options(self.settings.ca_bundle)

    def token(self, scope: str) -> str:
        """An access token as text."""
        return self.lasting_token(scope)[0]

    def lasting_token(self, scope: str) -> tuple[str, int]:
        """An access token as text, and when it expires."""
        try:
            found = self.credential.get_token(scope)
        except AzureError as error:
            raise self.refused(error) from error
        return str(found.token), int(found.expires_on)

    def refused(self, error: Exception) -> FlexNodeError:
        """The error for a failed sign-in, with the identity that tried."""
        settings, why = self.settings, _first_line(error)
        if isinstance(error.__cause__, subprocess.TimeoutExpired):  # there may well be a login
            return AzureUnavailable(
                "the Azure CLI does not answer",
                where="az account get-access-token",
                why=f"it was ended after {error.__cause__.timeout:g} s",
                fix="run the same command by hand; if it is slow because the controller is busy, run this "
                "again with fewer forks (-f)",
            )
        if isinstance(error, CredentialUnavailableError):
            why = "; ".join(part for part in (why, settings.unused) if part)
            return SignInFailed(
                "the controller has no login to Azure", where=f"tried: {settings.method}", why=why
            )
        if isinstance(error.__cause__, AzureError):  # azure-identity calls a lost connection a refusal too
            return AzureUnavailable("the sign-in gets no answer", where=settings.endpoints.authority, why=why)
        who = f"application {settings.client_id}" if settings.client_id else settings.method
        where = f"{who} at {settings.endpoints.authority}"
        return SignInFailed(
            "Microsoft Entra ID refuses the sign-in",
            where=where,
            why=why.removeprefix("Authentication failed: "),
            fix="its secret, certificate or token is wrong or expired: check the module options, the AZURE_* "
            "variables (AZURE_SECRET is the value of the secret, not its id) or the credential file",
        )

    def identity(self) -> Identity:
        """Who is signed in, as the token says."""
        return identity_of(self.token(self.endpoints.scope))


def sign_in(settings: Settings) -> Login:
    """A login; the first request uses it."""
    if settings.ca_bundle and not os.path.exists(settings.ca_bundle):
        raise SignInFailed("the CA bundle does not exist", where=settings.ca_bundle, fix="check ca_bundle")
    if settings.method == "msi":
        credential: Any = ManagedIdentityCredential(client_id=settings.client_id or None)
    elif settings.method == "cli":
        chosen: Any = {"subscription": settings.subscription_id} if settings.subscription_id else {}
        credential = AzureCliCredential(tenant_id=settings.tenant, process_timeout=CLI_SECONDS, **chosen)
    else:
        credential = _principal(settings)
    return Login(OneLogin(credential), settings)


def _principal(settings: Settings) -> Any:
    """The credential of a service principal: by its secret, a certificate, or a federated token."""
    endpoints = settings.endpoints
    options: dict[str, Any] = {
        "authority": endpoints.authority,
        # A private authority is not in Microsoft's list of authorities.
        "disable_instance_discovery": endpoints.own_authority,
        **transport_options(settings.ca_bundle),
    }
    try:
        if settings.method == "certificate":
            pem = _certificate(settings)
            return CertificateCredential(settings.tenant, settings.client_id, certificate_data=pem, **options)
        if settings.method == "federated":
            _readable(settings.federated_token_file, "AZURE_FEDERATED_TOKEN_FILE")
            return WorkloadIdentityCredential(
                tenant_id=settings.tenant,
                client_id=settings.client_id,
                token_file_path=settings.federated_token_file,
                **options,
            )
        return ClientSecretCredential(
            settings.tenant, settings.client_id, settings.secret.reveal(), **options
        )
    except ValueError as error:
        raise SignInFailed("the credentials can't be used", why=_first_line(error)) from error


def _certificate(settings: Settings) -> bytes:
    """Certificate and key in PEM; a thumbprint must be that of the certificate."""
    path = settings.certificate_path
    pem = _readable(path, "x509_certificate_path")
    found = _CERTIFICATE.search(pem.decode(errors="replace"))
    if not found or b"PRIVATE KEY-----" not in pem:
        raise SignInFailed(
            "the certificate file can't be used",
            where=path,
            why="it must hold a certificate and its private key, both in PEM",
            fix="cat key.pem certificate.pem > both.pem && chmod 600 both.pem",
        )
    wanted = re.sub(r"[^0-9A-F]", "", settings.thumbprint.upper())
    # SHA-1 is how Azure names certificates; nothing is secured by it.
    actual = hashlib.sha1(ssl.PEM_cert_to_DER_cert(found[0]), usedforsecurity=False).hexdigest().upper()
    if wanted and wanted != actual:
        raise SignInFailed(
            "the thumbprint is that of another certificate",
            where=path,
            why=f"thumbprint is {wanted}, the certificate's is {actual}",
            fix="correct thumbprint (AZURE_THUMBPRINT), or leave it out",
        )
    return pem


def _readable(path: str, option: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        what, why = f"the file of {option} can't be read", error.strerror or str(error)
        raise SignInFailed(what, where=path, why=why, fix=f"check {option}") from error


def claims_of(token: str) -> Mapping[str, Any]:
    """The claims of a token. It is our own, so its signature is not checked."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def identity_of(token: str) -> Identity:
    """Who a token is for."""
    claims = claims_of(token)
    person = claims.get("idtyp") == "user" or "upn" in claims or "unique_name" in claims
    return Identity(str(claims.get("oid", "")), str(claims.get("appid") or claims.get("azp") or ""), person)


def _first_line(error: Exception) -> str:
    """The first line of an error of the SDK, without trace ids."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].split(" Trace ID:")[0] if lines else type(error).__name__
