# SPDX-License-Identifier: GPL-3.0-or-later
"""The address plan of a testbed."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from testbed.basics.errors import TestbedError
from testbed.layout.plan import FIRST_NODE, LAST_NODE, POOL, SERVICES, Plan, free_index, free_subnet

PLAN = Plan(IPv4Network("10.213.7.0/24"))


def test_every_service_and_node_has_its_own_address() -> None:
    services = [PLAN.service(name) for name in SERVICES]
    nodes = [PLAN.node(index) for index in range(FIRST_NODE, LAST_NODE + 1)]
    everyone = [PLAN.gateway, *services, *nodes]
    assert len(set(everyone)) == len(everyone)


@pytest.mark.parametrize(("index", "cidr"), [(20, "10.244.20.0/24"), (250, "10.244.250.0/24")])
def test_pod_cidr_follows_the_index(index: int, cidr: str) -> None:
    assert PLAN.pod_cidr(index) == cidr


def test_mac_is_pinned_to_the_address_and_locally_administered() -> None:
    assert PLAN.mac(PLAN.node(20)) == "02:fb:0a:d5:07:14"


def test_the_name_decides_where_the_search_for_a_subnet_starts() -> None:
    first = free_subnet("flexnode", [])
    assert first == free_subnet("flexnode", [])
    assert first.subnet_of(POOL)


def test_a_taken_subnet_is_passed_over() -> None:
    first = free_subnet("flexnode", [])
    second = free_subnet("flexnode", [first, IPv4Network("192.0.2.0/24")])
    assert not first.overlaps(second)


def test_a_full_pool_says_what_to_do() -> None:
    with pytest.raises(TestbedError, match="take down testbeds"):
        free_subnet("flexnode", [POOL])


def test_the_lowest_free_index_is_given_again() -> None:
    assert free_index([]) == FIRST_NODE
    assert free_index([FIRST_NODE, FIRST_NODE + 2]) == FIRST_NODE + 1
    with pytest.raises(TestbedError, match="at most"):
        free_index(range(FIRST_NODE, LAST_NODE + 1))
