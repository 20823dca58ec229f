# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Old versions: the current and the previous generation stay, all others are removed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from ..machine.host import Host
from ..machine.layout import AGENT_DIR, STAGING, VERSIONS_DIR
from ..resources.base import Item, Origin
from ..resources.kinds import KINDS
from .plan import Plan
from .records.record import Record
from .records.state import Store

DOWNLOAD = re.compile(r"[0-9a-f]{64}(\.part)?")  # a file of the cache, as the fetcher names it


def tidy(plan: Plan, host: Host, store: Store) -> None:
    """Remove what is no longer needed: half-staged versions, and those older than the previous generation."""
    done = Record.of(store.transaction())
    if done and plan.versions:  # without a new version the previous one stays the previous one
        prune(host, store, versions_before(done.before), plan.components)
    else:
        discard_new(host, store, done.before if done else {})
        clear_staging(host)


def versions_in(resources: Iterable[Item]) -> frozenset[str]:
    """The version directories (trees and programs) of a generation, by its resources."""
    return frozenset(resource.name for resource in resources if resource.content_addressed)


def versions_behind(host: Host, links: Iterable[str]) -> frozenset[str]:
    """The version directories that links such as /usr/local/bin/kubelet point to."""
    return frozenset(version for link in links if (version := _version_of(host.stat(link).target)))


def versions_before(generation: Mapping[str, Origin]) -> frozenset[str]:
    """The version directories that links of a previous generation pointed to."""
    targets = (str(origin.get("target", "")) for origin in generation.values())
    return frozenset(version for target in targets if (version := _version_of(target)))


def _version_of(path: str) -> str:
    """The version directory that a path is in: versions/NAME/VERSION or agent/VERSION; empty: in none."""
    for top, depth in ((VERSIONS_DIR, 2), (AGENT_DIR, 1)):
        parts = path.removeprefix(f"{top}/").split("/")
        if path.startswith(f"{top}/") and len(parts) >= depth:
            return "/".join((top, *parts[:depth]))
    return ""


def prune(host: Host, store: Store, keep: Iterable[str], of: frozenset[str] = frozenset()) -> list[str]:
    """Remove all versions but those in `keep`, and downloads that are no longer needed; returns what went.

    of: only versions of these components; those of others have a previous generation of their own.

    To be called when a transaction is committed. Only directories of the journal are removed: what others put
    under /opt/aks-flex-node stays. A version that a link of this collection points to always stays.
    """
    entries = store.journal.entries()
    links = [entry.name for entry in entries if entry.kind == "link"]
    kept = frozenset(keep) | versions_behind(host, links)
    removed, gone = [], []
    for entry in entries:
        kind = KINDS.get(entry.kind)
        if kind is None or not kind.content_addressed or entry.name in kept:
            continue
        if of and entry.of and not entry.of & of:
            continue
        if host.stat(entry.name).is_ == "directory":
            if host.remove_tree(entry.name):
                continue  # something is mounted in it: unbootstrap will report it
            removed.append(entry.name)
        gone.append(entry.key)
    store.journal.release(gone)
    clear_staging(host)
    for name in host.names(store.cache):
        if DOWNLOAD.fullmatch(name):
            host.remove(f"{store.cache}/{name}")
    return removed


def discard_new(host: Host, store: Store, generation: Mapping[str, Origin]) -> None:
    """Remove versions that a transaction installed and that nothing uses: it was rolled back, or replaced.

    generation: the one before that transaction; its keys name what the transaction changed.
    """
    links = [entry.name for entry in store.journal.entries() if entry.kind == "link"]
    used = versions_behind(host, links)
    unused = []
    for key in generation:
        kind, _colon, name = key.partition(":")
        resource = KINDS.get(kind)
        if resource and resource.content_addressed and name not in used and not host.remove_tree(name):
            unused.append(key)
    store.journal.release(unused)


def clear_staging(host: Host, keep: Collection[str] = ()) -> None:
    """Remove versions that are unpacked but not in place, except those that are still needed."""
    for name in _directories(host, VERSIONS_DIR):
        for version in _directories(host, name):
            if version.endswith(STAGING) and version not in keep:
                host.remove_tree(version)


def _directories(host: Host, path: str) -> list[str]:
    """The directories in a directory; links are not followed."""
    if host.stat(path).is_ != "directory":
        return []
    below = (f"{path}/{name}" for name in host.names(path))
    return [place for place in below if host.stat(place).is_ == "directory"]
