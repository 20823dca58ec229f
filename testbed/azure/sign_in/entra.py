# SPDX-License-Identifier: GPL-3.0-or-later
"""Entra ID: OpenID discovery, keys, and the token endpoints of versions 1 and 2."""

from __future__ import annotations

import hmac
import time
import uuid
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from testbed.azure.cloud import Cloud
from testbed.azure.sign_in import assertion
from testbed.azure.sign_in.directory import Principal
from testbed.azure.sign_in.tokens import RESOURCE_MANAGER
from testbed.layout.identifiers import AKS_SERVER

OTHER_RESOURCES = ("https://graph.microsoft.com", "https://storage.azure.com", "https://vault.azure.net")


class Refused(Exception):
    """Entra says no, with one of its numbers."""

    def __init__(self, status: int, error: str, number: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.error = error
        self.number = number

    def answer(self) -> JSONResponse:
        """The body that clients read."""
        trace, correlation = str(uuid.uuid4()), str(uuid.uuid4())
        moment = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
        where = f"Trace ID: {trace} Correlation ID: {correlation} Timestamp: {moment}"
        body = {
            "error": self.error,
            "error_description": f"AADSTS{self.number}: {self} {where}",
            "error_codes": [self.number],
            "timestamp": moment,
            "trace_id": trace,
            "correlation_id": correlation,
            "error_uri": f"https://login.microsoftonline.com/error?code={self.number}",
        }
        return JSONResponse(body, self.status, headers={"Cache-Control": "no-store, no-cache"})


def audience(cloud: Cloud, resource: str) -> str:
    """What a token for a resource names as its audience; an unregistered resource is refused."""
    known = (*RESOURCE_MANAGER, AKS_SERVER, *OTHER_RESOURCES, cloud.place.origin)
    if resource.rstrip("/") not in known:
        tenant = cloud.place.tenant_id
        raise Refused(
            400,
            "invalid_resource",
            500011,
            f"The resource principal named {resource} was not found in the tenant named {tenant}. "
            "This can happen "
            "if the application has not been installed by the administrator of the tenant or "
            "consented to by any "
            "user in the tenant. You might have sent your authentication request to the wrong tenant.",
        )
    return resource


def requested_resource(form: dict[str, str], version: int) -> str:
    """Version 1 names a resource, version 2 the scope {resource}/.default."""
    key = "resource" if version == 1 else "scope"
    if not form.get(key):
        raise Refused(
            400, "invalid_request", 900144, f"The request body must contain the following parameter: '{key}'."
        )
    if version == 1:
        return form["resource"]
    if not form["scope"].endswith("/.default"):
        raise Refused(
            400,
            "invalid_scope",
            1002012,
            f"The provided value for scope {form['scope']} is not valid. Client credential flows must "
            "have a scope "
            "value with /.default suffixed to the resource identifier (application ID URI).",
        )
    return form["scope"].removesuffix("/.default")


def prove(cloud: Cloud, application: Principal, form: dict[str, str]) -> None:
    """An application shows its secret, or what its certificate has signed."""
    if form.get("client_assertion"):
        if form.get("client_assertion_type") != assertion.TYPE:
            raise Refused(
                400,
                "invalid_request",
                900144,
                "The request body must contain the following parameter: 'client_assertion_type'.",
            )
        certificates = [assertion.certificate(pem) for pem in cloud.directory.certificates(application)]
        base = f"{cloud.place.origin}/{cloud.place.tenant_id}"
        audiences = [f"{base}/oauth2/v2.0/token", f"{base}/oauth2/token", f"{base}/v2.0"]
        try:
            assertion.check(form["client_assertion"], application.client_id, certificates, audiences)
        except assertion.BadAssertion as error:
            raise Refused(401, "invalid_client", error.number, str(error)) from error
    elif not form.get("client_secret"):
        raise Refused(
            401,
            "invalid_client",
            7000218,
            "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.",
        )
    elif not hmac.compare_digest(form["client_secret"].encode(), application.secret.encode()):
        raise Refused(
            401,
            "invalid_client",
            7000215,
            "Invalid client secret provided. Ensure the secret being sent in the request is the "
            "client secret "
            f"value, not the client secret ID, for a secret added to app '{application.client_id}'.",
        )


def client_credentials(cloud: Cloud, form: dict[str, str], version: int, fault: str) -> dict[str, Any]:
    """A token for an application that proves who it is."""
    for key in ("grant_type", "client_id"):
        if not form.get(key):
            raise Refused(
                400,
                "invalid_request",
                900144,
                f"The request body must contain the following parameter: '{key}'.",
            )
    if form["grant_type"] != "client_credentials":
        raise Refused(
            400,
            "unsupported_grant_type",
            70003,
            f"The app requested an unsupported grant type '{form['grant_type']}'.",
        )
    application = cloud.directory.application(form["client_id"])
    if application is None:
        raise Refused(
            400,
            "unauthorized_client",
            700016,
            f"Application with identifier '{form['client_id']}' was not found in the directory "
            "'testbed'. This can "
            "happen if the application has not been installed by the administrator of the tenant or "
            "consented to "
            "by any user in the tenant. You may have sent your authentication request to the wrong tenant.",
        )
    prove(cloud, application, form)
    settings = cloud.database.settings
    resource = requested_resource(form, version)
    token = cloud.authority.issue(
        application, audience(cloud, resource), settings.token_seconds, settings.token_version, fault
    )
    answer: dict[str, Any] = {"token_type": "Bearer", "access_token": token}
    seconds = settings.token_seconds
    if version == 1:
        ends = int(time.time()) + seconds
        return answer | {
            "resource": resource,
            "expires_in": str(seconds),
            "ext_expires_in": str(seconds),
            "expires_on": str(ends),
            "not_before": str(ends - seconds - 300),
        }
    return answer | {"expires_in": seconds, "ext_expires_in": seconds}


def discovery(cloud: Cloud, version: int) -> dict[str, Any]:
    """The OpenID configuration."""
    base = f"{cloud.place.origin}/{cloud.place.tenant_id}"
    path = "/oauth2/v2.0" if version == 2 else "/oauth2"
    return {
        "issuer": cloud.authority.issuer(version),
        "authorization_endpoint": f"{base}{path}/authorize",
        "token_endpoint": f"{base}{path}/token",
        "device_authorization_endpoint": f"{base}{path}/devicecode",
        "jwks_uri": f"{base}/discovery/v2.0/keys" if version == 2 else f"{base}/discovery/keys",
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "response_types_supported": ["code", "id_token", "code id_token", "token"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "subject_types_supported": ["pairwise"],
        "scopes_supported": ["openid"],
        "claims_supported": ["sub", "iss", "aud", "exp", "iat", "oid", "tid", "ver"],
        "tenant_region_scope": "EU",
    }


def router(cloud: Cloud) -> APIRouter:
    """The endpoints under /{tenant}/."""
    routes = APIRouter()

    def check(tenant: str) -> None:
        if tenant.lower() != cloud.place.tenant_id:
            raise Refused(
                400,
                "invalid_tenant" if "." in tenant else "invalid_request",
                90002,
                f"Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and "
                "are signing "
                "into the correct cloud. Check with your subscription administrator, this may happen "
                "if there are "
                "no active subscriptions for the tenant.",
            )

    @routes.get("/{tenant}/v2.0/.well-known/openid-configuration")
    def discovery_2(tenant: str) -> dict[str, Any]:
        check(tenant)
        return discovery(cloud, 2)

    @routes.get("/{tenant}/.well-known/openid-configuration")
    def discovery_1(tenant: str) -> dict[str, Any]:
        check(tenant)
        return discovery(cloud, 1)

    @routes.get("/{tenant}/discovery/v2.0/keys")
    @routes.get("/{tenant}/discovery/keys")
    def keys(tenant: str) -> dict[str, Any]:
        check(tenant)
        return cloud.authority.keys()

    async def token(tenant: str, request: Request, version: int) -> JSONResponse:
        form = {name: values[-1] for name, values in parse_qs((await request.body()).decode()).items()}
        request.state.principal = form.get("client_id")
        check(tenant)
        fault = getattr(request.state, "fault", None)
        body = client_credentials(cloud, form, version, fault.token if fault else "")
        return JSONResponse(body, headers={"Cache-Control": "no-store, no-cache", "Pragma": "no-cache"})

    @routes.post("/{tenant}/oauth2/v2.0/token")
    async def token_2(tenant: str, request: Request) -> JSONResponse:
        return await token(tenant, request, 2)

    @routes.post("/{tenant}/oauth2/token")
    async def token_1(tenant: str, request: Request) -> JSONResponse:
        return await token(tenant, request, 1)

    return routes
