# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine: the only class through which commands run and files are written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

from ..dataclass import dataclass
from ..errors import CommandFailed, NotRoot
from .clock import Clock, SystemClock
from .disk import copy, discard, explained, free_space, sync_below, sync_names

if TYPE_CHECKING:
    from .command import Completed, Runner

CHUNK = 1 << 20
Asker = Callable[[str], Optional[str]]  # noqa: UP045 - the answer of a local socket; only tests replace it
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}")  # as `_beside` names them


@dataclass(frozen=True)
class PathState:
    """What exists at a path; links are not followed."""

    is_: str  # absent | file | link | directory | other
    mode: int = 0
    uid: int = 0
    gid: int = 0
    size: int = 0
    target: str = ""
    fingerprint: tuple[int, int, int, int] = (0, 0, 0, 0)  # inode, size, mtime, ctime: same means unchanged

    @property
    def absent(self) -> bool:
        """Nothing exists at the path."""
        return self.is_ == "absent"


ABSENT = PathState("absent")


class Host:
    """A machine below `root`. Tests pass a temporary root with real files, and fake only the commands."""

    def __init__(
        self,
        root: str = "/",
        runner: Runner | None = None,
        clock: Clock | None = None,
        asker: Asker | None = None,
    ) -> None:
        self._root = root.rstrip("/")
        self._runner, self.asker = runner, asker
        self.clock: Clock = clock or SystemClock()

    # -- commands ------------------------------------------------------------------------------------------

    def run(
        self, argv: Sequence[str], *, data: bytes | None = None, timeout: float = 60, check: bool = True
    ) -> Completed:
        """Run a command; with `check`, a failure is an error that quotes its output."""
        if self._runner is None:
            from .command import run_command  # loaded with the first command: most polls run none

            self._runner = run_command
        done = self._runner(argv, data, timeout)
        if check and done.status != 0:
            output = (done.stderr or done.stdout).strip().splitlines()
            raise CommandFailed(
                what=f"{argv[0]} failed with status {done.status}",
                where=" ".join(argv),
                why=" / ".join(output[-3:]) or "it printed no reason",
                fix="run the command by hand to see more, fix the cause, then run this again",
            )
        return done

    # -- reading -------------------------------------------------------------------------------------------

    def path(self, path: str) -> str:
        """The real path of `path` below the root."""
        return self._root + path

    def stat(self, path: str) -> PathState:
        """What exists at `path`; links are not followed."""
        target = ""
        try:
            seen = os.lstat(self.path(path))
            if stat.S_ISLNK(seen.st_mode):
                target = os.readlink(self.path(path))
        except (FileNotFoundError, NotADirectoryError):  # also a process that ended: its links lead nowhere
            return ABSENT
        if stat.S_ISLNK(seen.st_mode):
            is_ = "link"
        elif stat.S_ISREG(seen.st_mode):
            is_ = "file"
        elif stat.S_ISDIR(seen.st_mode):
            is_ = "directory"
        else:
            is_ = "other"
        return PathState(
            is_,
            stat.S_IMODE(seen.st_mode),
            seen.st_uid,
            seen.st_gid,
            seen.st_size,
            target,
            (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns),
        )

    def exists(self, path: str) -> bool:
        """Whether anything exists at `path`; links are followed."""
        return os.path.exists(self.path(path))

    def read(self, path: str) -> bytes | None:
        """The content of a file; None: it does not exist."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def text(self, path: str) -> str:
        """The content of a small text file; empty if it does not exist."""
        return (self.read(path) or b"").decode(errors="replace")

    def names(self, path: str) -> tuple[str, ...]:
        """Names in a directory, sorted; empty if it does not exist."""
        try:
            return tuple(sorted(os.listdir(self.path(path))))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def leftovers(self, directory: str) -> dict[str, str]:
        """Temporary files that a killed process left in a directory, each with its final name."""
        return {name: match[1] for name in self.names(directory) if (match := TEMPORARY.fullmatch(name))}

    def sha256(self, path: str) -> str:
        """The sha256 of a file, read in chunks."""
        digest = hashlib.sha256()
        with open(self.path(path), "rb") as file:
            while block := file.read(CHUNK):
                digest.update(block)
        return digest.hexdigest()

    def mounts_below(self, path: str) -> tuple[str, ...]:
        """Mount points at or under `path`, deepest first."""
        lines = os.fsdecode(self.read("/proc/self/mountinfo") or b"").split("\n")
        every = (unescaped(line.split(" ")[4]) for line in lines if line)
        points = [point for point in every if f"{point}/".startswith(f"{path.rstrip('/')}/")]
        return tuple(sorted(points, key=lambda point: (-point.count("/"), point)))

    def free_space(self, path: str) -> tuple[int, int]:
        """The file system that `path` is on or will be on (its device number), and its free bytes."""
        with explained(path):
            return free_space(self.path(path))

    def may_lower_oom_score(self) -> bool:
        """Whether the OOM score of a process may be lowered; in some containers it may not."""
        path = self.path("/proc/self/oom_score_adj")
        try:
            with open(path, "r+", encoding="ascii") as file:
                score = int(file.read())
                file.seek(0)
                file.write(str(score - 1))
                file.flush()
                file.seek(0)
                file.write(str(score))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    # -- writing ------------------------------------------------------------------------------------------

    def write(
        self,
        path: str,
        content: bytes,
        mode: int,
        *,
        uid: int = 0,
        gid: int = 0,
        mtime_ns: int | None = None,
        durable: bool = True,
    ) -> None:
        """Write a file atomically: readers see the old or the new content, never a part.

        With `durable`, content and name are on the disk when this returns.
        """
        with explained(path), self._beside(path) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchown(descriptor, uid, gid)
                os.fchmod(descriptor, mode)
                if mtime_ns is not None:
                    os.utime(descriptor, ns=(mtime_ns, mtime_ns))  # before the sync, or power takes it
                if durable:
                    os.fsync(descriptor)
            os.replace(temporary, self.path(path))
            if durable:
                sync_names(os.path.dirname(self.path(path)))

    def append(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Append to a file that only root can read; with `durable`, sync it, and a new one is never empty."""
        if durable and not os.path.lexists(self.path(path)):
            self.write(path, content, 0o600)
            return
        with explained(path):
            descriptor = os.open(
                self.path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
            )
            with open(descriptor, "ab") as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(descriptor)

    def set_value(self, path: str, value: str) -> None:
        """Write a kernel file such as /proc/sys/..., which can only be written in place."""
        with explained(path), open(self.path(path), "w", encoding="ascii") as file:
            file.write(value)

    def link(self, path: str, target: str) -> None:
        """Create or replace a link atomically."""
        with explained(path), self._beside(path) as temporary:
            os.symlink(target, temporary)
            os.replace(temporary, self.path(path))

    def make_directory(self, path: str, mode: int = 0o755, *, uid: int = 0, gid: int = 0) -> None:
        """Create a directory with exactly this mode and owner."""
        with explained(path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path(path), mode)
            self.set_access(path, mode, uid, gid)

    def make_directories(self, path: str, mode: int = 0o755) -> None:
        """Create a directory with this mode and its missing parents with 0755, whatever the umask is."""
        if not os.path.isdir(self.path(path)):
            if (above := os.path.dirname(path)) != path:
                self.make_directories(above)
            with explained(path), contextlib.suppress(FileExistsError):  # another thread may be faster
                os.mkdir(self.path(path), mode)
                os.chmod(self.path(path), mode)

    def set_access(self, path: str, mode: int, uid: int, gid: int) -> None:
        """Set mode and owner of a file or directory; a link is refused."""
        with explained(path):
            descriptor = os.open(self.path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                os.fchown(descriptor, uid, gid)
                os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)

    def move(self, source: str, target: str) -> None:
        """Rename a file or directory; across file systems, copy it to the target's directory first."""
        with explained(target):
            try:
                os.replace(self.path(source), self.path(target))
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                with self._beside(target) as temporary:
                    copy(self.path(source), temporary)
                    os.replace(temporary, self.path(target))
                self.remove_tree(source)

    def sync_directory(self, path: str) -> None:
        """Wait until the entries of a directory are on the disk: what was created or renamed in it."""
        with explained(path):
            sync_names(self.path(path))

    def sync_tree(self, path: str) -> None:
        """Wait until every file and directory below a directory is on the disk."""
        with explained(path):
            sync_below(self.path(path))

    def remove(self, path: str) -> None:
        """Remove a file or link, if it exists."""
        with explained(path), contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(path))

    def remove_directory(self, path: str) -> bool:
        """Remove an empty directory; False: it is not empty, or a mount point."""
        with explained(path):
            try:
                os.rmdir(self.path(path))
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EBUSY, errno.EEXIST):
                    return False
                raise
        return True

    def remove_tree(self, path: str, keep: frozenset[str] = frozenset()) -> list[str]:
        """Remove a directory without entering a mount or following a link; returns the paths that remain.

        `keep` lists paths below it that are kept with their content.
        """
        if self.stat(path).is_ != "directory":
            self.remove(path)
            return []
        from .removal import empty_directory  # not needed by a poll

        kept: list[str] = []
        mounted = frozenset(self.mounts_below(path))
        with explained(path):
            descriptor = os.open(self.path(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                empty_directory(descriptor, path, mounted, keep, kept)
            finally:
                os.close(descriptor)
        if path not in mounted:
            self.remove_directory(path)
        return kept

    @contextlib.contextmanager
    def _beside(self, path: str) -> Iterator[str]:
        """An unpredictable temporary name in the same directory; what is left there is always removed."""
        directory, name = os.path.split(self.path(path))
        temporary = os.path.join(directory, f".{name}.{os.urandom(6).hex()}")
        try:
            yield temporary
        finally:
            discard(temporary)


def unescaped(text: str) -> str:
    """A path from mountinfo, where spaces and the like are escaped in octal."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def require_root() -> None:
    """Refuse to run without root, before a PermissionError does."""
    if os.geteuid() != 0:
        raise NotRoot("root is needed", fix="use become: true, or sudo")
