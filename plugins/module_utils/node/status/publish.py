# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish the status: status.json, node_exporter's textfile, the Node. Each only if it changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..drift.record import DriftRecord
from ..engine.leftovers import clear_own_leftovers
from ..engine.records.state import Phase, Store
from ..errors import ApiUnreachable, FlexNodeError, StateNewer
from ..machine.host import Host
from ..node_object.reporter import By, Ids, reported_by
from ..node_object.this_node import ThisNode

if TYPE_CHECKING:
    from .document import Observed

UNPUBLISHED = "unpublished"


def publish(
    host: Host,
    store: Store,
    *,
    node: ThisNode | None = None,
    record: DriftRecord | None = None,
) -> dict[str, Any]:
    """Observe this machine and report it everywhere; returns the status document. Never fails.

    What could not be reported is listed under `unpublished` of the returned document: what was done to the
    machine before is done, whether it can be reported or not. An API server that does not answer is
    expected at the edge, and not listed: the next change reports to it.
    node: this machine as a node, if known. record: what differs, if it was just checked or applied; without
    it everything is observed.
    """
    # Only now: a join comes here when its Node is Ready, and should not import this before.
    from .document import is_node, observe
    from .textfile import write_textfiles

    attempts = 3 if node else 1  # it answered a moment ago: use the same connection
    try:
        observed = observe(host, store, node=node, attempts=attempts, record=record)
    except FlexNodeError as error:  # damaged state files: nothing can be said
        return {UNPUBLISHED: [f"status: {error.what}: {error.why}"]}
    status, failed = observed.status, []
    if not is_to_be_written(status):
        return status

    def report(where: str, act: Callable[[], None]) -> None:
        try:
            act()
        except ApiUnreachable:
            pass
        except FlexNodeError as error:
            failed.append(f"{where}: {error.what}: {error.why}")

    report("status.json", lambda: write_status(host, store, status))
    if is_node(status):
        report("textfile", lambda: write_textfiles(host, status))
    report("Node", lambda: patch(observed, attempts))
    return {**status, UNPUBLISHED: failed} if failed else status


def is_to_be_written(status: Mapping[str, Any]) -> bool:
    """Whether to write: not where nothing was done yet, nor where a newer release keeps its state."""
    phase, reason = str(status["phase"]), str(status["reason"])
    return phase != Phase.NOT_STARTED.value and reason != StateNewer.code


def write_status(host: Host, store: Store, status: Mapping[str, Any]) -> None:
    """Write status.json, if it changed; a run that was killed may have left half of one."""
    clear_own_leftovers(host, store)
    store.set_status(status)


def patch(observed: Observed, attempts: int) -> None:
    """Patch the Node, if the API server returned it, and it is not one of another machine."""
    from .annotation import node_patch

    if observed.this_node and observed.node:
        if reported_by(observed.node, Ids.of(observed.this_node.host)) is By.OTHER:
            return
        change = node_patch(observed.status, observed.node)
        if change:
            observed.this_node.api(attempts).patch_node_status(observed.this_node.name, change)
