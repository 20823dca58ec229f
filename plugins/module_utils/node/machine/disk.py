# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk below a path: sync, copy, free space, and its errors in words. Paths here are real paths."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from ..errors import DiskFull, FileUnusable, ReadOnlyTarget

AT_ONCE = 8  # syncs that wait together share the writes of the file system: ten times faster for small files
FREE_SOME = (
    "free some space (df -h), or remove files if it has no inodes left (df -i), then run this again: it "
    "continues where it stopped"
)

REMOUNT = (
    "after an error of the disk (see `dmesg`) check the disk and reboot; or remount it writable (mount -o "
    "remount,rw), or choose another directory under `paths`"
)
UNLOCK = (
    "if it, or the directory above it, is immutable (`lsattr -d PATH` shows an i or an a), unlock it (chattr "
    "-i -a PATH), then run this again; or choose another directory under `paths`"
)


def sync_names(directory: str) -> None:
    """Wait until the entries of a directory are on the disk. It may be a link to a bigger disk."""
    sync(directory, os.O_DIRECTORY)


def sync(path: str, how: int = os.O_NOFOLLOW | os.O_NONBLOCK) -> None:
    """Wait until a file or directory is on the disk; of a directory, its entries. Links are refused."""
    descriptor = os.open(path, os.O_RDONLY | how)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems can't sync a directory
            raise
    finally:
        os.close(descriptor)


def sync_below(path: str) -> None:
    """The same for everything below a directory, and for the directory itself."""
    from concurrent.futures import ThreadPoolExecutor  # not needed by a poll

    files, directories = [], []
    for directory, _names, names in os.walk(path):
        directories.append(directory)
        places = (f"{directory}/{name}" for name in names)
        files += [place for place in places if not os.path.islink(place)]  # a link is part of its directory
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sync") as pool:
        for paths in (files, directories):
            for _done in pool.map(sync, paths):
                pass  # an error of a thread is raised here


def copy(source: str, target: str) -> None:
    """Copy a file, a link or a whole directory with modes and times; what is copied is on the disk."""
    import shutil  # only across file systems

    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True)
        sync_below(target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
        if not os.path.islink(target):
            sync(target)


def discard(path: str) -> None:
    """Remove a temporary file or directory, if it is still there."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def free_space(path: str) -> tuple[int, int]:
    """The file system of a path, by its device number, and its free bytes.

    A path that does not exist yet will be created on the file system of the nearest directory above.
    """
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    space = os.statvfs(path)
    return os.stat(path).st_dev, space.f_bavail * space.f_frsize


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an OSError about a path into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                what="no space left on the disk",
                where=path,
                why=f"the file system of {path} is full",
                fix=FREE_SOME,
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise ReadOnlyTarget(
                what="a file or directory can't be written",
                where=path,
                why=os.strerror(error.errno or 0),
                fix=UNLOCK if error.errno == errno.EPERM else REMOUNT,
            ) from error
        raise FileUnusable(
            "a file or directory can't be changed", where=path, why=error.strerror or str(error)
        ) from error
