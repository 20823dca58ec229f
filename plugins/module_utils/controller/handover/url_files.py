# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration URLs for machines that join by themselves: one file per node, for its owner alone."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..inventory.errors import InventoryInvalid


def prepared(path: str, *, check: bool = False) -> str:
    """The directory, created and checked before Azure is asked for a URL; empty where none is wanted."""
    if not path:
        return ""
    directory = os.path.abspath(os.path.expanduser(path))
    if check:
        return directory
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise InventoryInvalid(
            "flexnode_url_directory can't be created",
            where=directory,
            why=str(error),
            fix="choose another directory",
        ) from error
    if not os.access(directory, os.W_OK):
        raise InventoryInvalid(
            "flexnode_url_directory can't be written", where=directory, fix="choose another directory"
        )
    return directory


def write(directory: str, urls: Mapping[str, str]) -> None:
    """Write NODE.url for each node; a URL is a secret."""
    for name, url in urls.items():
        path = os.path.join(directory, f"{name}.url")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{url}\n")
