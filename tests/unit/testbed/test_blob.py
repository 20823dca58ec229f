# SPDX-License-Identifier: GPL-3.0-or-later
"""Azurite as the testbed runs it."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.services import blob
from testbed.services.blob import Blob, BlobRequest

LINE = (
    '10.213.7.1 - - [15/Nov/2026:07:14:27 +0000] "GET /flexnodeblobs/flexnode-edge-1/config.json'
    '?sv=2026-10-06&si=node&sr=b&sig=abc%3D HTTP/1.1" 304 -'
)


def test_a_line_of_the_access_log() -> None:
    assert blob.parse(LINE) == BlobRequest(
        time=1794726867,
        client="10.213.7.1",
        method="GET",
        path="/flexnodeblobs/flexnode-edge-1/config.json",
        query="sv=2026-10-06&si=node&sr=b&sig=...",
        status=304,
    )


@pytest.mark.parametrize(
    "line", ["", "Azurite Blob service is successfully listening at https://0.0.0.0:10000"]
)
def test_other_lines_are_no_requests(line: str) -> None:
    assert blob.parse(line) is None


def test_accounts_have_keys_of_their_own_that_stay(tmp_path: Path) -> None:
    site = Site("unit", tmp_path, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0")
    one, other = Blob(site).account, Blob(site).provider_account
    assert one == Blob(site).account
    assert one.key != other.key
    assert one.url == "https://10.213.7.9:10000/flexnodeblobs"
    assert f"AccountKey={one.key};" in Blob(site).connection_string
    assert one.key not in repr(one)
    assert (tmp_path / "azurite" / "keys.json").stat().st_mode & 0o777 == 0o600


def test_the_lock_names_no_registry_and_pins_every_package() -> None:
    lock = json.loads((blob.BUILD / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert not [name for name, one in packages.items() if not one.get("integrity")]
