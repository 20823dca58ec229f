# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of Azure Arc, deleted by the controller: a machine that leaves needs no token for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from ...node.errors import FlexNodeError
from ..parallel import in_parallel
from .arm import Json

API_VERSION = "2024-07-10"
DELETED, ABSENT, KEPT, FAILED = "deleted", "absent", "kept", "failed"


class Resources(Protocol):
    """Resource Manager, as far as it is needed here."""

    def get(self, path: str) -> Json | None:
        """A resource, None where there is none."""

    def change(self, method: str, path: str) -> Any:
        """Request a change and wait until it is finished."""


@dataclass(frozen=True, slots=True)
class ArcResource:
    """A machine as its agent reports it. `vm_id` tells it from others that had the same name."""

    name: str
    machine_id: str
    vm_id: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """What happened to one machine, and why."""

    name: str
    machine_id: str
    action: str
    reason: str
    code: str = ""  # of the error, if it failed

    @property
    def sentence(self) -> str:
        """What was done."""
        return f"delete {self.machine_id}"

    def as_dict(self) -> dict[str, str]:
        """For the module's result."""
        return asdict(self)


def delete_machines(azure: Resources, machines: Sequence[ArcResource], *, check: bool) -> list[Deletion]:
    """Delete machines, a few at a time. One that can't be deleted does not stop the others."""
    return in_parallel(lambda machine: _delete(azure, machine, check=check), machines, lambda one: one.name)


def _delete(azure: Resources, machine: ArcResource, *, check: bool) -> Deletion:
    def done(action: str, reason: str, code: str = "") -> Deletion:
        return Deletion(machine.name, machine.machine_id, action, reason, code)

    try:
        found = azure.get(machine.machine_id)
        if found is None:
            return done(ABSENT, "it does not exist")
        vm_id = str((found.get("properties") or {}).get("vmId") or "")
        if not machine.vm_id or vm_id.lower() != machine.vm_id.lower():
            return done(KEPT, f"it has vmId {vm_id or 'none'}, this machine has {machine.vm_id or 'none'}")
        if not check:
            azure.change("DELETE", machine.machine_id)
    except FlexNodeError as error:
        return done(FAILED, str(error), error.code)
    return done(DELETED, "it was registered by this collection")
