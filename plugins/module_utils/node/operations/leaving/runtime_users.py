# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other users of our containerd (docker, nerdctl, ctr): their data is kept at unbootstrap, and named.

containerd keeps the data of all its users in one directory, and separates them by namespaces. Kubernetes
uses k8s.io. Images and snapshots of several namespaces share files, so that only containerd itself can
remove those of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from signal import SIGKILL

from ...dataclass import dataclass
from ...engine.records.journal import Entry
from ...machine.host import Host
from ...machine.layout import CONTAINERD
from ...machine.running import command_line, processes
from ...resources.units import RUNNING, unit_states
from .bolt import bucket_names

OURS = "k8s.io"
DATA = "/var/lib/containerd"
METADATA = "io.containerd.metadata.v1.bolt"
DATABASE = f"{DATA}/{METADATA}/meta.db"
TASKS = "/run/containerd/io.containerd.runtime.v2.task"  # a directory per namespace, with one per container
KUBERNETES = ("ctr", "-n", OURS)
SANDBOXES = 'labels."io.cri-containerd.kind"==sandbox'  # ctr's filter: the first container of each pod


@dataclass(frozen=True)
class RuntimeUsers:
    """Who uses containerd beside Kubernetes."""

    namespaces: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()  # that run now: NAMESPACE/ID
    beside_kubernetes: bool = False  # there is data of Kubernetes, too
    unknown: str = ""  # why the namespaces can't be read

    def __bool__(self) -> bool:
        """Whether there is, or may be, data of others."""
        return bool(self.namespaces or self.unknown)

    @property
    def why(self) -> str:
        """Why the data directory is kept, what is in it, and how to remove it."""
        if self.unknown:
            whose = f"it may contain data of other users of containerd ({self.unknown})"
        else:
            whose = f"it contains data of other users of containerd: namespaces {', '.join(self.namespaces)}"
        running = (
            f"; their containers were not stopped: {', '.join(self.containers)}" if self.containers else ""
        )
        return f"{whose}{running}. If it is not needed: rm -rf --one-file-system {DATA}"


def runtime_users(host: Host) -> RuntimeUsers:
    """Read the namespaces from containerd; if it does not run or answer, from its database.

    If neither can be read, the data is not touched: it may be of others.
    """
    containers = tuple(
        f"{namespace}/{container}"
        for namespace in host.names(TASKS)
        if namespace != OURS
        for container in host.names(f"{TASKS}/{namespace}")
    )
    found = {container.partition("/")[0] for container in containers}
    running = unit_states(host, (CONTAINERD,))[CONTAINERD]["ActiveState"] in RUNNING
    done = host.run(["ctr", "namespaces", "ls", "-q"], check=False) if running else None
    unknown = ""
    if done and done.status == 0:
        found.update(done.stdout.split())
    else:
        try:
            found.update(namespaces_on_disk(host))
        except (OSError, ValueError) as error:
            unknown = f"{DATABASE}: {error}"
    others = tuple(sorted(found - {OURS}))
    return RuntimeUsers(others, containers, OURS in found, unknown)


def namespaces_on_disk(host: Host) -> list[str]:
    """The namespaces in containerd's database; ValueError: it can't be read."""
    database = host.read(DATABASE)
    return [name.decode() for name in bucket_names(database, b"v1")] if database else []


def older_than_join(entries: Iterable[Entry]) -> bool:
    """Whether containerd had data before the join (takeover): then all of it stays anyway."""
    return any(entry.name == DATA and METADATA in entry.origin.get("entries", ()) for entry in entries)


def remove_kubernetes_data(host: Host) -> None:
    """Let containerd remove all containers, images and snapshots of Kubernetes, and nothing of others."""
    if containers := host.run([*KUBERNETES, "containers", "ls", "-q"]).stdout.split():
        host.run([*KUBERNETES, "containers", "rm", *containers], timeout=120)
    if images := host.run([*KUBERNETES, "images", "ls", "-q"]).stdout.split():
        host.run([*KUBERNETES, "images", "rm", "--sync", *images], timeout=600)
    host.run(["ctr", "namespaces", "rm", OURS])  # refused by containerd if anything remains


def end_shims(host: Host) -> None:
    """End the shims of Kubernetes that no containerd looks after any more; those of others keep running.

    A shim outlives its containerd. If that was down, or could not remove a container, nobody ends it.
    """
    for pid in set(processes(host, CONTAINERD)):
        if command_line(host, pid)[1:3] == ["-namespace", OURS]:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(int(pid), SIGKILL)
