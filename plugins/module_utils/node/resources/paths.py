# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, links and directories."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar

from ..dataclass import dataclass
from ..errors import ForeignPath
from ..machine.host import Host, PathState
from ..machine.links import empty_behind, real_path
from .base import HIDDEN, Change, Drift, Origin, Vault


@dataclass(frozen=True)
class File:
    """A file that is managed as a whole: content, mode and owner."""

    kind: ClassVar[str] = "file"
    content_addressed: ClassVar[bool] = False

    path: str
    content: str
    mode: int = 0o644
    restarts: tuple[str, ...] = ()
    secret: bool = False
    drift: Drift = Drift.REPAIR
    masked: Callable[[str], str] | None = None  # the content without its secrets, to be shown

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """A digest of content, mode and owner."""
        return file_mark(self.mode, 0, 0, self.content.encode())

    def observe(self, host: Host) -> tuple[PathState, bytes | None]:
        """The present state, with the content."""
        state = host.stat(self.path)
        return state, host.read(self.path) if state.is_ == "file" else None

    def difference(self, seen: tuple[PathState, bytes | None]) -> Change | None:
        """Compare content, mode and owner."""
        state, content = seen
        if state.is_ == "file" and content == self.content.encode() and access(state) == (self.mode, 0, 0):
            return None
        verb = "create" if state.absent else "update" if content != self.content.encode() else "set mode of"
        return Change(
            f"{verb} {self.path}",
            self._shown(state, None if content is None else content.decode(errors="replace")),
            self._shown(PathState("file", self.mode), self.content),
        )

    def capture(self, host: Host, vault: Vault) -> Origin:
        """What exists at this path, byte for byte."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """Write the file atomically."""
        host.write(self.path, self.content.encode(), self.mode)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The present state, in the format of `mark`."""
        return path_mark(host, name)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Restore content, mode, owner and time."""
        return restore_path(host, name, origin, vault)

    def _shown(self, state: PathState, content: str | None) -> str:
        if state.absent:
            return ""
        if state.is_ == "link":
            return f"link to {state.target}\n"
        header = f"mode {state.mode:04o}, owner {state.uid}:{state.gid}\n"
        if self.masked:
            return header + self.masked(content or "")
        hidden = self.secret or not state.mode & 0o004  # what only root may read is not shown
        return header + (HIDDEN + "\n" if hidden else content or "")


@dataclass(frozen=True)
class Link:
    """A symbolic link: switches versions, enables or masks a unit."""

    kind: ClassVar[str] = "link"
    content_addressed: ClassVar[bool] = False

    path: str
    target: str
    restarts: tuple[str, ...] = ()
    drift: Drift = Drift.REPAIR

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """Where it points to."""
        return f"link:{self.target}"

    def observe(self, host: Host) -> PathState:
        """The present state."""
        return host.stat(self.path)

    def difference(self, seen: PathState) -> Change | None:
        """Compare where it points to."""
        if seen.is_ == "link" and seen.target == self.target:
            return None
        before = (
            "" if seen.absent else f"link to {seen.target}\n" if seen.is_ == "link" else f"a {seen.is_}\n"
        )
        verb = "link" if seen.absent else "switch"
        return Change(f"{verb} {self.path} to {self.target}", before, f"link to {self.target}\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """What exists at this path, byte for byte."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """One rename."""
        host.link(self.path, self.target)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The present state, in the format of `mark`."""
        return path_mark(host, name)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Restore what was here."""
        return restore_path(host, name, origin, vault)


@dataclass(frozen=True)
class Directory:
    """A directory; with `ours` its content is removed at unbootstrap.

    `mode` None leaves the mode to the software that uses it (containerd and the kubelet set their own);
    `created` is then the mode for a new directory.
    """

    kind: ClassVar[str] = "directory"
    content_addressed: ClassVar[bool] = False

    path: str
    mode: int | None = None
    ours: bool = False
    created: int = 0o755
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """Only that it exists: its content is not part of its state."""
        return "directory"

    def observe(self, host: Host) -> PathState:
        """The present state; a link to a directory (on a bigger disk) counts as a directory."""
        state = host.stat(self.path)
        if state.is_ == "link" and host.exists(self.path + "/."):
            return PathState("directory", self.mode or 0)
        return state

    def difference(self, seen: PathState) -> Change | None:
        """Compare existence, and mode and owner if they are managed."""
        wanted = self._mode()
        if seen.is_ == "directory" and (self.mode is None or access(seen) == (wanted, 0, 0)):
            return None
        before = "" if seen.absent else f"{seen.is_} {seen.mode:04o} {seen.uid}:{seen.gid}\n"
        verb = "create directory" if seen.absent else "set mode of"
        return Change(f"{verb} {self.path}", before, f"directory {wanted:04o} 0:0\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Existence, access, and the names that it contained originally; of a link, those behind it."""
        state = host.stat(self.path)
        origin: dict[str, Any] = {"is": state.is_, "ours": self.ours}
        if state.is_ == "directory":
            origin |= {"mode": state.mode, "uid": state.uid, "gid": state.gid}
        elif state.is_ == "link":
            origin["real"] = real_path(host, self.path) if host.exists(f"{self.path}/.") else ""
        return origin if state.absent else {**origin, "entries": host.names(self.path)}

    def apply(self, host: Host) -> None:
        """Create it, or set its access."""
        state = host.stat(self.path)
        if not state.absent and state.is_ != "directory":
            raise ForeignPath(
                what="a directory is needed here, but something else exists",
                where=self.path,
                why=f"it is a {state.is_}",
                fix="move it away, or choose another directory under `paths`",
            )
        host.make_directory(self.path, self._mode())

    def _mode(self) -> int:
        return self.created if self.mode is None else self.mode

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether it exists."""
        return host.stat(name).is_

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove its new content; keep what it contained originally, and mounts."""
        now, was = host.stat(name).is_, origin["is"]
        if now == "absent" or (now == was and now not in ("directory", "link")):
            return []  # removed meanwhile, or never created by this collection
        before = {f"{name}/{entry}" for entry in origin.get("entries", ())}
        keep = frozenset(before.union(origin.get("spared", ())))
        if now == was == "link":
            if not origin.get("ours") or origin.get("real") == "":  # or never a directory
                return []
            if origin.get("real") != real_path(host, name) or not host.exists(f"{name}/."):
                return [f"{name} (this link pointed elsewhere at the join)"]
            return empty_behind(host, name, keep)
        if now != "directory" or was == "link":
            return [f"{name} (replaced since the join)"]
        left = host.remove_tree(name, keep) if origin.get("ours") else []
        if was == "directory":
            host.set_access(name, origin["mode"], origin["uid"], origin["gid"])
        elif not host.remove_directory(name) and not left:
            left = [f"{name}/{entry}" for entry in host.names(name)]
        return left


