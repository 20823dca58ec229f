# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is sent to the SDK when a gateway is made or changed, and what its refusals mean."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureRefuses,
    AzureUnavailable,
    ChangedMeanwhile,
    NotInAzure,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.api import Network
from tests.contract.recorded import Recorded, arm
from tests.contract.recorded import network as recorded
from tests.unit.controller.fake_network import GATEWAY, VNET, FakeClock


class FinishedOperation:
    """A poller of the SDK whose operation is over."""

    def done(self) -> bool:
        return True

    def result(self) -> dict[str, Any]:
        return {"name": "made"}


class RunningOperation:
    """A poller whose operation is not seen to end."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def done(self) -> bool:
        return False

    def status(self) -> str:
        return "InProgress"

    def wait(self, seconds: float) -> None:
        self.clock.time += seconds


class FailedOperation:
    """A poller whose operation ended otherwise."""

    def __init__(self, answer: Recorded) -> None:
        self.error = error_of(HttpResponseError, answer)

    def done(self) -> bool:
        return True

    def result(self) -> dict[str, Any]:
        raise self.error


def error_of(kind: type[HttpResponseError], answer: Recorded) -> Any:
    """The SDK's error for a recorded answer."""
    found = answer.at()
    error: Any = kind(found.method)
    error.status_code, error.reason = found.status, "refused"
    error.response = SimpleNamespace(text=found.content.decode)
    return error


