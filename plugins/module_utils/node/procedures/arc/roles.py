# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The permissions of the machine's own identity on the cluster, queried with that identity.

An assignment takes minutes to be effective, and the installer's permissions say nothing about the machine's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...dataclass import dataclass
from ...errors import ApiUnreachable, CaMismatch, Forbidden
from ...identity.errors import IdentityRefused, TokenSourceUnreachable
from ...identity.token import Identity, claims
from ...machine.clock import Clock
from ...net.answer import HttpFailure, wait_asked
from ...net.http_client import HttpClient
from ...net.kube import KubeClient
from ...node_object.rights import acts_of, binding_command, roles_of
from ...sources.machines import API_VERSION, POOLS
from ...sources.machines import ROLE as POOL_ROLE
from .errors import ArmUnusable, RolesMissing

PERMISSIONS = "providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
PAUSE, LONGEST_PAUSE = 5.0, 30.0
REPORT_EVERY = 60.0
PAGES = 20
AKS = "Microsoft.ContainerService/managedClusters"


@dataclass(frozen=True)
class Role:
    """An Azure role, and a permission that only it (or a wider one) grants: shows whether it is missing."""

    key: str
    name: str
    id: str
    permission: str
    data: bool = False  # a data action: on objects in the cluster, not on the resource

    def command(self, principal: str, scope: str) -> str:
        """The command that grants it."""
        return (
            f"az role assignment create --assignee-object-id {principal} --assignee-principal-type "
            f"ServicePrincipal --role {self.id} --scope {scope}"
        )


ROLES = {
    role.key: role
    for role in (
        Role("reader", "Reader", "acdd72a7-3385-48ef-bd42-f606fba81ae7", f"{AKS}/read"),
        Role(
            "rbac-cluster-admin",
            "Azure Kubernetes Service RBAC Cluster Admin",
            "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b",
            f"{AKS}/nodes/write",
            data=True,
        ),
        Role(
            "cluster-admin",
            "Azure Kubernetes Service Cluster Admin Role",
            "0ab0b1a8-8aac-4efd-b8c2-3ee1fb270be8",
            f"{AKS}/listClusterAdminCredential/action",
        ),
        # Of a FlexNodes pool, assigned there.
        Role(
            "flex-node-agent",
            "Azure Kubernetes Service Flex Node Agent Role",
            POOL_ROLE,
            f"{AKS}/agentPools/listBootstrapData/action",
        ),
    )
}
PROFILES = ("certificate", "token")
# Three roles let the kubelet authenticate with its Azure identity. With a certificate it needs none of them:
# requesting one is a binding in the cluster. Reader lets the node poll its configuration.
FOLLOWS = ("reader",)
ACTS = ("rbac-cluster-admin", "cluster-admin")
OF_POOL = ("flex-node-agent",)


def needed(
    profile: str,
    *,
    monitored: bool = True,
    purposes: Iterable[str] = ("azure", "kubernetes"),
    pool: bool = False,
) -> tuple[str, ...]:
    """The roles that an identity needs on the cluster, by its use: for the node, the kubelet, or both.

    A kubelet with a certificate needs none, and the node then needs Azure only for monitoring.
    pool: of a node of a FlexNodes pool, whose identity follows its machine and gets bootstrap data there.
    """
    if pool:
        return OF_POOL if "azure" in purposes else ()
    by_token = profile == "token"
    roles = {"azure": FOLLOWS if by_token or monitored else (), "kubernetes": ACTS if by_token else ()}
    return tuple(key for purpose in roles if purpose in purposes for key in roles[purpose])


@dataclass(frozen=True)
class Missing:
    """A role that is missing, in Azure or in the cluster, and the command that grants it."""

    role: str
    scope: str
    command: str
    role_id: str = ""  # of an Azure role; empty for a ClusterRole

    def as_dict(self) -> dict[str, str]:
        """As data."""
        return {
            "kind": "azure" if self.role_id else "kubernetes",
            "role": self.role,
            "role_id": self.role_id,
            "scope": self.scope,
            "command": self.command,
        }


def allowed(granted: Iterable[Mapping[str, Any]], permission: str, *, data: bool = False) -> bool:
    """Whether any grant includes a permission and does not exclude it; `*` matches any text."""
    included, excluded = ("dataActions", "notDataActions") if data else ("actions", "notActions")
    return any(
        _matches(grant.get(included), permission) and not _matches(grant.get(excluded), permission)
        for grant in granted
    )


def _matches(patterns: Any, permission: str) -> bool:
    return any(
        re.fullmatch(re.escape(str(pattern)).replace(r"\*", ".*"), permission, re.IGNORECASE)
        for pattern in patterns or ()
    )


def principal_of(identity: Identity, audience: str) -> str:
    """The object id of an identity, from its token."""
    return str(claims(identity.token(audience).value).get("oid") or "")


