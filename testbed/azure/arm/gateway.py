# SPDX-License-Identifier: GPL-3.0-or-later
"""The front door of Resource Manager: who, which operation, whether allowed, how often."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

import requests
from azure.core.exceptions import AzureError

from testbed.azure.arm import (
    errors,
    features,
    flexnode,
    hybrid_compute,
    managed_clusters,
    operations,
    role_assignments,
    subscriptions,
)
from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Answer, Call, Operation
from testbed.azure.arm.throttle import Throttle
from testbed.azure.behaviour.faults import Fault
from testbed.azure.cloud import Cloud
from testbed.azure.network import addresses, gateways, local_gateways, store, vnets
from testbed.azure.pools import machine_calls, pool_calls
from testbed.azure.sign_in.directory import Principal
from testbed.azure.sign_in.tokens import RESOURCE_MANAGER, BadToken
from testbed.basics.errors import TestbedError

LOG = logging.getLogger("testbed.azure")

TABLE: tuple[Operation, ...] = (
    *subscriptions.OPERATIONS,
    *managed_clusters.OPERATIONS,
    *flexnode.OPERATIONS,
    *pool_calls.OPERATIONS,
    *machine_calls.OPERATIONS,
    *features.OPERATIONS,
    *hybrid_compute.OPERATIONS,
    *operations.OPERATIONS,
    *vnets.OPERATIONS,
    *addresses.OPERATIONS,
    *gateways.OPERATIONS,
    *local_gateways.OPERATIONS,
    *store.OPERATIONS,
    *role_assignments.OPERATIONS,
)


class Gateway:
    """Answers requests to Resource Manager."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._throttle = Throttle()

    def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        url: str,
        authorization: str,
        payload: bytes,
        state: Any,
        fault: Fault | None = None,
        sent: Mapping[str, str] | None = None,
    ) -> Answer:
        """Authenticate and authorize a request, or refuse it; state.principal is for the record.

        sent: its headers, by their names in small letters.
        """
        request_id = str(uuid.uuid4())
        headers = {
            "Cache-Control": "no-cache",
            "Pragma": "no-cache",
            "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
            "X-Content-Type-Options": "nosniff",
            "x-ms-request-id": request_id,
            "x-ms-correlation-request-id": request_id,
            "x-ms-routing-request-id": f"TESTBED:{request_id}",
        }
        try:
            principal = self._authenticate(authorization)
            state.principal = principal.name
            operation, values = self._find(method, path)
            operation.check_version(query.get("api-version"), self._cloud.place.location)
            self._check_subscription(values)
            headers |= self._count(method, principal)
            scope = operation.scope(values)
            if operation.action and not self._cloud.grants.allows(
                principal.object_id, operation.action, scope
            ):
                raise errors.forbidden(principal.client_id, principal.object_id, operation.action, scope)
            call = Call(self._cloud, principal, values, query, url, payload, fault, sent or {})
            found = self._carry_out(operation, call)
        except ArmError as error:
            return Answer(error.status, error.body(), {**headers, **error.headers})
        return Answer(found.status, found.body, {**headers, **found.headers})

    def _carry_out(self, operation: Operation, call: Call) -> Answer:
        try:
            return operation.handler(call)
        except (TestbedError, requests.RequestException, AzureError) as error:
            LOG.warning("%s: %s", operation.action, error)
            raise errors.unwell(type(error).__name__) from error

    def _authenticate(self, authorization: str) -> Principal:
        place = self._cloud.place
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise errors.no_token(place.tenant_id, place.origin)
        try:
            caller = self._cloud.authority.read(token, (*RESOURCE_MANAGER, place.origin))
        except BadToken as error:
            raise errors.bad_token(error, place.tenant_id, place.origin) from error
        known = self._cloud.directory.principal(caller.object_id)
        return known or Principal(f"deleted {caller.client_id}", caller.object_id, caller.client_id, "")

    def _find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        others = False
        for operation in TABLE:
            if found := operation.pattern.fullmatch(path.rstrip("/") or "/"):
                if operation.method == method:
                    return operation, found.groupdict()
                others = True
        raise errors.wrong_method(method) if others else errors.unknown_type(path)

    def _check_subscription(self, values: Mapping[str, str]) -> None:
        parts = values.get("scope", "").strip("/").split("/")
        named = parts[1] if len(parts) > 1 and parts[0].lower() == "subscriptions" else None
        subscription = values.get("subscription", named)
        if subscription and subscription.lower() != self._cloud.place.subscription_id:
            raise errors.no_subscription(subscription)

    def _count(self, method: str, principal: Principal) -> dict[str, str]:
        settings = self._cloud.database.settings
        kind, left, wait = self._throttle.take(principal.object_id, method, settings)
        if wait:
            raise errors.throttled(kind, self._cloud.place.subscription_id, principal.object_id, wait)
        return {f"x-ms-ratelimit-remaining-subscription-{kind}s": str(left)}