class Answering:
    """The calls of the SDK for one VPN gateway or a subnet: each is answered by what is next."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.calls, self.there = list(answers), list[str](), dict[str, Any]()
        self.missing: Recorded | None = None
        self.virtual_network_gateways = self.subnets = self.public_ip_addresses = self

    def get(self, *_arguments: Any, **_more: Any) -> dict[str, Any]:
        if self.missing:
            raise error_of(ResourceNotFoundError, self.missing)
        return self.there

    def begin_create_or_update(self, *_arguments: Any, **_more: Any) -> Any:
        return self._next("put")

    def begin_delete(self, *_arguments: Any) -> Any:
        return self._next("delete")

    def _next(self, call: str) -> Any:
        self.calls.append(call)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Recorded):
            raise error_of(ResourceNotFoundError if found.status == 404 else HttpResponseError, found)
        return found


class Sdk:
    """The calls of the SDK about gateways: refused as often as it says, then done."""

    def __init__(self, *refusals: tuple[int, str]) -> None:
        self.refusals, self.headers = list(refusals), list[dict[str, str]]()
        self.virtual_network_gateways = self.local_network_gateways = self

    def get(self, *_arguments: Any, **_more: Any) -> Any:
        raise self.refused(ResourceNotFoundError)

    def list(self, _group: str) -> Any:
        raise self.refused(ResourceNotFoundError)

    def begin_create_or_update(self, *_arguments: Any, headers: dict[str, str], **_more: Any) -> Any:
        self.headers.append(headers)
        if not self.refusals:
            return FinishedOperation()
        raise self.refused(HttpResponseError)

    def refused(self, kind: type[HttpResponseError]) -> HttpResponseError:
        status, code = self.refusals.pop(0)
        error: Any = kind("refused")
        error.status_code, error.reason = status, "refused"
        error.error = SimpleNamespace(code=code, message="refused")
        refused: HttpResponseError = error
        return refused


class FoundInSdk:
    """Another subscription, which has every gateway that it is asked for."""

    def __init__(self) -> None:
        self.asked = list[tuple[str, ...]]()
        self.virtual_network_gateways = self

    def get(self, *arguments: str, **_more: Any) -> dict[str, str]:
        self.asked.append(arguments)
        return {"name": "there"}


def network(sdk: Sdk | Answering, told: list[str] | None = None, clock: FakeClock | None = None) -> Network:
    endpoints = SimpleNamespace(resource_manager="https://azure.example.com", scope="x")
    login: Any = SimpleNamespace(endpoints=endpoints, credential=object(), client_options={})
    tell = (lambda _line: None) if told is None else told.append
    made = Network(login, clock or FakeClock(), tell, pause=1, seconds=60)
    made._clients[GATEWAY.subscription] = sdk
    return made


def test_a_resource_that_is_busy_with_429_is_waited_for_and_told() -> None:
    """Contradiction 5: RetryableError of Microsoft.Network is another operation, not throttling."""
    told: list[str] = []
    sdk = Answering(recorded.RETRYABLE, recorded.RETRYABLE_WITHOUT_TIME, FinishedOperation())
    assert network(sdk, told).put_subnet(VNET, "10.0.0.0/27") == {"name": "made"}
    assert sdk.calls == ["put"] * 3
    assert told == ["GatewaySubnet: another operation runs in Azure; waiting for it (0 of 60 s)"]
    endless = Answering(recorded.RETRYABLE)
    with pytest.raises(AzureUnavailable, match="RetryableError"):
        network(endless).put_subnet(VNET, "10.0.0.0/27")
    assert 50 <= len(endless.calls) <= 70, "as long as flexnode_vpn_timeout allows"


def test_throttling_is_no_operation_that_ends() -> None:
    sdk = Answering(arm.THROTTLED)
    with pytest.raises(AzureUnavailable, match="SubscriptionRequestsThrottled"):
        network(sdk).put_subnet(VNET, "10.0.0.0/27")
    assert len(sdk.calls) == 1


def test_a_deletion_that_azure_could_not_finish_is_repeated() -> None:
    """Contradiction 10: '... due to an intermittent error. Please try again.'"""
    told: list[str] = []
    failed = FailedOperation(recorded.DELETION_FAILED)
    sdk = Answering(failed, FinishedOperation())
    network(sdk, told).delete(GATEWAY)
    assert sdk.calls == ["delete", "delete"]
    assert "Azure could not finish the deletion; trying again" in told[0]
    endless = Answering(failed)
    with pytest.raises(AzureRefuses, match="VmssGatewayDeploymentFailed"):
        network(endless).delete(GATEWAY)
    assert len(endless.calls) == 3
    made = Answering(failed)
    with pytest.raises(AzureRefuses):
        network(made).put(GATEWAY, {}, new=True)
    assert len(made.calls) == 1, "what is made may be there in part: the next run looks at it"


GATEWAY_MISSING = Recorded(
    "GET",
    "",
    404,
    {"error": {"code": "ResourceNotFound", "message": f"The Resource '{GATEWAY}' was not found."}},
)
IN_THIS_GROUP = recorded.GROUP_MISSING.at(group=GATEWAY.group)
# Those that are about something else: an operation, an address, a subnet, and what does not say.
OF_OTHERS = [
    Recorded("GET", "", 404, body)
    for body in (
        {"code": "NotFound", "subcode": "GetOperation_NotFound_HCPServerError"},
        {"error": {"code": "OperationNotFound", "message": "The operation was not found."}},
        {
            "error": {
                "code": "ResourceNotFound",
                "message": "The Resource 'Microsoft.Network/publicIPAddresses/x' was not found.",
            }
        },
        {"code": "NotFound", "details": [{"code": "", "message": "desc = Subnet not found"}]},
        {"code": "NotFound", "message": "The entity was not found."},
        recorded.GROUP_MISSING.at(group="another").body,
    )
]


@pytest.mark.parametrize("answer", [IN_THIS_GROUP, GATEWAY_MISSING])
def test_what_is_gone_with_its_group_is_deleted(answer: Recorded) -> None:
    network(Answering(answer)).delete(GATEWAY)


@pytest.mark.parametrize("answer", OF_OTHERS)
def test_a_404_of_something_else_deletes_nothing(answer: Recorded) -> None:
    with pytest.raises(NotInAzure):
        network(Answering(answer)).delete(GATEWAY)


@pytest.mark.parametrize("answer", [IN_THIS_GROUP, GATEWAY_MISSING, *OF_OTHERS])
def test_an_operation_that_is_missing_is_no_deletion(answer: Recorded) -> None:
    """Azure accepted it, then forgot the operation: only the resource says whether it is gone."""
    sdk = Answering(FailedOperation(answer))
    sdk.there = {"name": "there"}
    with pytest.raises(AzureUnavailable, match="no longer knows the operation"):
        network(sdk).delete(GATEWAY)
    with pytest.raises(AzureUnavailable, match="no longer knows the operation"):
        network(sdk).delete_subnet(VNET, "GatewaySubnet")
    for gone in (IN_THIS_GROUP, GATEWAY_MISSING):
        sdk.missing = gone
        network(sdk).delete(GATEWAY)


def test_at_the_time_limit_the_resource_is_looked_at_once_more() -> None:
    """Azure asks to wait up to 160 s between two looks at an operation: it may be over long since."""
    assert int(recorded.RUNNING.headers["Retry-After"]) > 60
    clock = FakeClock()
    sdk = Answering(RunningOperation(clock))
    sdk.there = {"properties": {"provisioningState": "Updating"}}
    began = clock.monotonic()
    with pytest.raises(AzureUnavailable, match="still running after 60 s"):
        network(sdk, clock=clock).put(GATEWAY, {})
    assert clock.monotonic() - began == 60
    sdk.there = {"properties": {"provisioningState": "Succeeded"}}
    assert network(sdk, clock=clock).put(GATEWAY, {}) == sdk.there


def test_a_gateway_is_absent_only_in_a_group_that_exists() -> None:
    assert network(Sdk((404, "ResourceNotFound"))).get(GATEWAY) is None
    with pytest.raises(NotInAzure, match=f"resource group {GATEWAY.group} was not found"):
        network(Sdk((404, "ResourceGroupNotFound"))).get(GATEWAY)


def test_a_new_gateway_must_not_be_there_yet() -> None:
    sdk = Sdk()
    assert network(sdk).put(GATEWAY, {}, new=True) == {"name": "made"}
    network(sdk).put(GATEWAY, {}, 'W/"1"')
    network(sdk).put(GATEWAY, {})
    assert sdk.headers == [{"If-None-Match": "*"}, {"If-Match": 'W/"1"'}, {}]


@pytest.mark.parametrize("refusal", [(412, "PreconditionFailed"), (409, "AnotherOperationInProgress")])
def test_a_gateway_that_somebody_else_makes_is_not_written_again(refusal: tuple[int, str]) -> None:
    sdk = Sdk(refusal)
    with pytest.raises(ChangedMeanwhile):
        network(sdk).put(GATEWAY, {}, new=True)
    assert len(sdk.headers) == 1


def test_a_change_waits_for_another_operation_and_a_new_gateway_for_what_it_needs() -> None:
    changed, made = Sdk((409, "AnotherOperationInProgress")), Sdk((409, "ReferencedResourceNotProvisioned"))
    network(changed).put(GATEWAY, {}, 'W/"1"')
    network(made).put(GATEWAY, {}, new=True)
    assert (len(changed.headers), len(made.headers)) == (2, 2)


def test_a_resource_is_asked_for_in_its_own_subscription() -> None:
    """A VNet, or a gateway in a hub, may be in another subscription than the cluster."""
    asked = network(Sdk((404, "ResourceNotFound")))
    there = FoundInSdk()
    asked._clients["another"] = there
    assert asked.get(GATEWAY) is None
    assert asked.get(replace(GATEWAY, subscription="another")) == {"name": "there"}
    assert there.asked == [(GATEWAY.group, GATEWAY.name)]


def test_a_group_that_is_missing_is_named() -> None:
    with pytest.raises(NotInAzure, match=f"resource group {GATEWAY.group} was not found"):
        network(Sdk((404, "ResourceGroupNotFound"))).on_premises(GATEWAY)
