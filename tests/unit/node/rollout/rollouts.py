# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rollout record of a test's API server, with other nodes in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import (
    KEY,
    NAME,
    NAMESPACE,
    Holder,
    Member,
    Shared,
    read,
    written,
)
from tests.unit.node.fake_api import FakeApi

PLACE = f"{NAMESPACE}/{NAME}"
LIMIT = {"upgrade": {"maxUnavailable": 1, "waitSeconds": 60}}


def create(api: FakeApi) -> None:
    """As docs/examples/rollout.yaml does it: without data."""
    api.config_maps[PLACE] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "resourceVersion": "1"},
    }


def shared(api: FakeApi) -> Shared:
    """What the record says."""
    return read((api.config_maps[PLACE].get("data") or {}).get(KEY, ""))


def put(api: FakeApi, change: Callable[[Shared], Shared]) -> None:
    """Another node or an administrator changes it."""
    found = api.config_maps[PLACE]
    version = str(int(found["metadata"]["resourceVersion"]) + 1)
    metadata: dict[str, Any] = {**found["metadata"], "resourceVersion": version}
    api.config_maps[PLACE] = {**found, "metadata": metadata, "data": {KEY: written(change(shared(api)))}}


def held_by(api: FakeApi, *names: str) -> None:
    """Other nodes hold all slots."""
    since = api.now() - 30
    held = {name: Holder(since, "other", "kubernetes 1.34.3 -> 1.34.4") for name in names}
    put(api, lambda now: replace(now, holders=held))


def member(api: FakeApi, name: str, ring: str, software: str) -> None:
    """Another node is registered."""
    one = Member(ring, software, api.now() - 3600)
    put(api, lambda now: replace(now, nodes={**now.nodes, name: one}))
