# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One sign-in for a fleet: which credential is meant, and a login that all clients and threads share."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...node.errors import FlexNodeError
from ...node.secret import Secret
from .clouds import NAMES, Endpoints, endpoints_of
from .errors import AzureUnavailable, Identity, SignInFailed
from .transport import transport_options

IDENTITY_ERROR = ""
try:
    from azure.core.exceptions import AzureError
    from azure.identity import (
        AzureCliCredential,
        ClientSecretCredential,
        CredentialUnavailableError,
        ManagedIdentityCredential,
    )
except ImportError:
    IDENTITY_ERROR = traceback.format_exc()

# Option -> variables of the environment, by the ecosystem's habit first, by azure-identity's second.
ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "subscription_id": ("AZURE_SUBSCRIPTION_ID",),
    "tenant": ("AZURE_TENANT", "AZURE_TENANT_ID"),
    "client_id": ("AZURE_CLIENT_ID",),
    "secret": ("AZURE_SECRET", "AZURE_CLIENT_SECRET"),
    "cloud_environment": ("AZURE_CLOUD_ENVIRONMENT",),
    "authority": ("AZURE_AUTHORITY_HOST",),
    "resource_manager_endpoint": ("AZURE_RESOURCE_MANAGER_ENDPOINT",),
    "ca_bundle": ("REQUESTS_CA_BUNDLE",),
}
SERVICE_PRINCIPAL = ("tenant", "client_id", "secret")
RENEW_BEFORE = 300


@dataclass(frozen=True, slots=True)
class Settings:
    """Who signs in where. `method` is one of principal, cli, msi."""

    method: str
    endpoints: Endpoints
    tenant: str = ""
    client_id: str = ""
    secret: Secret = field(default_factory=lambda: Secret(""))
    subscription_id: str = ""
    ca_bundle: str = ""


def settings_of(options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Decide from a module's options and the environment; options go first.

    auth_source `env` and `credential` look at one of the two only, as far as credentials are concerned.
    """
    source = options.get("auth_source") or "auto"

    def option(name: str) -> str:
        return str(options.get(name) or "")

    def variable(name: str) -> str:
        return next((environ[key] for key in ENVIRONMENT[name] if environ.get(key)), "")

    def credential(name: str) -> str:
        if source == "env":
            return variable(name)
        return option(name) or ("" if source == "credential" else variable(name))

    cloud = option("cloud_environment") or variable("cloud_environment") or "AzureCloud"
    if cloud not in NAMES:
        raise SignInFailed(f"there is no cloud {cloud!r}", where="cloud_environment", fix=" | ".join(NAMES))
    given = {name: credential(name) for name in SERVICE_PRINCIPAL}
    endpoints = endpoints_of(
        cloud,
        option("authority") or variable("authority"),
        option("resource_manager_endpoint") or variable("resource_manager_endpoint"),
    )
    method = {"cli": "cli", "msi": "msi", "env": "principal", "credential": "principal"}.get(source, "")
    method = method or ("principal" if given["secret"] else "cli")
    missing = [name for name in SERVICE_PRINCIPAL if not given[name]] if method == "principal" else []
    if missing:
        wanted = [f"{name} ({ENVIRONMENT[name][0]})" for name in missing]
        what = "credentials are not whole" if len(missing) < 3 else "no credentials are given"
        raise SignInFailed(what, where=f"auth_source {source}", why=f"missing: {', '.join(wanted)}")
    return Settings(
        method=method,
        endpoints=endpoints,
        tenant=given["tenant"],
        client_id=given["client_id"],
        secret=Secret(given["secret"]),
        subscription_id=credential("subscription_id"),
        ca_bundle=option("ca_bundle") or variable("ca_bundle"),
    )


class OneLogin:
    """A credential that signs in once for each audience, however many clients and threads ask."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, ...], Any] = {}

    def get_token(
        self, *scopes: str, claims: str | None = None, tenant_id: str | None = None, **options: Any
    ) -> Any:
        """An access token; a challenge (`claims`) is never answered from memory."""
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
        """What every client of the SDK is given."""
        return transport_options(self.settings.ca_bundle)

    def token(self, scope: str) -> str:
        """An access token as text."""
        return self.lasting_token(scope)[0]

    def lasting_token(self, scope: str) -> tuple[str, int]:
        """An access token as text, and when it ends."""
        try:
            found = self.credential.get_token(scope)
        except AzureError as error:
            raise self.refused(error) from error
        return str(found.token), int(found.expires_on)

    def refused(self, error: Exception) -> FlexNodeError:
        """What the sign-in said, with who tried."""
        settings, why = self.settings, _first_line(error)
        if isinstance(error, CredentialUnavailableError):
            return SignInFailed("there is no way to sign in", where=settings.method, why=why)
        if isinstance(error.__cause__, AzureError):  # azure-identity calls a lost connection a refusal too
            return AzureUnavailable("the sign-in gets no answer", where=settings.endpoints.authority, why=why)
        who = f"application {settings.client_id}" if settings.client_id else settings.method
        where = f"{who} at {settings.endpoints.authority}"
        return SignInFailed("the sign-in is refused", where=where, why=why)

    def identity(self) -> Identity:
        """Who we are, by the token that we have."""
        return identity_of(self.token(self.endpoints.scope))


def sign_in(settings: Settings) -> Login:
    """A login; the first request makes it real."""
    if settings.ca_bundle and not os.path.exists(settings.ca_bundle):
        raise SignInFailed("the CA bundle is not there", where=settings.ca_bundle, fix="check ca_bundle")
    options = transport_options(settings.ca_bundle)
    if settings.method == "msi":
        identity = ManagedIdentityCredential(client_id=settings.client_id or None)
        return Login(OneLogin(identity), settings)
    if settings.method == "cli":
        chosen: Any = {"subscription": settings.subscription_id} if settings.subscription_id else {}
        return Login(OneLogin(AzureCliCredential(tenant_id=settings.tenant, **chosen)), settings)
    endpoints = settings.endpoints
    try:
        credential = ClientSecretCredential(
            settings.tenant,
            settings.client_id,
            settings.secret.reveal(),
            authority=endpoints.authority,
            # A private authority is not in Microsoft's list of authorities.
            disable_instance_discovery=endpoints.own_authority,
            **options,
        )
    except ValueError as error:
        raise SignInFailed("the credentials can't be used", why=_first_line(error)) from error
    return Login(OneLogin(credential), settings)


def claims_of(token: str) -> Mapping[str, Any]:
    """Read what a token says; it is ours, so it need not be verified."""
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
    """What an error of the SDK says, without trace ids and advice that spans pages."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].split(" Trace ID:")[0] if lines else type(error).__name__
