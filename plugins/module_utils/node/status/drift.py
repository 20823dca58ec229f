# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs from the configuration: as it is now, and what the last drift check recorded beside that."""

from __future__ import annotations

import json
from typing import Any

from ..components.every import COMPONENTS, wanted
from ..config.model import NodeConfig
from ..engine.plan import make_plan
from ..engine.records.state import Store
from ..machine.facts import gather
from ..machine.host import Host
from ..resources.base import key_of
from ..resources.kinds import KINDS

Item = dict[str, str]
FOUND, REPORT = "found", "report"


def drift_now(host: Host, store: Store, config: NodeConfig, machine: str | None = None) -> list[Item]:
    """Observe every item, and add what only the drift check sees (processes, labels, certificates)."""
    resources, ownership = wanted(COMPONENTS, config, gather(host, machine))
    plan = make_plan(resources, host, store, ownership)
    recorded = {item["item"]: item for item in recorded_drift(host, store)}
    items = []
    for step in plan.steps:
        key = key_of(step.resource)
        known = recorded.get(key, {})
        items.append(_item(key, f"bootstrap would {step.change.sentence}", known.get("state", FOUND)))
    items += [_item(f"unit:{unit}", f"bootstrap would restart {unit}", FOUND) for unit in plan.restarts]
    planned = {item["item"] for item in items}
    for key, item in recorded.items():
        # What a plan would show and this one does not is right by now, whatever the last check found.
        plannable = key.partition(":")[0] in KINDS and item.get("class") != REPORT
        if not plannable and key not in planned:
            items.append(_item(key, item["what"], item["state"]))
    return items


def drift_after_success(host: Host, store: Store) -> list[Item]:
    """Everything was just applied: only what this collection reports and never changes can still differ."""
    return [
        _item(item["item"], item["what"], item["state"])
        for item in recorded_drift(host, store)
        if item.get("class") == REPORT
    ]


def recorded_drift(host: Host, store: Store) -> list[dict[str, Any]]:
    """The items of the last drift check that were not repaired; a damaged record counts as none."""
    try:
        items = json.loads(host.read(f"{store.directory}/drift.json") or b"{}").get("items", [])
        return [item for item in items if item["state"] != "repaired" and item["what"] and item["item"]]
    except (ValueError, AttributeError, KeyError, TypeError):
        return []


def _item(key: str, what: str, state: str) -> Item:
    return {"item": key, "what": what, "state": state}
