# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The aks-flex-node program on the machine: a directory of source files, managed as one item."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..machine.host import Host
from .base import Change, Drift, Origin, Vault


@dataclass(frozen=True, slots=True)
class Program:
    """Files that are installed together. The directory's name contains their digest."""

    kind: ClassVar[str] = "program"

    directory: str
    files: Mapping[str, bytes]
    executable: str
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The directory of these files."""
        return f"{self.directory}/{digest_of(self.files)}"

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """Only that it exists: its name contains the digest."""
        return "directory"

    def observe(self, host: Host) -> list[str]:
        """Files that are missing or differ."""
        place = self.path  # computed from all files, so only once
        return [name for name, content in self.files.items() if host.read(f"{place}/{name}") != content]

    def difference(self, seen: list[str]) -> Change | None:
        """Any missing or changed file is a difference."""
        return (
            Change(f"install the aks-flex-node command in {self.path}", "", f"{self.path}\n")
            if seen
            else None
        )

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Always absent: the directory belongs to this collection."""
        return {"is": "absent"}

    def apply(self, host: Host) -> None:
        """Write all files to a temporary directory, then rename it."""
        staging = f"{self.directory}/.staging"
        host.remove_tree(staging)
        for name, content in self.files.items():
            path = f"{staging}/{name}"
            host.make_directories(path.rpartition("/")[0])
            host.write(path, content, 0o755 if name == self.executable else 0o644, durable=False)
        host.remove_tree(self.path)
        host.move(staging, self.path)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether it exists."""
        return host.stat(name).is_

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it."""
        return host.remove_tree(name)


def digest_of(files: Mapping[str, bytes]) -> str:
    """A short digest of these files."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]
