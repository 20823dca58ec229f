# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Swap in fstab, which is turned on at boot."""

from __future__ import annotations

import re
from typing import ClassVar

from ...dataclass import dataclass
from ...errors import ForeignPath
from ...machine.host import Host
from ...machine.links import real_path
from ..base import Change, Drift, Origin, Vault
from ..paths import capture_path, path_mark, restore_path

FSTAB = "/etc/fstab"
FSTAB_NOTE = "# off for Kubernetes (aks-flex-node): "
SWAP_LINE = re.compile(r"^\s*[^#\s]\S*\s+\S+\s+swap(\s|$)")


@dataclass(frozen=True)
class FstabSwap:
    """No swap in fstab: swap lines are commented out with a note, all other lines stay."""

    kind: ClassVar[str] = "fstab"
    content_addressed: ClassVar[bool] = False
    name: ClassVar[str] = FSTAB
    mark: ClassVar[str] = "no swap"

    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    def observe(self, host: Host) -> str:
        """The table as it is; a table that needs a change, but must not be written, is an error."""
        table = host.text(FSTAB)
        if without_swap(table) != table:
            table_file(host)
        return table

    def difference(self, seen: str) -> Change | None:
        """Any swap line that is not a comment is a difference. Other lines may contain passwords."""
        swap = "".join(line for line in seen.splitlines(keepends=True) if SWAP_LINE.match(line))
        return Change(f"comment out swap in {FSTAB}", swap, without_swap(swap)) if swap else None

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The whole file, so that an otherwise unchanged one can be restored byte for byte."""
        place = table_file(host)
        return {**capture_path(host, place, vault), "real": place}

    def apply(self, host: Host) -> None:
        """Comment the lines out, keep mode and owner."""
        place = table_file(host)
        _write(host, place, without_swap(_text(host.read(place) or b"")))

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether swap lines are commented out."""
        table = host.text(name)
        return cls.mark if without_swap(table) == table else path_mark(host, real_path(host, name))

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Byte for byte if nothing else changed; otherwise only remove the notes from the present text."""
        place = table_file(host)
        before = _text(vault.kept(origin["content"]))
        now = _text(host.read(place) or b"")
        if now == without_swap(before) and place == origin.get("real", FSTAB):
            return restore_path(host, place, origin, vault)
        _write(host, place, now.replace(FSTAB_NOTE, ""))
        return []


def table_file(host: Host) -> str:
    """The file itself: if /etc/fstab is a link, the link stays, and the file behind it is written."""
    if host.stat(FSTAB).is_ != "link":
        return FSTAB
    place = real_path(host, FSTAB)
    state = host.stat(place)
    if state.is_ != "file" or state.uid != 0:
        raise ForeignPath(
            what=f"{FSTAB} is a link to something that is not changed",
            where=place,
            why=f"it is a {state.is_}" if state.is_ != "file" else "root does not own it",
            fix=f"turn swap off in it by hand, or replace {FSTAB} by a file",
        )
    return place


def without_swap(table: str) -> str:
    """An fstab whose swap lines are comments that say why."""
    return "".join(
        FSTAB_NOTE + line if SWAP_LINE.match(line) else line for line in table.splitlines(keepends=True)
    )


def _text(content: bytes) -> str:
    """A table of any encoding as text that encodes to the same bytes."""
    return content.decode(errors="surrogateescape")


def _write(host: Host, place: str, table: str) -> None:
    """Write the table atomically, with the mode and owner that it has."""
    state = host.stat(place)
    content = table.encode(errors="surrogateescape")
    host.write(place, content, state.mode, uid=state.uid, gid=state.gid)