class Grants:
    """The permissions of an identity at a scope, from Azure Resource Manager."""

    def __init__(self, identity: Identity, resource_manager: str, client: HttpClient) -> None:
        self._identity = identity
        self._arm = resource_manager.rstrip("/")
        self._client = client

    @property
    def audience(self) -> str:
        """The audience of the token."""
        return f"{self._arm}/"

    def at(self, scope: str) -> list[dict[str, Any]]:
        """All grants; may be empty."""
        if POOLS.lower() in scope.lower():
            return self._at_pool(scope)
        url: str = f"{self._arm}/{scope.strip('/')}/{PERMISSIONS}"
        found: list[dict[str, Any]] = []
        for _page in range(PAGES):
            token = self._identity.token(self.audience).value
            headers = {"Authorization": f"Bearer {token.reveal()}", "Accept": "application/json"}
            try:
                answer = json.loads(self._client.request("GET", url, headers=headers).body)
                found += answer["value"]
                url = answer.get("nextLink") or ""
            except HttpFailure as failure:
                if failure.status == 403:  # an identity without any role may not query either
                    return found
                raise self._explained(failure, scope) from failure
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ArmUnusable(
                    "the server that answers is not Azure Resource Manager",
                    where=self._arm,
                    why="it is not the JSON of a list of permissions",
                ) from error
            if not url.startswith(f"{self._arm}/"):  # the token is sent nowhere else
                break
        return found

    def _at_pool(self, scope: str) -> list[dict[str, Any]]:
        """What an identity may do at a pool, found by doing it: the role of a pool can't read permissions.

        The request is allowed by that role and wider ones; it creates nothing, as listBootstrapData would.
        """
        url = f"{self._arm}/{scope.strip('/')}/machines?api-version={API_VERSION}"
        token = self._identity.token(self.audience).value
        headers = {"Authorization": f"Bearer {token.reveal()}", "Accept": "application/json"}
        try:
            answer = json.loads(self._client.request("GET", url, headers=headers).body)
            found = isinstance(answer, dict) and isinstance(answer.get("value"), list)
        except HttpFailure as failure:
            if failure.status == 403:
                return []
            raise self._explained(failure, scope) from failure
        except ValueError:
            found = False
        if not found:
            raise ArmUnusable(
                "the server that answers is not Azure Resource Manager",
                where=self._arm,
                why="it is not the JSON of a list of machines",
            )
        actions = ("listBootstrapData/action", "machines/read", "machines/write")
        return [{"actions": [f"{AKS}/agentPools/{action}" for action in actions]}]

    def _explained(self, failure: HttpFailure, scope: str) -> ArmUnusable | IdentityRefused:
        if failure.status == 401:
            return IdentityRefused(
                f"Azure Resource Manager refuses the token of the {self._identity.name}",
                where=self._arm,
                why=failure.reason,
                fix="check azure.tenantId, azure.cloud and this machine's clock (timedatectl)",
            )
        return ArmUnusable(
            "the permissions of this machine can't be read",
            where=f"{self._arm}{scope}" if failure.status == 404 else self._arm,
            why=failure.reason,
            fix=failure.advice
            or (
                "check azure.targetCluster.resourceId"
                if failure.status == 404
                else "check DNS, firewall and `proxy`, or azure.resourceManagerEndpoint"
            ),
        )


def missing_roles(
    grants: Grants, identity: Identity, cluster_id: str, needed: Iterable[str]
) -> list[Missing]:
    """The roles that the machine's own identity lacks on the cluster."""
    wanted = list(needed)
    have = grants.at(cluster_id) if wanted else []  # no role needed: no query
    lacking = [ROLES[key] for key in wanted if not allowed(have, ROLES[key].permission, data=ROLES[key].data)]
    if not lacking:
        return []
    principal = principal_of(identity, grants.audience) or "PRINCIPAL_ID"
    return [Missing(role.name, cluster_id, role.command(principal, cluster_id), role.id) for role in lacking]


def missing_bindings(
    client: KubeClient, identity: Identity, audience: str, profile: str, node: str, *, waiting: bool = False
) -> list[Missing]:
    """The ClusterRoles that the machine's own identity lacks.

    An unreachable API server counts as nothing missing: a VPN may come up later, and preflight reports it
    better. A wait for roles queries it again.
    """
    try:
        lacks = [act for act in acts_of(profile) if not act.allowed(client)]
    except (ApiUnreachable, CaMismatch, Forbidden):
        if waiting:
            raise
        return []
    user = principal_of(identity, audience) or "PRINCIPAL_ID" if lacks else ""
    return [Missing(role, "the cluster", binding_command(role, user, node)) for role in roles_of(lacks)]


def wait_for_roles(
    query_missing: Callable[[], list[Missing]], clock: Clock, seconds: float, progress: Callable[[str], None]
) -> None:
    """Wait until nothing is missing; report what is, on change and once a minute."""
    start = clock.monotonic()
    pause, reported, reported_at = PAUSE, "", start
    while True:
        try:
            missing = query_missing()
        except (ApiUnreachable, ArmUnusable, TokenSourceUnreachable) as failure:  # may be transient
            asked = wait_asked(failure)
            if clock.monotonic() - start + asked >= seconds:
                raise
            if str(failure.what) != reported:
                progress(f"{failure.what}: {failure.why}")
            reported = str(failure.what)
            clock.sleep(min(max(pause, asked), max(seconds - (clock.monotonic() - start), 0.1)))
            pause = min(pause * 1.5, LONGEST_PAUSE)
            continue
        if not missing:
            return
        names = ", ".join(role.role for role in missing)
        now = clock.monotonic()
        if now - start >= seconds:
            raise lacking_roles(missing, seconds)
        if names != reported or now - reported_at >= REPORT_EVERY:
            progress(f"waiting for {names} at {missing[0].scope} ({now - start:.0f} of {seconds:g} s)")
            for role in missing if names != reported else ():
                progress(f"grant it: {role.command}")
            reported, reported_at = names, now
        clock.sleep(min(pause, max(seconds - (now - start), 0.1)))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def lacking_roles(missing: list[Missing], seconds: float) -> RolesMissing:
    """The list of missing roles, with the command that grants each."""
    commands = "\n  ".join(role.command for role in missing)
    return RolesMissing(
        f"this machine's identity lacks {', '.join(role.role for role in missing)}",
        where=missing[0].scope,
        why=f"not granted, or not effective, after {seconds:g} s"
        if seconds
        else "not granted, or not effective yet",
        fix="grant what is missing (or set azure.arc.autoRoleAssignment), wait some minutes, run this again:"
        f"\n  {commands}",
    )
