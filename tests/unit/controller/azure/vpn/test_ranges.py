# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a GatewaySubnet goes, and which ranges must not meet."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.errors import (
    RangesOverlap,
    VnetUnusable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.ranges import (
    Range,
    place,
    ranges,
    require_apart,
    subnet_range,
)


def networks(*texts: str) -> list[Any]:
    return [ipaddress.ip_network(text) for text in texts]


@pytest.mark.parametrize(
    ("space", "taken", "expected"),
    [
        (["10.0.0.0/16"], [], "10.0.255.224/27"),
        (["10.0.0.0/16"], ["10.0.0.0/24"], "10.0.255.224/27"),
        (["10.0.0.0/24"], ["10.0.0.192/26"], "10.0.0.160/27"),
        (["10.0.0.0/24"], ["10.0.0.240/28"], "10.0.0.192/27"),
        (["10.0.0.0/24", "10.9.0.0/24"], ["10.9.0.0/24"], "10.0.0.224/27"),
        (["10.0.0.0/8"], ["10.128.0.0/9"], "10.127.255.224/27"),
        (["10.0.0.0/27"], [], "10.0.0.0/27"),
        (["10.0.0.0/28"], [], None),
        (["10.0.0.0/24"], ["10.0.0.0/25", "10.0.0.128/25"], None),
        (["fd00::/48"], [], None),
        (["fd00::/48", "10.0.0.0/24"], ["fd00::/64"], "10.0.0.224/27"),
    ],
)
def test_the_highest_free_block(space: list[str], taken: list[str], expected: str | None) -> None:
    found = place(networks(*space), networks(*taken))
    assert (str(found) if found else None) == expected


@given(st.lists(st.integers(0, 255), max_size=12), st.integers(24, 29))
def test_a_place_is_free_and_inside_and_found_if_there_is_one(blocks: list[int], prefix: int) -> None:
    space = ipaddress.ip_network("10.0.0.0/22")
    taken = [ipaddress.ip_network((int(space.network_address) + 4 * one, 30)) for one in blocks]
    found = place([space], taken, prefix)
    free = [one for one in space.subnets(new_prefix=prefix) if not any(one.overlaps(two) for two in taken)]
    assert found == (free[-1] if free else None)


def test_all_overlaps_are_named() -> None:
    (pool,) = ranges("pool", ["10.0.0.0/8"])
    others = [*ranges("the VNet", ["10.1.0.0/16", "192.168.0.0/16"]), *ranges("the pods", ["10.2.0.0/16"])]
    with pytest.raises(RangesOverlap) as caught:
        require_apart(pool, others)
    assert caught.value.why == "they overlap the VNet 10.1.0.0/16, the pods 10.2.0.0/16"
    require_apart(pool, ranges("v6", ["fd00::/8"]))


def test_texts_that_are_no_ranges_are_left_out() -> None:
    assert [str(one) for one in ranges("a", [None, "", "x", "10.0.0.1/24,fd00::/64"])] == [
        "a 10.0.0.0/24",
        "a fd00::/64",
    ]


def test_a_vnet_without_room_is_an_error_with_its_ranges() -> None:
    space, taken = list(ranges("space", ["10.0.0.0/27"])), list(ranges("subnet", ["10.0.0.0/28"]))
    with pytest.raises(VnetUnusable) as caught:
        subnet_range("", space, taken, "/vnet")
    assert "10.0.0.0/27" in caught.value.why
    assert "10.0.0.0/28" in caught.value.why


@pytest.mark.parametrize(
    ("wanted", "words"), [("10.9.0.0/27", "not in the address"), ("10.0.0.0/27", "not free")]
)
def test_a_wanted_subnet_is_checked(wanted: str, words: str) -> None:
    space, taken = list(ranges("space", ["10.0.0.0/16"])), list(ranges("subnet", ["10.0.0.0/24"]))
    with pytest.raises(VnetUnusable, match=words):
        subnet_range(wanted, space, taken, "/vnet")
    assert (
        subnet_range("10.0.1.0/27", space, taken, "/vnet")
        == Range("", ipaddress.ip_network("10.0.1.0/27")).network
    )
