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
    ChangedMeanwhile,
    NotInAzure,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.api import Network
from tests.unit.controller.fake_network import GATEWAY, FakeClock


class FinishedOperation:
    """A poller of the SDK whose operation is over."""

    def done(self) -> bool:
        return True

    def result(self) -> dict[str, Any]:
        return {"name": "made"}


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


def network(sdk: Sdk) -> Network:
    endpoints = SimpleNamespace(resource_manager="https://azure.example.com", scope="x")
    login: Any = SimpleNamespace(endpoints=endpoints, credential=object(), client_options={})
    made = Network(login, FakeClock(), lambda _line: None, pause=1, seconds=60)
    made._clients[GATEWAY.subscription] = sdk
    return made


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
