# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let machines obtain their kubelets' certificates with their Azure identities; taken back after the join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...node.config.types.values import ArmId
from ...node.errors import ConfigInvalid, Problem
from ...node.node_object.rights import APPROVAL, BOOTSTRAPPER, WORDS
from ..azure.roles.granting import owners_of
from ..members import members_of, node_names
from ..parallel import each
from .binding import Done, RbacClient, grant
from .rbac import STAYS, Right, missing_rights

# By it our bindings are found again: others' stay, whatever they are called.
LABELS: Mapping[str, str] = {"aks.flexnode/identity": "true"}


@dataclass(frozen=True, slots=True)
class Machine:
    """A node to be, and who it is in Azure."""

    name: str
    principal_id: str

    @property
    def rights(self) -> tuple[Right, ...]:
        """To ask for a kubelet's certificate, and to have it approved; named after whom they are for."""
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
    options: Mapping[str, Any], owner: Callable[[str], str] | None
) -> dict[ArmId | None, list[Machine]]:
    """The machines of each cluster; None stands for that of a kubeconfig. Azure says whose a machine is."""
    nodes = options["nodes"]
    asked = [str(node["machine_id"]) for node in nodes if not node["principal_id"]]
    owners = owners_of(owner, asked, absent=options["state"] == "absent") if owner else {}
    found: dict[ArmId | None, list[Machine]] = {}
    for node, home in zip(nodes, _homes(options), strict=True):
        if principal := str(node["principal_id"] or owners[node["machine_id"]]).lower():
            found.setdefault(home, []).append(Machine(node["name"], principal))
    return found


def _homes(options: Mapping[str, Any]) -> Sequence[ArmId | None]:
    """The cluster of each node. Those of a kubeconfig have one, whatever it is called in Azure."""
    nodes, kubeconfig = options["nodes"], options["kubeconfig"]
    if not kubeconfig:
        return [member.cluster for member in members_of(nodes, options["cluster_id"] or "")]
    named = {str(node.get("cluster_id") or options["cluster_id"] or "").lower() for node in nodes} - {""}
    if len(named) > 1:
        several = f"nodes of {len(named)} clusters: {', '.join(sorted(named))}"
        raise ConfigInvalid([Problem("kubeconfig", several, "nodes of one cluster", "run one at a time")])
    return [None for _name in node_names(nodes)]


def bind(client: RbacClient, machines: Sequence[Machine], *, check: bool) -> Done:
    """Have the rights that the machines need to join, and those that they need afterwards."""
    done = Done()
    wanted = [right for machine in machines for right in machine.rights]
    grant(client, missing_rights(client.bindings(), (*wanted, *STAYS)), done, check=check)
    return done


def unbind(client: RbacClient, machines: Sequence[Machine], *, check: bool) -> Done:
    """Take back what was bound to the machines, and nothing else."""
    done = Done()
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    ours = {str(one["metadata"]["name"]) for one in client.bindings(selector)}
    found = [right for machine in machines for right in machine.rights if right.name in ours]
    if not check:
        each(lambda right: client.delete_binding(right.name), found, lambda right: right.name)
    for right in found:
        done.actions.append(f"take {right.role} back from {right.subject}")
        head = {"before_header": right.name, "after_header": right.name}
        done.diff.append({**head, "before": [right.binding], "after": {}})
    return done
