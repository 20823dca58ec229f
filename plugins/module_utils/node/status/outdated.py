# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what was published is still true: a drift check asks, which has just looked at everything.

A status is published at the moment of a change, and some of what it says changes later by itself: a kubelet
reports again some seconds after an outage, an API server that could not be told answers again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..drift.certificate import certificate_file, uses_certificate
from ..drift.check import Seen
from ..drift.others import OTHER_MACHINE
from ..drift.record import DriftRecord
from ..engine.records.state import Store
from ..errors import StateCorrupt
from ..machine.certificates import validity
from ..machine.clock import iso
from ..machine.host import Host
from ..node_object.conditions import ready_condition
from ..node_object.reporter import By, Ids, reported_by
from ..resources.base import key_of
from ..resources.units import Unit
from .annotation import is_told
from .drift import Item, recorded


def is_outdated(host: Host, store: Store, record: DriftRecord, seen: Seen) -> bool:
    """Whether to publish. An API server that does not answer now is no news: nothing is known of the Node."""
    try:
        status = store.status()
    except StateCorrupt:
        return True
    if status is None or status["phase"] != store.state()["phase"]:
        return True
    differing = recorded(record)
    keys = {item["item"] for item in differing}
    if by_key(status["drift"]) != by_key(differing) or runs_again(status["node"], keys):
        return True
    expires = expiry(host, store)
    if (status["node"].get("certificate") or {}).get("expires") != (iso(expires) if expires else None):
        return True
    if expires and expires <= host.clock.now():  # then a status does not look at the Node
        return False
    shared = any(key.startswith(OTHER_MACHINE) for key in keys)  # two machines report it in turns
    if not seen.read or shared or reported_by(seen.node or {}, Ids.of(host)) is By.OTHER:
        return False
    return says_otherwise(status, seen.node)


def expiry(host: Host, store: Store) -> float | None:
    """When the kubelet's certificate expires; it renews it by itself. None: it has none that can be read."""
    document = store.remembered()[0] or {}
    if not uses_certificate(document):
        return None
    valid = validity(host.read(certificate_file(document)) or b"")
    return valid.expires if valid else None


def says_otherwise(status: Mapping[str, Any], node: Mapping[str, Any] | None) -> bool:
    """Whether the Node is not what a status says of it, or was not told this status."""
    now = "NotRegistered" if node is None else "Ready" if ready_condition(node)[0] else "NotReady"
    return status["node"]["status"] != now or (node is not None and not is_told(status, node))


def runs_again(node: Mapping[str, Any], differing: Iterable[str]) -> bool:
    """Whether a unit that was reported as stopped does not differ now: it was only restarting then."""
    stopped = {key_of(Unit(unit)) for unit, active in node.get("units", {}).items() if not active}
    return bool(stopped.difference(differing))


def by_key(items: Iterable[Item]) -> dict[str, Item]:
    """Items in whatever order."""
    return {item["item"]: item for item in items}
