# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal: the original state of every item. Read backwards, it restores the machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from ...dataclass import dataclass, field
from ...errors import StateCorrupt
from ...machine.host import Host
from ...resources.base import Origin, Resource, key_of
from .schema import SCHEMA, SCHEMA_KEY, check_schema, stamped


@dataclass()
class Entry:
    """One item: its origin, the mark of that state, and the mark of every state that was applied since."""

    kind: str
    name: str
    origin: Origin
    was: str
    marks: list[str] = field(default_factory=list)
    of: set[str] = field(default_factory=set)  # components that contain it, or contained it
    restarts: tuple[str, ...] = ()  # units that read it

    @property
    def key(self) -> str:
        """The item's identity."""
        return f"{self.kind}:{self.name}"


class Journal:
    """Lines of JSON, appended and synced before anything is changed; contents of replaced files beside it.

    A crash can only tear the last line, and its change has then not begun: a torn last line is dropped.
    """

    def __init__(self, host: Host, directory: str) -> None:
        self._host = host
        self._directory = directory
        self._lines = f"{directory}/journal"
        self._contents = f"{directory}/origins"
        self._parsed: tuple[bytes, list[Entry]] = (b"", [])  # what was read last: a run reads it ten times

    def entries(self) -> list[Entry]:
        """Every item that was ever changed, in the order of the first change. They are only read."""
        content = self._host.read(self._lines) or b""
        if content != self._parsed[0]:
            self._parsed = (content, self._parse(content))
        return list(self._parsed[1])

    def _parse(self, content: bytes) -> list[Entry]:
        """What all lines say."""
        entries: dict[str, Entry] = {}
        # What follows the last end of line is torn, even if it is valid JSON: its change has not begun.
        for number, line in enumerate(content.split(b"\n")[:-1], 1):
            try:
                self._read_line(entries, line.decode())  # of bytes, json finds out the encoding each time
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise StateCorrupt(
                    "the undo journal can't be read",
                    where=f"{self._lines}, line {number}",
                    why=f"it lacks {error}" if isinstance(error, KeyError) else str(error),
                    fix="do not delete it, restore it from a backup: unbootstrap needs it to undo changes",
                ) from error
        return list(entries.values())

    def _read_line(self, entries: dict[str, Entry], line: str) -> None:
        """Add what one line says to the entries before it."""
        record = json.loads(line)
        if SCHEMA_KEY in record:
            check_schema(record, self._lines)
            return
        key = record["key"]
        kind, _colon, name = key.partition(":")
        if record.get("released"):
            entries.pop(key, None)
            return
        if "origin" in record:
            entries.setdefault(key, Entry(kind, name, dict(record["origin"]), record["was"]))
        if key not in entries:
            raise ValueError(f"the origin of {key} is lost")  # an earlier line had it
        entry = entries[key]
        if record["mark"] not in entry.marks:
            entry.marks.append(record["mark"])
        entry.of.update(record.get("of", ()))
        entry.restarts = tuple(record.get("restarts", ()))

    def record(
        self, resources: Iterable[Resource], owners: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """Record the origin of each item that is changed for the first time, and its next mark."""
        known = {entry.key: entry for entry in self.entries()}
        lines = []
        for resource in resources:
            key = key_of(resource)
            of = (owners or {}).get(key, frozenset())
            line: dict[str, object] = {"key": key, "mark": resource.mark}
            if of:
                line["of"] = sorted(of)
            if resource.restarts:
                line["restarts"] = resource.restarts
            if key not in known:
                line["was"] = resource.mark_now(self._host, resource.name)
                line["origin"] = resource.capture(self._host, self)
            elif resource.mark in known[key].marks and of <= known[key].of:
                continue
            lines.append(json.dumps(line, sort_keys=True))
        self._append(lines)

    def release(self, keys: Iterable[str]) -> None:
        """Remove items that have their original state again; the next change records a new origin."""
        self._append([json.dumps({"key": key, "released": True}) for key in keys])

    def disown(self, entry: Entry) -> None:
        """An item that no component contains any more, and that can't be restored now: unbootstrap tries."""
        line = {"key": entry.key, "was": entry.was, "origin": entry.origin}
        marks = [json.dumps({**line, "mark": mark}, sort_keys=True) for mark in entry.marks]
        self._append([json.dumps({"key": entry.key, "released": True}), *marks])

    def _append(self, lines: list[str]) -> None:
        if lines:
            self._host.make_directories(self._directory, 0o700)
            self._drop_torn_line()
            if not self._is_stamped():
                lines = [json.dumps(stamped({}), sort_keys=True), *lines]
            self._host.append(self._lines, "".join(f"{line}\n" for line in lines).encode())

    def keep(self, content: bytes) -> str:
        """Keep the content of a file that is about to be replaced."""
        digest = hashlib.sha256(content).hexdigest()
        place = f"{self._contents}/{digest}"
        if self._host.stat(place).absent:
            self._host.make_directories(self._contents, 0o700)
            self._host.write(place, content, 0o600)
        return digest

    def kept(self, digest: str) -> bytes:
        """Content that was kept; missing or damaged content is an error."""
        content = self._host.read(f"{self._contents}/{digest}")
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            raise StateCorrupt(
                "the original content of a replaced file is lost or damaged",
                where=f"{self._contents}/{digest}",
                why="it is missing" if content is None else "its digest differs",
                fix="restore the file by hand, then run this again",
            )
        return content

    def _is_stamped(self) -> bool:
        """Whether the journal says that it has this schema; a journal of an older one is stamped by us."""
        lines = (self._host.read(self._lines) or b"").splitlines()
        return any(
            SCHEMA_KEY.encode() in line and json.loads(line).get(SCHEMA_KEY) == SCHEMA for line in lines
        )

    def _drop_torn_line(self) -> None:
        """Remove a torn last line, so that the next line is not appended to it."""
        content = self._host.read(self._lines) or b""
        if content and not content.endswith(b"\n"):
            complete = content[: content.rfind(b"\n") + 1]
            self._host.write(self._lines, complete, 0o600)
