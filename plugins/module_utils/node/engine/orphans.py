# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orphans: items that are no longer in the configuration. They get their original state back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..dataclass import dataclass, field
from ..machine.host import Host
from ..resources.base import HIDDEN, Change, Drift, Origin, Resource, Vault, key_of
from ..resources.kinds import KINDS, NAMED
from .records.journal import Entry, Journal

# Other versions are kept: a rollback needs them, and without a link they are not used.
KEPT = frozenset(("tree", "program"))


@dataclass(frozen=True)
class Orphan:
    """An item of the journal that no component contains. Applying it restores its original state."""

    kind: ClassVar[str] = "orphan"
    content_addressed: ClassVar[bool] = False

    entry: Entry
    vault: Vault
    change: Change
    drift: Drift = Drift.REPAIR
    left: list[str] = field(default_factory=list, compare=False)  # what `apply` could not remove, and why

    @property
    def name(self) -> str:
        """The item's own name."""
        return self.entry.name

    @property
    def key(self) -> str:
        """The item's key in the journal."""
        return self.entry.key

    @property
    def is_unit(self) -> bool:
        """Whether it is a unit that this collection started, and that is stopped now."""
        return self.entry.kind == "unit"

    @property
    def mark(self) -> str:
        """Its original state."""
        return self.entry.was

    @property
    def restarts(self) -> tuple[str, ...]:
        """Units that read it restart; a unit itself is only stopped."""
        return () if self.is_unit else self.entry.restarts

    def observe(self, host: Host) -> str:
        """Its present state."""
        return KINDS[self.entry.kind].mark_now(host, self.name)

    def difference(self, seen: str) -> Change | None:
        """Any state but the original one."""
        return None if seen == self.mark else self.change

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Its present state, for a rollback; with the item's kind, which `restore` needs."""
        return {**NAMED[self.entry.kind](self.name).capture(host, vault), "kind": self.entry.kind}

    def apply(self, host: Host) -> None:
        """Restore the original state; a directory is removed only if it is empty."""
        origin = {**self.entry.origin, "ours": False}
        self.left[:] = KINDS[self.entry.kind].restore(host, self.name, origin, self.vault)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Roll back. A unit is started by the engine, after its files are restored and reloaded."""
        if origin["kind"] == "directory":
            host.make_directory(name, origin["mode"], uid=origin["uid"], gid=origin["gid"])
            return []
        return [] if origin["kind"] == "unit" else KINDS[origin["kind"]].restore(host, name, origin, vault)


@dataclass(frozen=True)
class Orphans:
    """All items that are no longer in the configuration, by what happens to them."""

    found: tuple[Orphan, ...] = ()  # to be restored, in this order
    left: tuple[str, ...] = ()  # changed outside this collection, or of an unknown kind: not touched
    settled: tuple[str, ...] = ()  # keys of those that have their original state again


def find_orphans(
    host: Host, journal: Journal, wanted: Iterable[Resource], components: frozenset[str]
) -> Orphans:
    """Search the journal, backwards, for items that only these components contained, and no longer do."""
    if not components:
        return Orphans()
    resources = list(wanted)
    keys, names = {key_of(resource) for resource in resources}, {resource.name for resource in resources}
    found, left, settled = [], [], []
    going: set[str] = set()
    for entry in reversed(journal.entries()):
        if entry.key in keys or entry.name in names or entry.kind in KEPT:
            continue
        if not entry.of or not entry.of <= components:  # of other components, or of unknown ones
            continue
        if entry.kind not in KINDS:  # of a newer version
            left.append(f"{entry.key}: this version does not know how to restore it")
            continue
        now = KINDS[entry.kind].mark_now(host, entry.name)
        if entry.kind == "directory" and (now != "absent" or entry.was != "absent"):
            inside = {f"{entry.name}/{name}" for name in host.names(entry.name)}
            if now != "directory" or entry.was != "absent" or inside - going:
                continue  # it existed before, or is not empty: kept until unbootstrap
        elif now == entry.was:
            settled.append(entry.key)
            continue
        elif now not in entry.marks:
            left.append(f"{entry.key}: no longer in the configuration, but changed outside this collection")
            continue
        found.append(Orphan(entry, journal, _change(host, entry)))
        if entry.origin.get("is") == "absent":
            going.add(entry.name)
    return Orphans(tuple(found), tuple(left), tuple(settled))


def _change(host: Host, entry: Entry) -> Change:
    """The change in words, and the content that is removed."""
    verb = "stop" if entry.kind == "unit" else "remove" if entry.origin.get("is") == "absent" else "restore"
    before, state = "", host.stat(entry.name) if entry.name.startswith("/") else None
    if state and state.is_ == "file":
        hidden = not state.mode & 0o004  # what only root may read is not shown
        content = HIDDEN + "\n" if hidden else host.text(entry.name)
        before = f"mode {state.mode:04o}, owner {state.uid}:{state.gid}\n{content}"
    elif state and state.is_ == "link":
        before = f"link to {state.target}\n"
    after = "" if verb == "remove" else "stopped\n" if verb == "stop" else "its original state\n"
    what = f"directory {entry.name}" if entry.kind == "directory" else entry.name
    return Change(f"{verb} {what} (no longer in the configuration)", before, after)
