# SPDX-License-Identifier: GPL-3.0-or-later
"""FlexNodes pools as the SDK of AKS's newest preview sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testbed import Testbed
from testbed.azure import Azure
from tests.contract.conftest import Worker
from tests.contract.pools import preview
from tests.contract.pools.preview import Calls
from tests.contract.pools.standins import StandIns

Caller = Callable[..., Calls]


@pytest.fixture(autouse=True)
def no_pools(azure: Azure) -> Iterator[None]:
    """Each test starts and ends without pools, and without acts of AKS that are still under way."""
    azure.forget_pools()
    yield
    azure.forget_pools()


@pytest.fixture
def caller(azure: Azure, sdk: Worker) -> Caller:
    """The preview's client with these roles on the cluster, or at another scope."""

    def create(*roles: str, **more: str) -> Calls:
        return Calls(preview.client(azure, sdk(*roles, **more)))

    return create


@pytest.fixture
def calls(caller: Caller) -> Calls:
    """Somebody who may do everything with the cluster."""
    return caller("Azure Kubernetes Service Contributor Role")


@pytest.fixture
def pool(calls: Calls) -> Any:
    """A pool without machines."""
    return calls.put_pool()


@pytest.fixture
def nodes(bed: Testbed) -> Iterator[StandIns]:
    """Nodes in the real cluster, without machines behind them."""
    found = StandIns(bed.cluster.api())
    yield found
    found.close()
