# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore the host: read the journal backwards, and restore every item to its original state."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.layout import UNIT_DIR
from ..resources.kinds import KINDS
from .leftovers import clear_leftovers
from .restarts import Progress, reload_and_restart, silent
from .state import Store

# An interrupted run can leave these half applied: some swap areas off, a tree without its manifest. Their
# mark then matches nothing, and their own `restore` decides what belongs to this collection.
HALF_DONE = ("directory", "tree", "swap")


@dataclass(frozen=True, slots=True)
class Restored:
    """The result for one item of the journal."""

    key: str
    outcome: str  # restored | removed | left (changed by another owner) | failed (the next run tries again)
    why: str = ""


def restore_host(host: Host, store: Store, progress: Progress = silent) -> list[Restored]:
    """Restore every item that still is as this collection left it."""
    clear_leftovers(host, store)
    results: list[Restored] = []
    entries = store.journal.entries()
    restart: list[str] = []
    for entry in reversed(entries):
        kind = KINDS[entry.kind]
        now = kind.mark_now(host, entry.name)
        if entry.kind == "unit" and entry.origin["is"] == "running":
            restart.append(entry.name)
            continue
        if now == entry.was and (entry.kind != "directory" or now == "absent"):
            continue  # never changed in the end, or restored by an interrupted run
        if now not in entry.marks and entry.kind not in HALF_DONE:
            results.append(Restored(entry.key, "left", "changed outside this collection"))
            continue
        progress(f"restore {entry.name}")
        # A directory that this collection created is removed with its content, except for items left to
        # another owner. A directory below it that is not empty does not count: an interrupted run may have
        # left files in it.
        parts = [item.key.partition(":") for item in results if item.outcome in ("left", "failed")]
        spared = [name for of, _colon, name in parts if of != "directory"]
        try:
            left = kind.restore(host, entry.name, {**entry.origin, "spared": spared}, store.journal)
        except FlexNodeError as error:
            results.append(Restored(entry.key, "failed", f"{error.what}: {error.why}"))
            continue
        if left:
            results.append(
                Restored(
                    entry.key,
                    "left",
                    f"still in use, or not created by this collection: {', '.join(left[:5])}",
                )
            )
        else:
            outcome = "removed" if entry.origin.get("is") == "absent" else "restored"
            results.append(Restored(entry.key, outcome))
    results = [
        Restored(item.key, "removed") if item.outcome == "left" and _removed(host, item.key) else item
        for item in results
    ]
    if any(entry.name.startswith(UNIT_DIR) for entry in entries):
        reload_and_restart(host, True, restart[::-1], progress)
    return results


def _removed(host: Host, key: str) -> bool:
    """Whether a directory was removed together with one above it."""
    kind, _colon, name = key.partition(":")
    return kind == "directory" and host.stat(name).absent
