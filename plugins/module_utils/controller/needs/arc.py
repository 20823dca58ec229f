# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights the machines of a run get through Azure Arc, and which are revoked. Pure.

Rights follow the inventory alone. What a machine reports about itself grants none.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...node.config.types.formats import machine_name
from ...node.config.types.setting import Refused
from ...node.node_object.rights import APPROVAL, BOOTSTRAPPER
from ...node.procedures.arc.agent import CLONED, Registration
from ...node.procedures.arc.errors import ArcElsewhere
from ...node.procedures.arc.roles import OF_POOL, ROLES
from ...on_machine.arc_request import arc_request
from ..azure.roles.assignments import known_role
from ..inventory.checks import Finding
from ..inventory.machines import Machine
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
    kubeconfig: str = ""  # flexnode_arc_kubeconfig: of the machine's cluster

    @classmethod
    def of_host(cls, host: str, request: Json, registered: Json, variables: Json) -> ArcMachine:
        """From what roles arc and node registered for a host; a skipped task reported nothing.

        variables: flexnode_* of the host, also those of its play and roles.
        """
        results = (registered.get(name) or {} for name in ("__arc_registered", "__arc_seen"))
        joined = registered.get("__node_joined") or {}
        roles = variables.get("flexnode_arc_roles")
        return cls(
            host,
            request,
            next((result for result in results if "resource_id" in result), {}),
            None if roles in (None, "") else listed(roles),  # an empty list means none at all
            bool(joined.get("changed")),
            str(variables.get("flexnode_arc_kubeconfig") or ""),
        )

    @property
    def resource_id(self) -> str:
        """Which Arc machine it says it is."""
        return str(self.reported.get("resource_id") or "")

    @property
    def binds(self) -> bool:
        """Whether it is allowed, for its join, to request a certificate for its kubelet."""
        return is_bound(self.request)

    @property
    def requested(self) -> Registration:
        """The Arc machine that the inventory names; parts that it does not know are empty."""
        return _registration(self.request)

    @property
    def is_requested(self) -> bool:
        """Whether it is the Arc machine that the inventory names."""
        found = Registration.parse(self.resource_id)
        return bool(found and found.same(self.requested))

    def require_requested(self) -> None:
        """Refuse a machine that says it is another one: it would get that machine's rights."""
        gets_rights = self.request.get("enabled") and self.request.get("assign_roles")
        if gets_rights and self.resource_id and not self.is_requested:
            raise ArcElsewhere(
                f"{self.host} reports to be {self.resource_id}, which is not the machine of the inventory",
                where=self.requested.resource_id,
                why="roles are assigned only to the machine that the inventory names",
                fix=f"{self.confirmation}; {CLONED}, then run this again",
            )

    @property
    def confirmation(self) -> str:
        """What a user writes into the inventory to say that the machine is what it reports."""
        found = Registration.parse(self.resource_id)
        settings = found.settings(self.requested) if found else "azure.arc.machineName"
        return f"if it is this machine, set {settings} for {self.host} in the inventory"


def is_bound(request: Json) -> bool:
    """Whether a machine's identity gets rights in its cluster, by what the inventory asks of Azure Arc."""
    asked = request.get("enabled") and request.get("assign_roles") and request.get("cluster_id")
    return bool(asked and request["kubelet"] and request["profile"] == "certificate")


def request_of(document: Json, cluster_id: str, name: str) -> dict[str, Any]:
    """What the inventory asks of Azure Arc. name: of the Node, or else of the host in the inventory.

    Without azure.arc.machineName, a machine in Arc is named after its Node. The machine does not decide it:
    it could name any other one.
    """
    request = arc_request(document, cluster_id, name)
    return {**request, "machine_name": request["machine_name"] or _usable(str(request["node"]))}


