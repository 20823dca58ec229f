# SPDX-License-Identifier: GPL-3.0-or-later
"""What a testbed is made of, made once: each part with the time it takes, and none that nobody asked for.

Compiling keeps all processors busy; what is installed from packages mostly waits for the network. So the
parts of each kind are made one after the other, and the two kinds beside each other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from testbed.artifacts import store, upstream
from testbed.artifacts.recipes import artifact
from testbed.azure.serving import wheels
from testbed.basics import paths
from testbed.basics.progress import say, spelled
from testbed.images import recipes, rootfs
from testbed.images.rootfs import Recipe
from testbed.layout import versions
from testbed.layout.versions import Pairs
from testbed.services import blob

# Seconds on two processors with nothing else to do, with empty caches of Go, apt, npm and pip.
COMPILED = {"kubernetes": 580, "containerd": 95, "coredns": 90, "cni-plugins": 20, "runc": 25, "npd": 60}
DOWNLOADED = 10
ANOTHER = 120
"""What was never measured."""
MEASURED_ON = 2


@dataclass(frozen=True)
class Part:
    """Something that is made once and kept in a cache."""

    name: str
    seconds: float
    is_there: Callable[[], bool]
    make: Callable[[], object]
    compiles: bool = False


def artifacts(wanted: Pairs, arch: str) -> list[Part]:
    """Programs for an architecture: those of one source and version together."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, version in wanted:
        groups.setdefault((artifact(name).source.name, version), []).append((name, version))

    def there(pairs: Pairs) -> bool:
        return all(store.find(*pair, arch) for pair in pairs)

    return [
        Part(
            f"{source} {version}" + ("" if arch == paths.arch() else f" for {arch}"),
            _compile_seconds(source),
            partial(there, tuple(pairs)),
            partial(store.ensure, pairs, arch),
            compiles=True,
        )
        for (source, version), pairs in groups.items()
    ]


def _compile_seconds(source: str) -> float:
    if upstream.reachable():
        return DOWNLOADED
    return COMPILED.get(source, ANOTHER) * MEASURED_ON / (os.cpu_count() or 1)


def image(recipe: Recipe, seconds: float) -> Part:
    """A root file system in podman's storage."""
    return Part(
        f"image {recipe.name}", seconds, partial(rootfs.is_there, recipe), partial(rootfs.ensure, recipe)
    )


def services() -> list[Part]:
    """What the control plane's machines and the emulated Azure run."""
    return [
        image(recipes.SERVICES, 40),
        Part("packages of the emulated Azure", 15, wheels.is_there, wheels.ensure),
        Part("Azurite", 40, blob.is_there, blob.ensure),
        image(recipes.BLOB, 70),
    ]


def parts(kubernetes: str, architectures: Iterable[str] = (), platforms: Iterable[str] = ()) -> list[Part]:
    """What a testbed with machines of these architectures, and containers of these platforms, needs."""
    own = paths.arch()
    found = services()
    programs = dict.fromkeys(versions.control_plane_set(kubernetes))
    for arch in architectures:
        if arch == own:
            programs |= dict.fromkeys(versions.node_set(kubernetes))
        else:
            found += artifacts(versions.node_set(kubernetes), arch)
        tools = recipes.KUBE_PROXY.of(arch)
        found.append(Part("tools of kube-proxy", 10, tools.tar.is_file, partial(rootfs.ensure_tar, tools)))
    found += [image(recipes.node(platform), 80) for platform in platforms]
    return [*found, *artifacts(tuple(programs), own)]


def make(wanted: Iterable[Part]) -> None:
    """Make what is missing; say before how long it will take, and after each part what comes next."""
    missing = [part for part in wanted if not part.is_there()]
    if not missing:
        return
    rows = [row for kind in (True, False) if (row := [part for part in missing if part.compiles is kind])]
    board = _Board(rows)
    say(f"to make, once: {', '.join(f'{part.name} ({spelled(part.seconds)})' for part in missing)}")
    say(f"about {spelled(board.left(0))} here{_why(missing)}")
    with ThreadPoolExecutor(max_workers=len(rows)) as pool:
        for done in [pool.submit(_one_after_the_other, row, board) for row in rows]:
            done.result()


def _why(missing: Sequence[Part]) -> str:
    if not any(part.compiles for part in missing):
        return ""
    if upstream.reachable():
        return ": programs are downloaded"
    return ": the release hosts are not reached, so programs are built from their Go modules"


def _one_after_the_other(row: Sequence[Part], board: _Board) -> None:
    for part in row:
        part.make()
        board.ends(part)


class _Board:
    """What is still to do in each row, and how long that takes: the longest row."""

    def __init__(self, rows: Sequence[Sequence[Part]]) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._rows = [list(row) for row in rows]
        self._since = [0.0 for _row in rows]

    def left(self, now: float) -> float:
        """Seconds; a part that takes longer than expected is about to end."""
        return max(
            max(row[0].seconds - (now - since), 0) + sum(part.seconds for part in row[1:]) if row else 0
            for row, since in zip(self._rows, self._since, strict=True)
        )

    def ends(self, part: Part) -> None:
        """Say what runs now, and what comes then."""
        with self._lock:
            now = time.monotonic() - self._began
            number = next(number for number, row in enumerate(self._rows) if row and row[0] is part)
            del self._rows[number][0]
            self._since[number] = now
            if not any(self._rows):
                return
            running = ", ".join(row[0].name for row in self._rows if row)
            then = ", ".join(part.name for row in self._rows for part in row[1:])
            said = f"{spelled(now)} so far, about {spelled(self.left(now))} left: {running}"
            say(f"    {said}; then {then}" if then else f"    {said}")
