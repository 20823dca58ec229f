# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a configuration asked for once and asks for no more: it gets the state back that it had before us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ..machine.host import Host
from ..resources.base import HIDDEN, Change, Drift, Origin, Resource, Vault, key_of
from ..resources.kinds import KINDS, NAMED
from .journal import Entry, Journal

# Other versions stay: a rollback needs them, and without a link to them they are inert.
KEPT = frozenset(("tree", "program"))


@dataclass(frozen=True, slots=True)
class Orphan:
    """An item of the journal that nothing asks for. To apply it is to give back what was there before us."""

    kind: ClassVar[str] = "orphan"

    entry: Entry
    vault: Vault
    change: Change
    drift: Drift = Drift.REPAIR

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
        """A unit that we started, and that is stopped now."""
        return self.entry.kind == "unit"

    @property
    def mark(self) -> str:
        """How it was before us."""
        return self.entry.was

    @property
    def restarts(self) -> tuple[str, ...]:
        """Who read it must notice that it is gone; a unit itself is just stopped."""
        return () if self.is_unit else self.entry.restarts

    def observe(self, host: Host) -> str:
        """How it is now."""
        return KINDS[self.entry.kind].mark_now(host, self.name)

    def difference(self, seen: str) -> Change | None:
        """Anything but what was there before us."""
        return None if seen == self.mark else self.change

    def capture(self, host: Host, vault: Vault) -> Origin:
        """How it is now, in case all is rolled back; with its kind, which only this one item knows."""
        return {**NAMED[self.entry.kind](self.name).capture(host, vault), "kind": self.entry.kind}

    def apply(self, host: Host) -> None:
        """Give it back; a directory goes only if it is empty."""
        KINDS[self.entry.kind].restore(host, self.name, {**self.entry.origin, "ours": False}, self.vault)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """It was wanted after all. A unit is started by the engine, when its files are back and known."""
        if origin["kind"] == "directory":
            host.make_directory(name, origin["mode"], uid=origin["uid"], gid=origin["gid"])
            return []
        return [] if origin["kind"] == "unit" else KINDS[origin["kind"]].restore(host, name, origin, vault)


@dataclass(frozen=True, slots=True)
class Orphans:
    """What became of all that nothing asks for any more."""

    found: tuple[Orphan, ...] = ()  # to be given back, in this order
    left: tuple[str, ...] = ()  # changed by someone after us: theirs now
    settled: tuple[str, ...] = ()  # keys of those that are again as they were


def find_orphans(
    host: Host, journal: Journal, wanted: Iterable[Resource], components: frozenset[str]
) -> Orphans:
    """Go through the journal, backwards, for items that only these components asked for, and do no more."""
    if not components:
        return Orphans()
    resources = list(wanted)
    keys, names = {key_of(resource) for resource in resources}, {resource.name for resource in resources}
    found, left, settled = [], [], []
    going: set[str] = set()
    for entry in reversed(journal.entries()):
        if entry.key in keys or entry.name in names or entry.kind in KEPT:
            continue
        if not entry.of or not entry.of <= components:  # someone else's, or nobody knows whose
            continue
        now = KINDS[entry.kind].mark_now(host, entry.name)
        if entry.kind == "directory" and (now != "absent" or entry.was != "absent"):
            inside = {f"{entry.name}/{name}" for name in host.names(entry.name)}
            if now != "directory" or entry.was != "absent" or inside - going:
                continue  # it was there before us, or what is in it keeps it: until the machine is given back
        elif now == entry.was:
            settled.append(entry.key)
            continue
        elif now not in entry.marks:
            left.append(f"{entry.key}: nothing asks for it any more, but someone changed it after us")
            continue
        found.append(Orphan(entry, journal, _change(host, entry)))
        if entry.origin.get("is") == "absent":
            going.add(entry.name)
    return Orphans(tuple(found), tuple(left), tuple(settled))


def _change(host: Host, entry: Entry) -> Change:
    """In words, and what is lost."""
    verb = "stop" if entry.kind == "unit" else "remove" if entry.origin.get("is") == "absent" else "restore"
    before, state = "", host.look(entry.name) if entry.name.startswith("/") else None
    if state and state.is_ == "file":
        hidden = not state.mode & 0o004  # what only root may read is not for a screen
        content = HIDDEN + "\n" if hidden else host.text(entry.name)
        before = f"mode {state.mode:04o}, owner {state.uid}:{state.gid}\n{content}"
    elif state and state.is_ == "link":
        before = f"link to {state.target}\n"
    after = "" if verb == "remove" else "stopped\n" if verb == "stop" else "as it was before us\n"
    what = f"directory {entry.name}" if entry.kind == "directory" else entry.name
    return Change(f"{verb} {what} (nothing asks for it any more)", before, after)
