# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights the machines of a run get through Azure Arc, and which are revoked. Pure.

Rights follow the inventory alone. What a machine reports about itself grants none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...node.node_object.rights import APPROVAL, BOOTSTRAPPER
from ...node.procedures.arc.agent import Registration
from ...node.procedures.arc.errors import ArcElsewhere
from ...node.procedures.arc.roles import OF_POOL, ROLES
from ..azure.roles.assignments import known_role
from ..inventory.variables import listed

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArcMachine:
    """One host: what the inventory requests, and what the machine last reported."""

    host: str
    request: Json  # arc_request of the inventory's document
    reported: Json = field(default_factory=dict)  # result of arc_register or arc_info
    roles: list[str] | None = None  # flexnode_arc_roles
    changed: bool = False  # the join of this run changed something

    @classmethod
    def of_host(cls, host: str, request: Json, variables: Json) -> ArcMachine:
        """From what roles arc and node registered for a host; a skipped task reported nothing."""
        results = (variables.get(name) or {} for name in ("__arc_registered", "__arc_seen"))
        joined = variables.get("__node_joined") or {}
        roles = variables.get("flexnode_arc_roles")
        return cls(
            host,
            request,
            next((result for result in results if "resource_id" in result), {}),
            None if roles in (None, "") else listed(roles),  # an empty list means none at all
            bool(joined.get("changed")),
        )

    @property
    def resource_id(self) -> str:
        """Which Arc machine it says it is."""
        return str(self.reported.get("resource_id") or "")

    @property
    def binds(self) -> bool:
        """Whether it is allowed, for its join, to request a certificate for its kubelet."""
        request = self.request
        asked = request.get("enabled") and request.get("assign_roles") and request.get("cluster_id")
        return bool(asked and request["kubelet"] and request["profile"] == "certificate")

    @property
    def is_requested(self) -> bool:
        """Whether it is the Arc machine that the inventory names."""
        found = Registration.parse(self.resource_id)
        parts = [found.subscription_id, found.resource_group, found.machine_name] if found else []
        pairs = zip(self._place, parts, strict=False)
        return bool(found) and all(not name or name.lower() == part.lower() for name, part in pairs)

    @property
    def _place(self) -> list[str]:
        return [str(self.request[key]) for key in ("subscription_id", "resource_group", "machine_name")]

    def require_requested(self) -> None:
        """Refuse a machine that says it is another one: it would get that machine's rights."""
        gets_rights = self.request.get("enabled") and self.request.get("assign_roles")
        if gets_rights and self.resource_id and not self.is_requested:
            raise ArcElsewhere(
                f"{self.host} reports to be {self.resource_id}, which is not the machine of the inventory",
                where="/".join(name or "*" for name in self._place),
                why="roles are assigned only to the machine that the inventory names",
                fix="check `azcmagent show` on the machine, then correct azure.arc in the inventory or the "
                "registration",
            )


def role_nodes(machines: Iterable[ArcMachine], state: str = "present") -> list[Json]:
    """The machines whose Azure roles are managed here, as flexnode_role_assignment takes them.

    present: whose inventory has autoRoleAssignment. absent: also those that this collection registered.
    surplus: the roles that a machine no longer needs after its join.
    """
    found: list[Json] = []
    removes = state == "absent"
    for machine in machines:
        request = machine.request
        ours = request.get("assign_roles") or (removes and machine.reported.get("registered_by_us"))
        # Without a cluster, roles are searched in the whole subscription of the machine.
        where = request.get("cluster_id") or removes
        if not (request and ours and machine.resource_id and where and (request["enabled"] or removes)):
            continue
        if not machine.is_requested:
            continue  # it was assigned nothing, and could name any machine
        roles = _roles(machine, state)
        if roles == []:
            continue
        found.append(
            {
                "name": request["node"],
                # Azure says which principal a machine has; the machine itself could name any.
                "principal_id": None,
                "machine_id": machine.resource_id or None,
                "cluster_id": request["cluster_id"] or None,
                # Roles that are no longer needed are those at the cluster, of an earlier source.
                **({"pool": request["pool"]} if request.get("pool") and state != "surplus" else {}),
                "profile": request["profile"],
                "roles": roles,
            }
        )
    return found


def binding_nodes(machines: Iterable[ArcMachine], state: str = "present") -> list[Json]:
    """The machines that may request a kubelet certificate, as flexnode_identity_binding takes them.

    present: those that lack the right. surplus: those, and machines whose join changed something, because an
    earlier run may have granted the right and then failed. absent: all that may have it.
    """
    found: list[Json] = []
    for machine in machines:
        if not (machine.binds and machine.resource_id):
            continue
        lacks = any(role.get("kind") == "kubernetes" for role in machine.reported.get("missing_roles") or ())
        if not (lacks or state == "absent" or (state == "surplus" and machine.changed)):
            continue
        if not machine.is_requested:
            continue  # it was granted nothing
        place = {"machine_id": machine.resource_id, "cluster_id": machine.request["cluster_id"]}
        found.append({"name": machine.request["node"], **place})
    return found


def registered(machines: Iterable[ArcMachine]) -> tuple[list[Json], dict[str, str]]:
    """The registrations that end with the leave, as flexnode_arc_machine takes them; and who is refused, why.

    Only those that this collection created for machines that the inventory names as Arc machines. A machine
    could report any registration: one of another machine must stay.
    """
    leaving = [
        machine
        for machine in machines
        if machine.request.get("enabled") and machine.reported.get("registered_by_us") and machine.resource_id
    ]
    nodes: list[Json] = []
    refused: dict[str, str] = {}
    for machine in leaving:
        if machine.is_requested:
            vm_id = str(machine.reported.get("vm_id") or "")
            nodes.append({"name": machine.host, "machine_id": machine.resource_id, "vm_id": vm_id})
        else:
            refused[machine.host] = (
                f"registration {machine.resource_id} was not deleted: azure.arc in the inventory names "
                f"another one. If it is this machine's: az resource delete --ids {machine.resource_id}"
            )
    return nodes, refused


def roles_of_others(machine: ArcMachine) -> list[Json]:
    """What a machine lacks and this run does not grant: an administrator has to."""
    request = machine.request
    assigns = request.get("assign_roles") and request.get("enabled") and request.get("cluster_id")
    granted = [known_role(name) for name in (_roles(machine, "present") or ()) if assigns]
    bound = (BOOTSTRAPPER, APPROVAL) if machine.binds else ()

    def ours(role: Json) -> bool:
        if role.get("kind") == "kubernetes":
            return role.get("role") in bound
        # What a custom role grants is not known here.
        return any(one is None or one.id == role.get("role_id") for one in granted)

    return [role for role in machine.reported.get("missing_roles") or () if not ours(role)]


def _roles(machine: ArcMachine, state: str) -> list[str] | None:
    wanted = list(machine.request.get("roles") or () if machine.roles is None else machine.roles)
    if state == "present":
        return wanted
    if state == "absent":
        return None  # all that were assigned by this collection, whichever they are
    kept = {role.id for role in map(known_role, wanted) if role}
    # Of those at the cluster: what is needed at a pool stays there.
    return [key for key, role in ROLES.items() if role.id not in kept and key not in OF_POOL]
