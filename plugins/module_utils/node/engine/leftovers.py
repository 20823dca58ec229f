# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of earlier runs that are not needed any more."""

from __future__ import annotations

from ..machine.host import Host
from ..resources.tree import MANIFEST
from .records.origins import prune_origins
from .records.state import Store


def clear_leftovers(host: Host, store: Store) -> None:
    """Remove old contents, and half-written files beside journaled items and in the data directory."""
    prune_origins(host, store)
    journaled: dict[str, set[str]] = {}
    for entry in store.journal.entries():
        directory, _slash, name = entry.name.rpartition("/")
        if directory:
            journaled.setdefault(directory, set()).add(name)
        if entry.kind == "tree":  # its manifest is written in place when it is repaired
            journaled.setdefault(entry.name, set()).add(MANIFEST)
    for directory, names in journaled.items():
        for leftover, name in host.leftovers(directory).items():
            if name in names:
                host.remove_tree(f"{directory}/{leftover}")
    clear_own_leftovers(host, store)


def clear_own_leftovers(host: Host, store: Store) -> None:
    """Remove half-written files of the data directory."""
    for directory in store.directories:
        for leftover in host.leftovers(directory):
            host.remove_tree(f"{directory}/{leftover}")
