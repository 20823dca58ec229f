# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let machines obtain kubelet certificates with their Azure identities; removed after the join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...node.config.types.values import ArmId
from ...node.errors import ConfigInvalid, Problem
from ...node.node_object.rights import APPROVAL, BOOTSTRAPPER, WORDS
from ..azure.roles.granting import owners_of
from ..members import IN_OPTIONS, members_of, node_names
from ..parallel import in_parallel
from .binding import Changes, RbacClient, by_name, grant
from .rbac import AFTER_JOIN, Right, missing_rights

# Our bindings have this label; bindings of others are never removed, whatever their name.
LABELS: Mapping[str, str] = {"aks.flexnode/identity": "true"}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that will join, and its identity in Azure."""

    name: str
    principal_id: str

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


def machines_of(
    options: Mapping[str, Any], owner: Callable[[str], str] | None, *, kubernetes: bool
) -> dict[ArmId | None, list[Machine]]:
    """The machines per cluster; None is the cluster of the kubeconfig. `owner` asks Azure for identities."""
    nodes = options["nodes"]
    asked = [str(node["machine_id"]) for node in nodes if not node["principal_id"]]
    owners = owners_of(owner, asked, absent=options["state"] == "absent") if owner else {}
    found: dict[ArmId | None, list[Machine]] = {}
    for node, home in zip(nodes, _homes(options, kubernetes), strict=True):
        if principal := str(node["principal_id"] or owners[node["machine_id"]]).lower():
            found.setdefault(home, []).append(Machine(node["name"], principal))
    return found


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


def bind(client: RbacClient, machines: Sequence[Machine], *, check: bool) -> Changes:
    """Grant what the machines need to join, and what they need afterwards."""
    done = Changes()
    wanted = [right for machine in machines for right in machine.rights]
    grant(client, missing_rights(client.bindings(), (*wanted, *AFTER_JOIN)), done, check=check)
    return done


def unbind(client: RbacClient, machines: Sequence[Machine], *, check: bool) -> Changes:
    """Remove the bindings of the machines that this collection created, and nothing else."""
    done = Changes()
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    own = {str(one["metadata"]["name"]) for one in client.bindings(selector)}
    found = [right for machine in machines for right in machine.rights if right.name in own]
    if not check:
        in_parallel(lambda right: client.delete_binding(right.name), found, lambda right: right.name)
    for right in found:
        done.actions.append(f"remove the binding of {right.role} to {right.subject}")
        head = {"before_header": right.name, "after_header": right.name}
        done.diff.append({**head, "before": by_name([right.binding]), "after": {}})
    return done
