# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The aks-flex-node program on the machine: a directory of source files, managed as one item."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

from ..dataclass import dataclass
from ..machine.host import Host
from ..machine.layout import SYSTEM_PYTHON
from .base import Change, Drift, Origin, Vault


@dataclass(frozen=True)
class Program:
    """Files that are installed together. The directory's name contains their digest."""

    kind: ClassVar[str] = "program"
    content_addressed: ClassVar[bool] = True

    directory: str
    files: Mapping[str, bytes]
    executable: str
    # The Python whose byte code is installed, too, such as 3.11; empty: none. What runs every 30 s in a
    # read-only sandbox can't store byte code, and would compile every time.
    compiled_for: str = ""
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @cached_property
    def path(self) -> str:
        """The directory of these files; all of them are read for it, so only once."""
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
        """Files that are missing or differ, in content or mode."""
        place = self.path
        wrong = [name for name in self.files if not self._intact(host, f"{place}/{name}", name)]
        # Python itself recognises byte code of another source, and does without it.
        uncompiled = [name for name in self._byte_code() if host.stat(f"{place}/{name}").is_ != "file"]
        return [*wrong, *uncompiled]

    def _byte_code(self) -> Iterator[str]:
        """Names of the compiled files."""
        if self.compiled_for:
            yield from (byte_code_of(name, self.compiled_for) for name in self.files if name.endswith(".py"))

    def _intact(self, host: Host, path: str, name: str) -> bool:
        seen = host.stat(path)
        return (seen.is_, seen.mode) == ("file", self._mode(name)) and host.read(path) == self.files[name]

    def _mode(self, name: str) -> int:
        return 0o755 if name == self.executable else 0o644

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
        """Install all files at once, or repair those that differ: the command is there at any moment."""
        if host.stat(self.path).is_ == "directory":
            self._repair(host)
        else:
            self._install(host)

    def _install(self, host: Host) -> None:
        """Write all files to a temporary directory, sync it, then rename it."""
        staging = f"{self.directory}/.staging"
        host.remove_tree(staging)
        for name, content in self.files.items():
            path = f"{staging}/{name}"
            host.make_directories(os.path.dirname(path))
            host.write(path, content, self._mode(name), durable=False)
        if self.compiled_for:
            self._compile(host, staging)
        host.sync_tree(staging)
        host.remove(self.path)  # something that is not a directory
        host.move(staging, self.path)
        host.sync_directory(self.directory)

    def _repair(self, host: Host) -> None:
        """Replace one file after the other, each atomically; what is in the way of one is removed."""
        place = self.path
        for name in self.observe(host):
            if name not in self.files:
                continue  # byte code: below, from files that are repaired
            directory = place
            for part in name.split("/")[:-1]:
                directory = f"{directory}/{part}"
                if host.stat(directory).is_ != "directory":
                    host.remove(directory)
                    host.make_directory(directory)
            host.remove_tree(f"{directory}/__pycache__")  # it may have been compiled from the damaged file
            if host.stat(f"{place}/{name}").is_ == "directory":
                host.remove_tree(f"{place}/{name}")
            host.write(f"{place}/{name}", self.files[name], self._mode(name))
        if self.compiled_for:
            self._compile(host, place)
            host.sync_tree(place)

    def _compile(self, host: Host, directory: str) -> None:
        """Compile the files in a directory, by the Python that will run them from where they are installed.

        Byte code is valid as long as its source has the same content: no time in it, so nothing that differs.
        """
        mode = ("--invalidation-mode", "checked-hash")
        host.run(
            [
                SYSTEM_PYTHON,
                "-I",
                "-m",
                "compileall",
                "-q",
                *mode,
                "-s",
                directory,
                "-p",
                self.path,
                directory,
            ]
        )

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether it exists."""
        return host.stat(name).is_

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it."""
        return host.remove_tree(name)


def byte_code_of(name: str, python: str) -> str:
    """The name that a Python gives to the byte code of a source file."""
    directory, _slash, file = name.rpartition("/")
    return f"{directory}/__pycache__/{file.removesuffix('.py')}.cpython-{python.replace('.', '')}.pyc"


def digest_of(files: Mapping[str, bytes]) -> str:
    """A short digest of these files."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]
