# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What could not be done for which machine: one machine that fails does not stop the others of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..node.errors import FlexNodeError
from .azure.errors import PermissionMissing
from .parallel import NodesFailed

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something was not done for one machine, and the commands with which someone else could do it."""

    node: str
    machine_id: str
    error: FlexNodeError | NodesFailed
    commands: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The code of its error."""
        return str(self.error.as_result()["code"])


def as_result(failures: Sequence[Failure]) -> dict[str, Any]:
    """What a module returns of its failures: a message and codes as ever, and an entry per machine."""
    several = len({one.code for one in failures}) > 1
    nodes = {one.node: {"code": one.code} for one in reversed(failures)}  # the first of each
    return {
        "msg": message_of(failures),
        "error": {"code": failures[0].code, **({"nodes": nodes} if several else {})},
        "failures": [
            {"name": node, "machine_id": machine_id, "code": found[0].code, "msg": message_of(found)}
            for (node, machine_id), found in _grouped(failures, lambda one: (one.node, one.machine_id))
        ],
    }


def message_of(failures: Iterable[Failure]) -> str:
    """One text about all of them. A cause that machines share is named once, and machines only if needed."""
    causes = [found for _error, found in _grouped(failures, lambda one: str(one.error))]
    names = [", ".join(dict.fromkeys(one.node or one.machine_id for one in found)) for found in causes]
    texts = [_with_commands(found) for found in causes]
    alike = len(set(names)) == 1
    return "\n".join(text if alike else f"{who}: {text}" for who, text in zip(names, texts, strict=True))


def _grouped(failures: Iterable[Failure], key: Callable[[Failure], K]) -> list[tuple[K, list[Failure]]]:
    found: dict[K, list[Failure]] = {}
    for failure in failures:
        found.setdefault(key(failure), []).append(failure)
    return list(found.items())


def _with_commands(failures: Sequence[Failure]) -> str:
    """The error that these failures share, with the commands that an administrator can run."""
    error = failures[0].error
    commands = dict.fromkeys(command for one in failures for command in one.commands)
    if not commands or not isinstance(error, PermissionMissing):
        return str(error)
    return "\n  ".join((f"{error}\nor let an administrator run:", *commands))
