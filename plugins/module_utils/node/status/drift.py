# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs from the configuration now, each with what the drift checks so far made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drift.check import look
from ..drift.record import FOUND, REPAIRED, REPORT, REPORTED, DriftRecord
from ..engine.records.state import Store
from ..errors import CommandFailed
from ..machine.host import Host
from ..resources.kinds import KINDS

Item = dict[str, str]


def drift_now(host: Host, store: Store, document: Mapping[str, Any]) -> list[Item]:
    """Everything that differs from the applied document; before the first success, from the current one."""
    record = DriftRecord.of(store)
    try:
        seen = look(host, store, store.applied_if_intact() or document, host.clock.now())
    except (PermissionError, CommandFailed):  # the sandbox of a poll can't read all, or systemd is busy
        return recorded(record)  # of the last check, which could
    known = {item.item: item.state for item in record.items if item.state != REPAIRED}
    items = [
        _item(one.item, one.what, known.get(one.item, REPORTED if one.class_ == REPORT else FOUND))
        for one in seen.findings
    ]
    return items + [item for item in recorded(record) if item["item"].startswith(seen.unseen)]


def recorded(record: DriftRecord) -> list[Item]:
    """What a check recorded and nobody has repaired."""
    return [_item(item.item, item.what, item.state) for item in record.items if item.state != REPAIRED]


def _item(key: str, what: str, state: str) -> Item:
    planned = key.partition(":")[0] in KINDS  # its sentence says what to do, any other says what is
    return {"item": key, "what": f"bootstrap would {what}" if planned else what, "state": state}
