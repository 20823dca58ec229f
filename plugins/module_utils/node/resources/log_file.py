# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log file of this program: created with the node, rotated by this program, removed with the node."""

from __future__ import annotations

import posixpath
from typing import ClassVar

from ..dataclass import dataclass
from ..machine.host import Host, PathState
from .base import Change, Drift, Origin, Vault
from .paths import access, capture_path, path_mark, restore_path

MODE = 0o640
LARGEST = 1 << 20  # bytes of one file
FILES = 5  # with the present one
HEADER = b"# What aks-flex-node did on this machine. Rotated by itself, removed by unbootstrap.\n"


@dataclass(frozen=True)
class LogFile:
    """A file to which runs append. Its header tells it from a log of another program with the same name."""

    kind: ClassVar[str] = "log"
    content_addressed: ClassVar[bool] = False

    path: str
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """Only that it is ours: its content grows."""
        return "log"

    def observe(self, host: Host) -> tuple[PathState, str]:
        """The present state, and whether it is ours."""
        return host.stat(self.path), self.mark_now(host, self.path)

    def difference(self, seen: tuple[PathState, str]) -> Change | None:
        """It is missing, is not ours, or has another mode or owner."""
        state, mark = seen
        if mark == self.mark and access(state) == (MODE, 0, 0):
            return None
        verb = "create" if state.absent else "replace" if mark != self.mark else "set mode of"
        return Change(f"{verb} {self.path}", "", f"mode {MODE:04o}, owner 0:0\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """What exists at this path, byte for byte."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """Create it, or set its access."""
        if self.mark_now(host, self.path) == self.mark:
            host.set_access(self.path, MODE, 0, 0)
        else:
            host.write(self.path, HEADER, MODE)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """`log` if it is ours."""
        return "log" if is_ours(host, name) else path_mark(host, name)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it with its older files, and restore what was here."""
        for older in rotated(host, name):
            host.remove(older)
        return restore_path(host, name, origin, vault)


def is_ours(host: Host, path: str) -> bool:
    """Whether a log file was begun by this program."""
    if host.stat(path).is_ != "file":
        return False
    with open(host.path(path), "rb") as file:
        return file.read(len(HEADER)) == HEADER


def rotated(host: Host, path: str) -> list[str]:
    """Older files of a log, the newest first; those of other programs are not listed."""
    names = {f"{path}.{number}" for number in range(1, FILES)}
    there = {f"{posixpath.dirname(path)}/{name}" for name in host.names(posixpath.dirname(path))}
    return sorted(name for name in names & there if is_ours(host, name))


def rotate(host: Host, path: str) -> None:
    """Begin a new file if the present one is full: agent.log -> agent.log.1 -> ... -> agent.log.4."""
    if host.stat(path).size < LARGEST:
        return
    places = [path, *(f"{path}.{number}" for number in range(1, FILES))]
    if all(host.stat(place).absent or is_ours(host, place) for place in places[1:]):
        for older, newer in zip(places[:0:-1], places[-2::-1], strict=True):
            if not host.stat(newer).absent:
                host.move(newer, older)
    host.write(path, HEADER, MODE, durable=False)
