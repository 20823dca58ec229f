# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.Network through the SDK: what a gateway consists of, and operations that take their time."""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ....node.errors import FlexNodeError
from ....node.machine.clock import Clock
from ...progress import Tell
from ..arm import Json, explaining, lost, refusal_of
from ..errors import (
    AzureRefuses,
    AzureUnavailable,
    ChangedMeanwhile,
    NotInAzure,
    PermissionMissing,
    Refusal,
)
from ..login import Login
from .resources import GATEWAYS, SITES, SUBNET_NAME, ResourceId, state_of

NETWORK_ERROR = ""
try:
    from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
    from azure.mgmt.network import NetworkManagementClient
except ImportError:
    NETWORK_ERROR = traceback.format_exc()

# What Azure answers while another operation runs on a resource, or on one that it needs: with 409, 400 and
# 429. The last is no throttling: the SDK gives up on it long before such an operation ends.
ANOTHER = "AnotherOperationInProgress"
BUSY = {ANOTHER, "ReferencedResourceNotProvisioned", "RetryableError"}
DELETIONS = 3  # attempts of one that Azure could not finish
TELL = 60.0  # seconds between two lines about an operation


class Network:
    """Resources by their ids, as JSON: the SDK's models differ between its releases."""

    def __init__(self, login: Login, clock: Clock, tell: Tell, *, pause: float, seconds: float) -> None:
        self._login, self._clock, self._tell = login, clock, tell
        self._pause, self._seconds = max(pause, 0.05), seconds
        self._clients: dict[str, Any] = {}

    def get(self, resource: ResourceId) -> Json | None:
        """A resource, None where there is none."""
        calls = self._calls(resource)
        return self._found(lambda: calls.get(resource.group, resource.name, cls=_wire), str(resource))

    def on_premises(self, gateway: ResourceId) -> list[str]:
        """The ranges of sites that local network gateways beside it describe; none if they can't be read."""
        calls = self._client(gateway).local_network_gateways
        try:
            with explaining(self._login, "GET", str(gateway.beside(SITES, "")).rstrip("/")):
                found = [
                    getattr(one, "local_network_address_space", None) for one in calls.list(gateway.group)
                ]
        except PermissionMissing:
            return []
        return [text for space in found if space for text in space.address_prefixes or ()]

    def put(
        self, resource: ResourceId, body: Mapping[str, Any], etag: str = "", *, new: bool = False
    ) -> Json:
        """Create or replace a resource, and wait until it is there.

        A new one must not be there yet: ChangedMeanwhile says that somebody else makes it.
        """
        calls = self._calls(resource)
        headers = {"If-None-Match": "*"} if new else {"If-Match": etag} if etag else {}

        def begin() -> Any:
            return calls.begin_create_or_update(
                resource.group,
                resource.name,
                _body(body),
                content_type="application/json",
                headers=headers,
                cls=_wire,
            )

        def there() -> Json | None:
            now = self.get(resource)
            return now if state_of(now) == "succeeded" else None

        found: Json = self._finished("PUT", str(resource), begin, resource.name, there, new=new)
        return found

    def delete(self, resource: ResourceId) -> None:
        """Delete a resource, and wait until it is gone."""
        calls = self._calls(resource)
        self._finished(
            "DELETE",
            str(resource),
            lambda: calls.begin_delete(resource.group, resource.name),
            resource.name,
            lambda: {} if self.get(resource) is None else None,
        )

    def put_subnet(self, vnet: ResourceId, prefix: str) -> Json:
        """Create the subnet of gateways."""
        found: Json = self._finished(
            "PUT",
            f"{vnet}/subnets/{SUBNET_NAME}",
            lambda: self._client(vnet).subnets.begin_create_or_update(
                vnet.group,
                vnet.name,
                SUBNET_NAME,
                _body({"name": SUBNET_NAME, "properties": {"addressPrefix": prefix}}),
                content_type="application/json",
                cls=_wire,
            ),
            SUBNET_NAME,
        )
        return found

    def delete_subnet(self, vnet: ResourceId, name: str) -> None:
        """Delete the subnet of gateways."""
        self._finished(
            "DELETE",
            f"{vnet}/subnets/{name}",
            lambda: self._client(vnet).subnets.begin_delete(vnet.group, vnet.name, name),
            name,
            lambda: {} if self._subnet(vnet, name) is None else None,
        )

    def _subnet(self, vnet: ResourceId, name: str) -> Json | None:
        """A subnet, None where there is none."""
        calls, path = self._client(vnet).subnets, f"{vnet}/subnets/{name}"
        return self._found(lambda: calls.get(vnet.group, vnet.name, name, cls=_wire), path)

    def _found(self, get: Callable[[], Json], path: str) -> Json | None:
        """What a request of the SDK finds, None where there is nothing."""
        with explaining(self._login, "GET", path):
            try:
                return get()
            except ResourceNotFoundError as error:
                if refusal_of(error, "GET", path).itself:
                    return None
                raise

    def profile_url(self, gateway: ResourceId) -> str:
        """Let Azure generate the profile of clients: a URL that is signed, so a secret."""
        found = self._finished(
            "POST",
            f"{gateway}/generatevpnprofile",
            lambda: self._client(gateway).virtual_network_gateways.begin_generate_vpn_profile(
                gateway.group,
                gateway.name,
                _body({"processorArchitecture": "Amd64", "authenticationMethod": "EAPTLS"}),
                content_type="application/json",
            ),
            f"profile of {gateway.name}",
        )
        return str(found or "").strip().strip('"')

    def _calls(self, resource: ResourceId) -> Any:
        name = {
            "virtualNetworks": "virtual_networks",
            GATEWAYS: "virtual_network_gateways",
            "publicIPAddresses": "public_ip_addresses",
        }[resource.kind]
        return getattr(self._client(resource), name)

    def _client(self, resource: ResourceId) -> Any:
        """The SDK's client for the subscription of a resource: a VNet may be in another than its cluster."""
        if resource.subscription not in self._clients:
            endpoints = self._login.endpoints
            self._clients[resource.subscription] = NetworkManagementClient(
                self._login.credential,
                resource.subscription,
                endpoints.resource_manager,
                credential_scopes=[endpoints.scope],
                polling_interval=self._pause,
                **self._login.client_options,
            )
        return self._clients[resource.subscription]

    def _finished(
        self,
        method: str,
        path: str,
        begin: Callable[[], Any],
        name: str,
        ended: Callable[[], Any] = lambda: None,
        *,
        new: bool = False,
    ) -> Any:
        """Begin an operation and wait for its end; again where another one runs on the same resource.

        Of a new resource such an operation may be somebody else's, who makes it too: that is not overwritten.
        ended: what the operation came to, as far as the resource shows it.
        """
        started = self._clock.monotonic()
        deadline, told, deletions = started + self._seconds, started - TELL, 1
        while True:
            accepted = False
            try:
                with explaining(self._login, method, path):
                    poller = begin()
                    accepted = True
                    return self._waited(method, path, poller, name, deadline, ended)
            except NotInAzure as error:
                # Once it is accepted, the operation is what is missing: the resource says whether it is gone.
                if method == "DELETE" and (_gone(ended) if accepted else _says_gone(error)):
                    return None  # somebody else deleted it meanwhile, or the group that it was in
                if accepted:
                    raise lost(error, method, path) from error
                raise
            except (AzureRefuses, AzureUnavailable) as error:
                if new and ANOTHER in codes_of(error.refusal):
                    what = f"another operation in Azure makes or changes {name}"
                    # Without a cause of its own: why has it, and pylint takes this one for no exception.
                    raise ChangedMeanwhile(what, where=f"{method} {path}", why=error.why) from None
                again = method == "DELETE" and bool(error.refusal and error.refusal.passes)
                deletions += again
                now = self._clock.monotonic()
                if now >= deadline or deletions > DELETIONS or not (again or BUSY & codes_of(error.refusal)):
                    raise
                why = "Azure could not finish the deletion" if again else "another operation runs in Azure"
            if again or now - told >= TELL:
                spent = f"{now - started:.0f} of {self._seconds:.0f} s"
                self._tell(f"{name}: {why}; {'trying again' if again else 'waiting for it'} ({spent})")
                told = now
            self._clock.sleep(self._pause)

    def _waited(
        self, method: str, path: str, poller: Any, name: str, deadline: float, ended: Callable[[], Any]
    ) -> Any:
        started = self._clock.monotonic()
        told = started
        try:
            while not poller.done():
                now = self._clock.monotonic()
                if now >= deadline:
                    # Azure asks for up to 160 s between two looks at an operation: it may be over already.
                    if (found := _seen(ended)) is not None:
                        return found
                    raise late(f"{method} {path}", self._seconds)
                if now - told >= TELL:
                    self._tell(f"{name}: {poller.status()} for {(now - started) / 60:.0f} min")
                    told = now
                poller.wait(min(TELL, max(deadline - now, 0.05)))
            return poller.result()
        except HttpResponseError as error:
            if error.status_code is None or error.status_code >= 400:
                raise
            # The operation was accepted and failed later: the answer that says so has status 200.
            detail = refusal_of(error, method, path)
            failed = AzureRefuses(
                f"Azure accepted the change of {name}, but could not finish it",
                where=f"{method} {path}",
                why=": ".join(part for part in (detail.code, detail.message) if part),
                fix="run this again: it continues with what is there; if it stays, az network vnet-gateway "
                "show and the activity log say more",
            )
            failed.refusal = detail
            raise failed from error


