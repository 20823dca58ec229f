# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories that are links: an administrator put their content on a bigger disk."""

from __future__ import annotations

import os

from .disk import explained
from .host import Host
from .removal import DIRECTORY, empty_directory


def real_path(host: Host, path: str) -> str:
    """The path without links, as the kernel lists it in its table of mounts."""
    root = os.path.realpath(host.path("/")).rstrip("/")
    return os.path.realpath(host.path(path)).removeprefix(root)


def empty_behind(host: Host, link: str, keep: frozenset[str]) -> list[str]:
    """Remove the content of the directory that a link points to; link and directory stay.

    `keep` lists paths below the link. Returns the paths that remain, mounts for example.
    """
    real, kept = real_path(host, link), list[str]()
    keep = frozenset(path.replace(link, real, 1) for path in keep if path.startswith(f"{link}/"))
    with explained(link):
        directory = os.open(host.path(real), DIRECTORY)
        try:
            empty_directory(directory, real, frozenset(host.mounts_below(real)), keep, kept)
        finally:
            os.close(directory)
    return kept
