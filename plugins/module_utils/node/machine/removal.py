# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a directory tree without following a link or crossing into another file system."""

from __future__ import annotations

import contextlib
import os


def empty_directory(
    directory: int, path: str, mounted: frozenset[str], keep: frozenset[str], kept: list[str]
) -> None:
    """Remove the content of an open directory; paths that could not be removed are added to `kept`.

    `mounted` are mount points below `path`. `keep` are paths that are kept without being reported.
    """
    device = os.fstat(directory).st_dev
    with os.scandir(directory) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        below = f"{path}/{name}"
        if below in keep:
            continue
        if below in mounted:
            kept.append(below)
        elif not is_directory:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
        else:
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                if os.fstat(child).st_dev != device:
                    kept.append(below)
                    continue
                empty_directory(child, below, mounted, keep, kept)
            finally:
                os.close(child)
            with contextlib.suppress(OSError):  # not empty: what remains below is in `kept`
                os.rmdir(name, dir_fd=directory)
