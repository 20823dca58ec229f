# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Host that tells of every moment at which a process can die: around each effect and each system call."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host

# What only looks. Every other public method of Host is an effect, so a new one is covered by itself.
LOOKING = frozenset(
    (
        "path",
        "stat",
        "exists",
        "read",
        "text",
        "names",
        "leftovers",
        "sha256",
        "mounts_below",
        "free_space",
        "may_lower_oom_score",
    )
)
# Commands that only look; any other is an effect.
ASKING = (
    ("systemctl", "show"),
    ("journalctl",),
    ("ctr", "-n", "k8s.io", "tasks", "ls"),
    ("ctr", "-n", "k8s.io", "containers", "ls"),
    ("ctr", "namespaces", "ls"),
    ("ip", "-json"),
)
# The system calls that change files: a death between two of them is seen too, also outside of Host.
SYSTEM_CALLS = (
    "open",
    "replace",
    "symlink",
    "unlink",
    "rmdir",
    "mkdir",
    "fchown",
    "fchmod",
    "utime",
    "fsync",
)


@dataclass
class Watch:
    """Counts effects and moments; `happens` is told of each moment and where it is."""

    happens: Callable[[int, str], None]
    effects: int = 0
    moments: int = 0

    def moment(self, where: str) -> None:
        """The process could die here."""
        self.happens(self.moments, where)
        self.moments += 1

    def act(self, what: str, change: Callable[[], Any]) -> Any:
        """One effect."""
        self.effects += 1
        self.moment(f"before {what}")
        answer = change()
        self.moment(f"after {what}")
        return answer

    @contextmanager
    def system_calls(self) -> Iterator[None]:
        """Be told of every system call that changes files."""

        def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(call)
            def made(*arguments: Any, **options: Any) -> Any:
                self.moment(f"before {name}({arguments[0]!r})")
                return call(*arguments, **options)

            return made

        originals = {name: getattr(os, name) for name in SYSTEM_CALLS}
        for name, call in originals.items():
            setattr(os, name, watched(name, call))
        try:
            yield
        finally:
            for name, call in originals.items():
                setattr(os, name, call)


def changing() -> frozenset[str]:
    """The names of Host's methods that change the machine, commands aside."""
    public = {name for name, _ in inspect.getmembers(Host, inspect.isfunction) if not name.startswith("_")}
    return frozenset(public - LOOKING - {"run"})


class DyingHost(Host):
    """A Host whose every effect is watched."""

    watch: Watch

    def run(
        self, argv: Sequence[str], *, data: bytes | None = None, timeout: float = 60, check: bool = True
    ) -> Completed:
        """A command is an effect unless it only asks."""
        run = functools.partial(super().run, argv, data=data, timeout=timeout, check=check)
        if any(tuple(argv[: len(start)]) == start for start in ASKING):
            return run()
        done: Completed = self.watch.act(f"run {' '.join(argv)}", run)
        return done

    def append(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """The one change that can be torn: half of it is a moment of its own."""
        append, half = super().append, len(content) // 2

        def torn() -> None:
            append(path, content[:half], durable=durable)
            self.watch.moment(f"half of append {path}")
            append(path, content[half:], durable=durable)

        self.watch.act(f"append {path}", torn)


def _effect(name: str) -> Callable[..., Any]:
    change = getattr(Host, name)

    @functools.wraps(change)
    def watched(self: DyingHost, *arguments: Any, **options: Any) -> Any:
        what = f"{name} {arguments[0] if arguments else ''}"
        return self.watch.act(what, lambda: change(self, *arguments, **options))

    return watched


for _name in changing() - {"append"}:
    setattr(DyingHost, _name, _effect(_name))
