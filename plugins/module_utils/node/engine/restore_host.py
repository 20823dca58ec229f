# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore the host: read the journal backwards, and restore every item to its original state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..dataclass import dataclass
from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.layout import (
    APPLY_SERVICE,
    BIN_DIR,
    POLL_SERVICE,
    POLL_TIMER,
    PROGRAM_DIR,
    UNIT_DIR,
    enabled,
)
from ..machine.program import COMMAND
from ..resources.kernel.settings import still_reset
from ..resources.kinds import KINDS
from ..resources.units import RUNNING, unit_states
from .leftovers import clear_leftovers
from .records.journal import Entry
from .records.state import Store
from .restarts import Progress, reload_and_restart, silent

# An interrupted run can leave these half applied: some swap areas off, a tree without its manifest, some of
# the packages that come with one. Their mark then matches nothing, and their own `restore` decides what
# belongs to this collection.
HALF_DONE = ("directory", "tree", "swap", "package")
# The poll timer, its services, and the program that they run: they take up a leave that was interrupted, so
# they are removed last.
TAKES_UP = (
    POLL_TIMER,
    enabled(POLL_TIMER, "timers.target")[0],
    *(f"{UNIT_DIR}/{unit}" for unit in (POLL_TIMER, POLL_SERVICE, APPLY_SERVICE)),
    f"{BIN_DIR}/{COMMAND}",
    f"{PROGRAM_DIR}/agent",
)


GONE = ("", "masked", "masked-runtime")  # states of the file of a unit that its owner does not want any more


@dataclass(frozen=True)
class Restored:
    """The result for one item of the journal."""

    key: str
    outcome: str  # restored | removed | left (changed by another owner) | failed (the next run tries again)
    why: str = ""


def restore_host(
    host: Host, store: Store, progress: Progress = silent, keep: Mapping[str, str] | None = None
) -> list[Restored]:
    """Restore every item that still is as this collection left it.

    `keep` names directories whose content stays because others use it, each with the reason.
    """
    clear_leftovers(host, store)
    entries = store.journal.entries()[::-1]
    results: list[Restored] = []
    for last in (False, True):
        part = [entry for entry in entries if goes_last(entry.name) == last]
        for entry in part:
            if result := _restored(host, store, entry, results, keep or {}, progress):
                results.append(result)
        ran = [entry.name for entry in part[::-1] if _ran_before(entry)]
        if ran or any(entry.name.startswith(f"{UNIT_DIR}/") for entry in part):
            reload_and_restart(host, True, ran, progress)
            results += _not_started(host, ran)
    return [
        Restored(item.key, "removed") if item.outcome == "left" and _removed(host, item.key) else item
        for item in results
    ]


def goes_last(name: str) -> bool:
    """Whether an item is of what takes up an interrupted run, or a directory above that."""
    return any(f"{item}/".startswith(f"{name}/") or name.startswith(f"{item}/") for item in TAKES_UP)


def _restored(
    host: Host,
    store: Store,
    entry: Entry,
    results: Sequence[Restored],
    keep: Mapping[str, str],
    progress: Progress,
) -> Restored | None:
    """Restore one item; None: it has its original state, or its turn comes later."""
    if entry.kind not in KINDS:
        why = "this version does not know how to restore it; use the version that joined this machine"
        return Restored(entry.key, "failed", why)
    if entry.name in keep:
        return Restored(entry.key, "left", keep[entry.name])
    if _ran_before(entry):
        return None  # started again when all files are restored
    kind = KINDS[entry.kind]
    # A directory that this collection created is removed with its content, except for items left to
    # another owner. A directory below it that is not empty does not count: an interrupted run may have
    # left files in it.
    parts = [item.key.partition(":") for item in results if item.outcome in ("left", "failed")]
    spared = [name for of, _colon, name in parts if of != "directory" or name in keep]
    try:
        now = kind.mark_now(host, entry.name)
        if now == entry.was and _is_all(host, entry, now):
            return None  # never changed in the end, or restored by an interrupted run
        if now not in (entry.was, *entry.marks) and entry.kind not in HALF_DONE:
            return Restored(entry.key, "left", "changed outside this collection")
        progress(f"restore {entry.name}")
        left = kind.restore(host, entry.name, {**entry.origin, "spared": spared}, store.journal)
    except FlexNodeError as error:
        return Restored(entry.key, "failed", f"{error.what}: {error.why}")
    except OSError as error:  # that nobody foresaw: it must not keep the other items from being restored
        return Restored(entry.key, "failed", str(error))
    if left:
        why = f"still in use, or not created by this collection: {', '.join(left[:5])}"
        return Restored(entry.key, "left", why)
    return Restored(entry.key, "removed" if entry.origin.get("is") == "absent" else "restored")


def _not_started(host: Host, ran: Sequence[str]) -> Iterator[Restored]:
    """Units that ran before the join and do not run again."""
    for unit, state in unit_states(host, tuple(ran)).items():
        if state["ActiveState"] in RUNNING:
            continue
        if state["UnitFileState"] not in GONE:
            yield Restored(
                f"unit:{unit}",
                "failed",
                f"it ran before the join and does not start: see journalctl -u {unit}",
            )
        else:
            yield Restored(f"unit:{unit}", "left", "it ran before the join; removed or masked since")


def _is_all(host: Host, entry: Entry, now: str) -> bool:
    """Whether an item in its original state is all there is to restore.

    A directory has content, an interrupted installation leaves packages that came with the one, and an
    interrupted restore of a kernel setting leaves others that the kernel has reset with it.
    """
    if entry.kind == "sysctl":
        return not still_reset(host, entry.origin)
    if entry.kind == "package":
        return now == "present"
    return entry.kind != "directory" or now == "absent"


def _ran_before(entry: Entry) -> bool:
    """Whether it is a unit that ran before the join."""
    return entry.kind == "unit" and entry.origin["is"] == "running"


def _removed(host: Host, key: str) -> bool:
    """Whether a directory was removed together with one above it."""
    kind, _colon, name = key.partition(":")
    return kind == "directory" and host.stat(name).absent
