# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let machines obtain kubelet certificates with their Azure identities; removed after the join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...node.config.types.values import ArmId
from ...node.errors import ConfigInvalid, FlexNodeError, Problem
from ...node.node_object.rights import APPROVAL, BOOTSTRAPPER, WORDS
from ..azure.roles.granting import owners_of, unowned
from ..failures import Failure
from ..members import IN_OPTIONS, members_of, node_names
from ..parallel import NodesFailed, each
from .binding import Changes, RbacClient, by_name, grant
from .rbac import AFTER_JOIN, Right, missing_rights

# Our bindings have this label; bindings of others are never removed, whatever their name.
LABELS: Mapping[str, str] = {"aks.flexnode/identity": "true"}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that will join, and its identity in Azure."""

    name: str
    principal_id: str
    machine_id: str = ""  # in Azure Arc, if the principal was found by it

    @property
    def rights(self) -> tuple[Right, ...]:
        """Request a kubelet certificate, and have it approved; named after the principal."""
        return tuple(
            Right(
                f"flexnode-identity-{WORDS[role]}-{self.principal_id}",
                role,
                self.principal_id,
                kind="User",
                labels=LABELS,
            )
            for role in (BOOTSTRAPPER, APPROVAL)
        )


@dataclass(slots=True)
class Done(Changes):
    """What was changed in one cluster, and for whom it was not."""

    failures: list[Failure] = field(default_factory=list)


def machines_of(
    options: Mapping[str, Any], owner: Callable[[str], str] | None, *, kubernetes: bool
) -> tuple[dict[ArmId | None, list[Machine]], list[Failure]]:
    """The machines per cluster, and those without an identity; None is the cluster of the kubeconfig.

    `owner` asks Azure for identities. A machine that no longer exists has nothing to remove.
    """
    nodes = options["nodes"]
    asked = [str(node["machine_id"]) for node in nodes if not node["principal_id"]]
    owners, absent = owners_of(owner, asked) if owner else {}, options["state"] == "absent"
    found: dict[ArmId | None, list[Machine]] = {}
    failures: list[Failure] = []
    for node, home in zip(nodes, _homes(options, kubernetes), strict=True):
        machine_id = "" if node["principal_id"] else str(node["machine_id"])
        principal = node["principal_id"] or owners[machine_id]
        if absent and unowned(principal):
            continue
        if isinstance(principal, FlexNodeError):
            failures.append(Failure(node["name"], machine_id, principal))
        else:
            found.setdefault(home, []).append(Machine(node["name"], str(principal).lower(), machine_id))
    return found, failures


def _homes(options: Mapping[str, Any], kubernetes: bool) -> Sequence[ArmId | None]:
    """The cluster of each node; with Kubernetes options all nodes are in that one cluster."""
    nodes = options["nodes"]
    if not kubernetes:
        return [member.cluster for member in members_of(nodes, options["cluster_id"] or "")]
    named = {str(node.get("cluster_id") or options["cluster_id"] or "").lower() for node in nodes} - {""}
    if len(named) > 1:
        several = f"these nodes are in {len(named)}: {', '.join(sorted(named))}"
        accepted = "nodes of one cluster, and run this once per cluster"
        wrong = Problem("kubeconfig", "for one cluster", accepted, several)
        raise ConfigInvalid([wrong], fix=IN_OPTIONS)
    return [None for _name in node_names(nodes)]


def bind(client: RbacClient, machines: Sequence[Machine], *, check: bool) -> Done:
    """Grant what the machines need to join, and what all nodes need afterwards."""
    done, bound = Done(), client.bindings()
    grant(client, missing_rights(bound, AFTER_JOIN), done, check=check)

    def act(machine: Machine) -> Changes:
        changes = Changes()
        try:
            grant(client, missing_rights(bound, machine.rights), changes, check=check)
        except NodesFailed as several:
            raise next(iter(several.errors.values())) from several
        return changes

    return _for_each(machines, act, done)


def unbind(client: RbacClient, machines: Sequence[Machine], *, check: bool) -> Done:
    """Remove the bindings of the machines that this collection created, and nothing else."""
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    own = {str(one["metadata"]["name"]) for one in client.bindings(selector)}

    def act(machine: Machine) -> Changes:
        changes = Changes()
        for right in machine.rights:
            if right.name not in own:
                continue
            if not check:
                client.delete_binding(right.name)
            changes.actions.append(f"remove the binding of {right.role} to {right.subject}")
            head = {"before_header": right.name, "after_header": right.name}
            changes.diff.append({**head, "before": by_name([right.binding]), "after": {}})
        return changes

    return _for_each(machines, act, Done())


def _for_each(machines: Sequence[Machine], act: Callable[[Machine], Changes], done: Done) -> Done:
    """Act on every machine. What fails for one of them is kept from no other."""
    for machine, found in zip(machines, each(act, machines), strict=True):
        if isinstance(found, FlexNodeError):
            done.failures.append(Failure(machine.name, machine.machine_id, found))
        else:
            done.actions += found.actions
            done.diff += found.diff
    return done
