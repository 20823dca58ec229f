# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file systems that this collection changed, by the paths in its records."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...machine.host import Host
from .journal import Entry
from .state import Store

SYNC_SECONDS = 600.0
UNNAMED = ("/etc", "/usr", "/var/lib")  # a package changes these; the journal has only its name


def changed_paths(entries: Iterable[Entry], store: Store) -> list[str]:
    """Every path that may have been changed. Units, settings and the like are not named by a path."""
    named = [entry.name for entry in entries if entry.name.startswith("/")]
    return [*UNNAMED, *store.directories, *named]


def sync_places(host: Host, changed: Iterable[str]) -> None:
    """Wait until what was removed is removed on the disk: else a power cut would bring back half a node."""
    places = one_of_each(host, changed)  # looked for each time: what was a place may be removed by now
    host.run(["sync", "--file-system", "--", *places], timeout=SYNC_SECONDS, check=False)


def one_of_each(host: Host, paths: Iterable[str]) -> list[str]:
    """One directory that exists on each file system on which these paths are, or were."""
    # The directory above as well: a mount point, or a link to a directory, is on another file system.
    near = dict.fromkeys(place for path in paths for place in (path, os.path.dirname(path)))
    places: dict[int, str] = {}
    for path in near:
        place = nearest_directory(host, path)
        device, _free = host.free_space(place)
        places.setdefault(device, place)
    return sorted(places.values())


def nearest_directory(host: Host, path: str) -> str:
    """The directory at a path, or the nearest one above it that exists."""
    while not os.path.isdir(host.path(path)):
        path = os.path.dirname(path)
    return path
