# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource Manager's errors, in its own words: clients match on codes, people read the messages."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import Any

from testbed.azure.sign_in.tokens import RESOURCE_MANAGER, BadToken

USUAL_CODES = {
    400: "BadRequest",
    401: "AuthenticationFailed",
    403: "AuthorizationFailed",
    404: "ResourceNotFound",
    409: "Conflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalServerError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "GatewayTimeout",
}


class ArmError(Exception):
    """An answer that says no."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The envelope that every Azure error comes in."""
        return {"error": {"code": self.code, "message": self.message}}


class ProviderError(ArmError):
    """The same from AKS itself, whose errors come without an envelope."""

    def body(self) -> dict[str, Any]:
        """As AKS writes it."""
        return {"code": self.code, "details": None, "message": self.message, "subcode": ""}


class NotFoundByAks(ProviderError):
    """404 of AKS itself: its code is the same for all that is missing, its subcode and its detail are not."""

    def __init__(self, noun: str, message: str) -> None:
        super().__init__(404, "NotFound", message)
        self.noun = noun

    def body(self) -> dict[str, Any]:
        """As AKS writes it."""
        detail = f"rpc error: code = NotFound desc = {self.noun} not found"
        return {
            "code": self.code,
            "details": [{"code": "Unspecified", "message": detail}],
            "message": self.message,
            "subcode": f"Get{self.noun.replace(' ', '')}_NotFound_HCPServerError",
        }


def no_machine() -> ArmError:
    """A machine that a pool does not have."""
    return NotFoundByAks("Machine", "The entity was not found.")


def no_pool(pool: str, cluster: str, group: str, subscription: str) -> ArmError:
    """A pool that a cluster does not have."""
    message = (
        f"Could not find the agentpool: {pool} in subscription: {subscription}, resourceGroup: {group}, "
        f"resourceName: {cluster}."
    )
    return NotFoundByAks("Agent Pool", message)


def unauthenticated(code: str, message: str, tenant_id: str, origin: str) -> ArmError:
    """401, with the challenge that tells a client where to get a token."""
    where = f'authorization_uri="{origin}/{tenant_id}"'
    challenge = f'Bearer {where}, error="invalid_token", error_description="{message}"'
    return ArmError(401, code, message, {"WWW-Authenticate": challenge})


def no_token(tenant_id: str, origin: str) -> ArmError:
    """The request has no credential."""
    message = "Authentication failed. The 'Authorization' header is missing."
    return unauthenticated("AuthenticationFailed", message, tenant_id, origin)


def bad_token(error: BadToken, tenant_id: str, origin: str) -> ArmError:
    """A token that is no good here."""

    def moment(seconds: float) -> str:
        then = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        return f"{then.month}/{then.day}/{then.year} {then.strftime('%I:%M:%S %p').lstrip('0')}"

    if error.reason == "expired":
        code = "ExpiredAuthenticationToken"
        message = (
            f"The access token expiry UTC time '{moment(float(error.detail))}' is earlier than "
            "current UTC time "
            f"'{moment(time.time())}'."
        )
    elif error.reason == "audience":
        allowed = ",".join(f"'{resource}/','{resource}'" for resource in RESOURCE_MANAGER)
        code = "InvalidAuthenticationTokenAudience"
        message = (
            f"The access token has been obtained for wrong audience or resource '{error.detail}'. It should "
            f"exactly match with one of the allowed audiences {allowed}."
        )
    elif error.reason == "tenant":
        code = "InvalidAuthenticationTokenTenant"
        message = (
            f"The access token is from the wrong issuer '{error.detail}'. It must match the tenant "
            f"'https://sts.windows.net/{tenant_id}/' associated with this subscription. Please use "
            "the authority "
            f"(URL) '{origin}/{tenant_id}' to get the token."
        )
    elif error.reason == "signature":
        code, message = (
            "InvalidAuthenticationToken",
            "The access token is invalid: signature validation failed.",
        )
    else:
        code, message = "InvalidAuthenticationToken", "The access token is invalid."
    return unauthenticated(code, message, tenant_id, origin)


def forbidden(client_id: str, object_id: str, action: str, scope: str) -> ArmError:
    """Known, but not allowed."""
    message = (
        f"The client '{client_id}' with object id '{object_id}' does not have authorization to "
        "perform action "
        f"'{action}' over scope '{scope}' or the scope is invalid. If access was recently granted, "
        "please refresh "
        "your credentials."
    )
    return ArmError(403, "AuthorizationFailed", message)


def no_api_version() -> ArmError:
    """Every request says which version it speaks."""
    message = "The api-version query parameter (?api-version=) is required for all requests."
    return ArmError(400, "MissingApiVersionParameter", message)


def unknown_api_version(kind: str, version: str, supported: tuple[str, ...], location: str) -> ArmError:
    """A version that this type does not have."""
    listed = ", ".join(supported) or "dates, as 2025-01-01 or 2025-01-01-preview"
    message = (
        f"No registered resource provider found for location '{location}' and API version '{version}' "
        "for type "
        f"'{kind}'. The supported api-versions are '{listed}'. The supported locations are '{location}'."
    )
    return ArmError(400, "NoRegisteredProviderFound", message)


def invalid_api_version(_: str, version: str, supported: tuple[str, ...], __: str) -> ArmError:
    """The same, in the words of a provider that checks the version itself."""
    message = f"The api-version '{version}' is invalid. The supported versions are '{','.join(supported)}'."
    return ArmError(400, "InvalidApiVersionParameter", message)


def unknown_type(path: str) -> ArmError:
    """A path that leads nowhere."""
    return ArmError(404, "InvalidResourceType", f"The resource type of '{path}' could not be found.")


def wrong_method(method: str) -> ArmError:
    """A path that does not take the method."""
    return ArmError(
        405, "MethodNotAllowed", f"The HTTP method '{method}' is not supported for this resource."
    )


def no_subscription(subscription: str) -> ArmError:
    """A subscription that does not exist."""
    return ArmError(404, "SubscriptionNotFound", f"The subscription '{subscription}' could not be found.")


def no_resource_group(group: str) -> ArmError:
    """A resource group that does not exist."""
    return ArmError(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def no_resource(kind: str, name: str, group: str) -> ArmError:
    """A resource that does not exist."""
    message = (
        f"The Resource '{kind}/{name}' under resource group '{group}' was not found. For more details "
        "please go to "
        "https://aka.ms/ARMResourceNotFoundFix"
    )
    return ArmError(404, "ResourceNotFound", message)


def invalid(message: str, code: str = "InvalidParameter") -> ArmError:
    """A body or a value that is not right."""
    return ArmError(400, code, message)


def busy(name: str) -> ArmError:
    """Something else is being done with it."""
    message = f"Operation is not allowed because there's an in progress operation on '{name}'."
    return ArmError(409, "OperationNotAllowed", message)


def unwell(detail: str) -> ArmError:
    """What is behind a provider does not answer."""
    return ArmError(500, "InternalServerError", f"The resource provider could not do its work: {detail}")


def throttled(kind: str, subscription: str, object_id: str, seconds: int) -> ArmError:
    """Too much of it."""
    message = (
        f"Number of '{kind}' requests for subscription '{subscription}' actor '{object_id}' exceeded. "
        "Please try "
        f"again after '{seconds}' seconds after additional tokens are available. Refer to "
        "https://aka.ms/arm-throttling for additional information."
    )
    return ArmError(429, "SubscriptionRequestsThrottled", message, {"Retry-After": str(seconds)})