def access(state: PathState) -> tuple[int, int, int]:
    """Mode and owner as one value."""
    return state.mode, state.uid, state.gid


def file_mark(mode: int, uid: int, gid: int, content: bytes) -> str:
    """A digest of a file's content, mode and owner."""
    return f"file:{mode:04o}:{uid}:{gid}:{hashlib.sha256(content).hexdigest()}"


def path_mark(host: Host, path: str) -> str:
    """The mark of what exists at a path."""
    state = host.stat(path)
    if state.is_ == "file":
        return f"file:{state.mode:04o}:{state.uid}:{state.gid}:{host.sha256(path)}"
    return f"link:{state.target}" if state.is_ == "link" else state.is_


def capture_path(host: Host, path: str, vault: Vault) -> Origin:
    """What exists at a path before it is replaced."""
    state = host.stat(path)
    if state.is_ == "file":
        content = host.read(path) or b""
        return {
            "is": "file",
            "mode": state.mode,
            "uid": state.uid,
            "gid": state.gid,
            "mtime_ns": state.fingerprint[2],
            "content": vault.keep(content),
        }
    if state.is_ == "link":
        return {"is": "link", "target": state.target}
    if not state.absent:
        raise ForeignPath(
            what="a file is needed here, but something else exists",
            where=path,
            why=f"it is a {state.is_}",
            fix="move it away, then run this again",
        )
    return {"is": "absent"}


def restore_path(host: Host, path: str, origin: Origin, vault: Vault) -> list[str]:
    """Restore what `capture_path` recorded."""
    if origin["is"] == "absent":
        host.remove(path)
    elif origin["is"] == "link":
        host.link(path, origin["target"])
    else:
        content = vault.kept(origin["content"])
        host.write(
            path, content, origin["mode"], uid=origin["uid"], gid=origin["gid"], mtime_ns=origin["mtime_ns"]
        )
    return []
