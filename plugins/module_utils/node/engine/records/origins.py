# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contents of replaced files: removed as soon as nothing can need them, they may be old secrets.

The journal keeps what was there before the join, until unbootstrap. A transaction keeps what an update
replaced, such as the last bootstrap token, only until it is committed or rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import StateCorrupt
from ...machine.host import Host
from .state import Store


def prune_origins(host: Host, store: Store) -> None:
    """Remove contents that neither the journal nor an unfinished transaction refers to."""
    directory = f"{store.directory}/origins"
    if not (kept := host.names(directory)):
        return
    try:
        origins = [entry.origin for entry in store.journal.entries()]
        needed = {*_texts(origins), *_texts(store.transaction()), *_texts(store.tunnel.transaction())}
    except StateCorrupt:
        return  # what it refers to is not known
    for digest in kept:
        if digest not in needed:
            host.remove(f"{directory}/{digest}")


def _texts(document: Any) -> Iterator[str]:
    """Every text in a document, wherever it is: a content is named by its digest."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for value in document.values():
            yield from _texts(value)
    elif isinstance(document, (list, tuple)):
        for value in document:
            yield from _texts(value)