def codes_of(refusal: Refusal | None) -> set[str]:
    """The code of an answer, and those of its details."""
    return {refusal.code, *(code for code, _message in refusal.details)} if refusal else set()


def _seen(ended: Callable[[], Any]) -> Any:
    try:
        return ended()
    except FlexNodeError:
        return None


def _says_gone(error: NotInAzure) -> bool:
    return bool(error.refusal and error.refusal.gone)


def _gone(ended: Callable[[], Any]) -> bool:
    """Whether a resource that is being deleted does not exist, or what it was in."""
    try:
        return ended() is not None
    except NotInAzure as error:
        return _says_gone(error)


def late(where: str, seconds: float) -> AzureUnavailable:
    """The error for an operation that takes longer than allowed; it goes on in Azure."""
    return AzureUnavailable(
        "an operation in Azure does not finish",
        where=where,
        why=f"still running after {seconds:.0f} s",
        fix="run this again: it waits for the same operation; flexnode_vpn_timeout (operation_timeout) waits "
        "longer. A new gateway takes 30 to 45 minutes, sometimes more",
    )


def _body(document: Mapping[str, Any]) -> io.BytesIO:
    return io.BytesIO(json.dumps(document).encode())


def _wire(answer: Any, _model: Any, _headers: Any) -> Json:
    return dict(answer.http_response.json())
