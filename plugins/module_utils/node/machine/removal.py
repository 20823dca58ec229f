# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a directory tree without following a link or entering a mount.

Pods can create trees of any depth, deeper than a path can be long. So the walk does not recurse, opens each
directory from the one above or below it, and has at most three of them open.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from ..dataclass import dataclass

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# These concern one file: it is a mount point, or immutable. The rest of the tree can still be removed.
STAYS = (errno.EBUSY, errno.EPERM)


def empty_directory(
    directory: int, path: str, mounted: frozenset[str], keep: frozenset[str], kept: list[str]
) -> None:
    """Remove the content of an open directory; paths that could not be removed are added to `kept`.

    `mounted` are mount points below `path`. `keep` are paths that are kept without being reported.
    """
    walk = Walk(directory, path, mounted, keep)
    try:
        while walk.levels:
            here = walk.levels[-1]
            if not here.todo:
                walk.up()
                # Not empty: what remains in it is in `kept` already, or in `keep`.
                stays = bool(walk.levels) and not removed(os.rmdir, here.name, walk.directory)
                name = here.name
            else:
                name, is_directory = here.todo.pop()
                if name in here.keep:
                    continue
                if name in here.mounted:
                    stays = True
                elif is_directory:
                    stays = not walk.down(name)
                else:
                    stays = not removed(os.unlink, name, walk.directory)
            if stays:
                kept.append(walk.path(name))
    finally:
        os.close(walk.directory)


@dataclass(frozen=True)
class Level:
    """A directory on the way down. `mounted` and `keep` are paths relative to it."""

    name: str  # in the directory above; of the first one the whole path
    identity: tuple[int, int]
    todo: list[tuple[str, bool]]  # what is still in it: names, and whether they are directories
    mounted: frozenset[str]
    keep: frozenset[str]


class Walk:
    """The way from the first directory down to the one that is open."""

    def __init__(self, directory: int, path: str, mounted: frozenset[str], keep: frozenset[str]) -> None:
        self.directory = os.dup(directory)
        self._mount = mount_of(directory)
        self.levels: list[Level] = []
        self._arrive(path, below(mounted, path), below(keep, path))

    def down(self, name: str) -> bool:
        """Enter a directory; False: something is mounted there."""
        here = self.levels[-1]
        child = os.open(name, DIRECTORY, dir_fd=self.directory)
        if mount_of(child) != self._mount:
            os.close(child)
            return False
        self._switch(child)
        self._arrive(name, below(here.mounted, name), below(here.keep, name))
        return True

    def up(self) -> None:
        """Back to the directory above, if there is one."""
        self.levels.pop()
        if self.levels:
            self._switch(os.open("..", DIRECTORY, dir_fd=self.directory))
            if identity(self.directory) != self.levels[-1].identity:
                raise OSError(errno.ESTALE, "a directory was moved while its content was removed")

    def path(self, name: str) -> str:
        """The path of a name in the open directory, to be shown: in any encoding, also an unknown one."""
        path = "/".join((*(level.name for level in self.levels), name))
        return os.fsencode(path).decode(errors="backslashreplace")

    def _arrive(self, name: str, mounted: frozenset[str], keep: frozenset[str]) -> None:
        with os.scandir(self.directory) as entries:
            todo = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        self.levels.append(Level(name, identity(self.directory), todo, mounted, keep))

    def _switch(self, directory: int) -> None:
        os.close(self.directory)
        self.directory = directory


def mount_of(directory: int) -> tuple[int, str]:
    """The file system and the mount that an open directory belongs to, as the kernel knows them.

    A directory that is mounted a second time (a bind mount) is on the same file system, and its name may be
    another one than ours: by a link in a directory above, or in an encoding that is not ours.
    """
    try:
        with open(f"/proc/self/fdinfo/{directory}", encoding="ascii") as file:
            mount = next((line for line in file if line.startswith("mnt_id:")), "")
    except FileNotFoundError:  # no /proc: the names of mounts are not known either
        mount = ""
    return os.fstat(directory).st_dev, mount


def identity(directory: int) -> tuple[int, int]:
    """Device and inode: the same means the same directory."""
    seen = os.fstat(directory)
    return seen.st_dev, seen.st_ino


def below(paths: frozenset[str], name: str) -> frozenset[str]:
    """The paths below a directory, relative to it."""
    start = f"{name}/"
    return frozenset(path[len(start) :] for path in paths if path.startswith(start))


def removed(remove: Callable[..., None], name: str, directory: int) -> bool:
    """Remove a name in a directory; False: it must stay, and is to be reported."""
    try:
        remove(name, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in STAYS:
            return False
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    return True
