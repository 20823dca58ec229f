# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated Azure as the real Azure SDK sees it: every operation, and every way to be refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from testbed import Testbed
from testbed.azure import Azure, Principal
from tests.aloud import aloud
from tests.contract.sdk import Sdk

Worker = Callable[..., Sdk]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the testbed."""
    for item in items:
        if "tests/contract" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def bed(pytestconfig: pytest.Config) -> Iterator[Testbed]:
    """The control plane and Azure; what was started for the tests is removed, what was there stays."""
    testbed = Testbed(os.environ.get("TESTBED_NAME", "contract"))
    with aloud(pytestconfig):
        testbed.up(nodes=False)
    yield testbed
    if "TESTBED_NAME" not in os.environ:
        testbed.down()


@pytest.fixture
def azure(bed: Testbed) -> Iterator[Azure]:
    """Azure without faults, with its usual settings and an empty record."""
    azure = bed.azure
    azure.behave()
    yield azure
    azure.behave()


@pytest.fixture
def principal(azure: Azure, request: pytest.FixtureRequest) -> Iterator[Principal]:
    """A principal without any role."""
    made = azure.app_registration(f"contract {request.node.name}")
    yield made
    azure.revoke(made)
    azure.remove_registration(made.name)


@pytest.fixture
def sdk(bed: Testbed, azure: Azure, principal: Principal) -> Worker:
    """The SDK's clients for that principal, which then has these roles on the cluster."""

    def make(*roles: str, scope: str = azure.cluster_id) -> Sdk:
        for role in roles:
            azure.grant(principal, role, scope)
        return Sdk(azure, principal, bed.ca_file)

    return make