def _usable(name: str) -> str:
    """A name, if a machine in Arc can have it. An address is none: it says nothing of the machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        pass
    else:
        return ""
    try:
        return str(machine_name.read(name))
    except Refused:
        return ""


def _registration(request: Json) -> Registration:
    place = (request.get(key) for key in ("subscription_id", "resource_group", "machine_name"))
    return Registration(*(str(part or "") for part in place))


def arc_findings(machines: Iterable[Machine]) -> Iterator[Finding]:
    """Machines whose name in Azure Arc the inventory leaves open, or gives to several."""
    by_registration: dict[str, list[str]] = {}
    nameless: list[str] = []
    for machine in machines:
        request = request_of(machine.document, machine.cluster_id, machine.node or machine.host)
        if not request["enabled"]:
            continue
        if request["machine_name"]:
            found = by_registration.setdefault(_registration(request).resource_id.lower(), [])
            found.append(machine.host)
        elif machine.source != "url" or request["assign_roles"]:  # behind a URL there may be a name
            nameless.append(machine.host)
    if nameless:
        what = "the Node name, or else the name in the inventory, can't be the name of a machine in Azure Arc"
        fix = "set azure.arc.machineName (in flexnode_host_config): 1-54 letters, digits, _ - ."
        yield Finding(tuple(nameless), what, fix)
    for registration, hosts in by_registration.items():
        if len(hosts) > 1:
            what = f"all of these would be {registration.rpartition('/')[2]} in Azure Arc"
            fix = "set a different azure.arc.machineName for each (in flexnode_host_config)"
            yield Finding(tuple(hosts), what, fix)


def refusals(machines: Iterable[ArcMachine], reported: Mapping[str, str]) -> dict[str, str]:
    """By host, why a machine gets no rights. reported: by host of the run, which machine it says it is."""
    refused: dict[str, str] = {}
    for machine in machines:
        mine = machine.resource_id.lower()
        others = [host for host, said in reported.items() if said.lower() == mine and host != machine.host]
        try:
            if mine and others:
                raise ArcElsewhere(
                    f"{', '.join((machine.host, *others))} report to be the same machine in Azure Arc",
                    where=machine.resource_id,
                    why="a copy of a registered machine's disk has its identity, and would have its rights",
                    fix="on each copy: azcmagent disconnect --force-local-only (without this option, the "
                    "original would lose its registration), then run this again",
                )
            machine.require_requested()
        except ArcElsewhere as error:
            refused[machine.host] = str(error)
    return refused


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


def by_kubeconfig(machines: Iterable[ArcMachine]) -> dict[str, list[ArcMachine]]:
    """Machines with the same kubeconfig; "" are those whose cluster is found by Azure."""
    found: dict[str, list[ArcMachine]] = {}
    for machine in machines:
        found.setdefault(machine.kubeconfig, []).append(machine)
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
                f"registration {machine.resource_id} was not deleted: it is not the machine of the inventory "
                f"({machine.requested.resource_id}); {machine.confirmation} and run this again; {CLONED}"
            )
    return nodes, refused


def failed_hosts(machines: Iterable[ArcMachine], nodes: Sequence[Json], result: Json) -> dict[str, Json]:
    """By host, the error of a module that was called with these nodes; the others were done.

    A module that fails before it comes to single machines has failed for all of them.
    """
    if not result.get("failed"):
        return {}
    whole = {
        "code": (result.get("error") or {}).get("code", ""),
        "msg": str(result.get("msg") or "the module returned nothing"),
    }
    failures = result.get("failures") or [{**whole, "machine_id": node["machine_id"]} for node in nodes]
    of_machine = {str(one["machine_id"]).lower(): one for one in failures}
    known = {machine.host: machine.resource_id.lower() for machine in machines if machine.resource_id}
    return {host: of_machine[found] for host, found in known.items() if found in of_machine}


def notes(machines: Iterable[ArcMachine], results: Iterable[Json]) -> dict[str, list[str]]:
    """By host, what may be left of a machine that leaves and could not be looked for."""
    commands: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for one in (one for result in results for one in result.get("gone") or ()):
        commands.setdefault(str(one["machine_id"]).lower(), []).append(str(one["command"]))
        missing[str(one["machine_id"]).lower()] = str(one.get("missing") or "")
    found: dict[str, list[str]] = {}
    for machine in machines:
        name = machine.resource_id
        if listing := commands.get(name.lower()):
            lacks = "has no identity" if missing[name.lower()] == "identity" else "does not exist"
            found[machine.host] = [
                f"{name} {lacks} in Azure, so roles of its identity were not found. This lists those "
                "that this collection assigned (then: az role assignment delete --ids ID):",
                *dict.fromkeys(listing),
            ]
        elif machine.reported.get("registered_by_us") and not (
            machine.request.get("enabled") or machine.is_requested
        ):
            found[machine.host] = [
                f"roles of {name} were not looked for: the inventory does not name it (azure.arc, "
                "flexnode_cluster_id)"
            ]
    return found


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
