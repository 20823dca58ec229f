# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure errors of the controller, and how an answer of Azure becomes one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...node.errors import FlexNodeError
from ...node.sources.arm_answers import (
    ArmError,
    Missing,
    another_operation,
    asks_again,
    gone,
    missing,
    named_kind,
)

# --- 17xx: Azure ------------------------------------------------------------------------------------------


class Answered:
    """An error that is an answer of Azure has that answer: decisions are by it, not by our words."""

    refusal: Refusal | None = None


class SignInFailed(FlexNodeError):
    code, title = "FLEX-1701", "The sign-in to Azure fails"
    remedy = (
        "on the Ansible controller, export AZURE_TENANT, AZURE_CLIENT_ID and AZURE_SECRET (in a task: "
        "tenant, client_id and secret); or write a profile to ~/.azure/credentials; or install the Azure CLI "
        "and run `az login`; or, if the controller has a managed identity, export "
        "ANSIBLE_AZURE_AUTH_SOURCE=msi (in a task: auth_source: msi)"
    )


class PermissionMissing(FlexNodeError):
    code, title = "FLEX-1702", "The identity lacks a permission in Azure"


class NotInAzure(Answered, FlexNodeError):
    code, title = "FLEX-1703", "What is named was not found in Azure"
    unowned = ""  # of a machine whose identity was asked for: what of it does not exist
    remedy = (
        "correct the id or the name, then run this again (the clusters of a subscription: "
        'az aks list --subscription SUBSCRIPTION --query "[].id" -o tsv)'
    )


class AzureRefuses(Answered, FlexNodeError):
    code, title = "FLEX-1704", "Azure refuses the request"


class AzureUnavailable(Answered, FlexNodeError):
    code, title = "FLEX-1705", "Azure does not return a usable answer"
    remedy = "check network, proxy and ca_bundle; https://status.azure.com shows outages; then run this again"


class ClusterUnusable(FlexNodeError):
    code, title = "FLEX-1706", "The cluster can't be used"


class BindingConflict(FlexNodeError):
    code, title = "FLEX-1707", "A role or binding with a name of this collection grants something else"


class StorageRefuses(FlexNodeError):
    code, title = "FLEX-1708", "The storage account refuses the request"


class PrincipalUnknown(FlexNodeError):
    code, title = "FLEX-1709", "The principal is not known in Entra ID"
    remedy = (
        "check the object id (az ad sp show --id OBJECT_ID); one that was created minutes ago may not be "
        "known everywhere yet: run this again"
    )


class ChangedMeanwhile(Answered, FlexNodeError):
    code, title = "FLEX-1710", "Someone else changed the resource in Azure at the same time"
    remedy = "run this again: it starts from what is there now"


class PoolUnusable(FlexNodeError):
    code, title = "FLEX-1711", "The FlexNodes pool can't be used as it is"


# --- from an answer to an error ---------------------------------------------------------------------------

# What holds all resources, by the code that says that it is missing.
HOLDERS = (
    ("SubscriptionNotFound", "subscription", "subscriptions"),
    ("ResourceGroupNotFound", "resource group", "resourceGroups"),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The signed-in identity, as far as it is known."""

    object_id: str = ""
    app_id: str = ""
    person: bool = False

    def __str__(self) -> str:
        parts = [f"object id {self.object_id}"] if self.object_id else []
        parts += [f"application {self.app_id}"] if self.app_id and not self.person else []
        return ", ".join(parts) or "the signed-in identity"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer; `path` begins at /subscriptions."""

    method: str
    path: str
    status: int
    code: str = ""
    message: str = ""
    subcode: str = ""  # of AKS
    details: tuple[tuple[str, str], ...] = ()  # code and message of each

    @property
    def request(self) -> str:
        """The request, without its query."""
        return f"{self.method} {self.path}"

    @property
    def error(self) -> ArmError:
        """The same, as the node's code judges it."""
        return ArmError(self.status, self.code, self.message, self.subcode, self.details)

    @property
    def itself(self) -> bool:
        """Whether a 404 says that the resource of the path is missing, not what it belongs to."""
        return missing(self.error, self.path) is Missing.ITSELF

    @property
    def gone(self) -> bool:
        """Whether a 404 to a deletion says that nothing is left: not the resource, or not what it was in."""
        return gone(self.error, self.path)

    @property
    def passes(self) -> bool:
        """Whether an operation was accepted, and failed with the advice to try again."""
        return self.status < 400 and asks_again(self.error)

    @property
    def missing(self) -> str:
        """What a 404 says is not there: subscription, group, the cluster, or something in it or elsewhere."""
        cluster = granted_scope(self.path)
        of_cluster = "/managedclusters/" in cluster.lower()
        set_in = " of flexnode_cluster_id" if of_cluster else ""
        for code, kind, place in HOLDERS:
            if self.code == code and (found := re.search(rf"(?i)/{place}/([^/]+)", self.path)):
                return f"{kind} {found[1]}{set_in}"
        above = missing(self.error, self.path) is Missing.ABOVE
        pool = re.search(r"(?i)/agentPools/([^/]+)", self.path)
        if above and pool and named_kind(self.error) == "agentpools":
            return f"pool {pool[1]}{set_in}"
        # The credentials of a cluster are always there; the parent of something in a cluster is the cluster.
        asked = re.fullmatch(r"(?i)(/list\w+)?", self.path[len(cluster) :])
        return (
            "the cluster set in flexnode_cluster_id" if of_cluster and (asked or above) else "this resource"
        )


# The role of FlexNodes pools; by its id, because it is not listed by name in every subscription yet.
POOL_ROLE = "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"
# The smallest built-in role for each action; the first that fits.
ROLES = (
    (r"/agentPools/(listBootstrapData/action|machines/(read|write))$", POOL_ROLE),
    (r"Microsoft\.Network/.*/(write|delete|action)$", "Network Contributor"),
    (r"/roleAssignments/(write|delete)$", "Role Based Access Control Administrator"),
    (r"HybridCompute/machines/(read|write)$", "Azure Connected Machine Onboarding"),
    (r"/listClusterAdminCredential/action$", "Azure Kubernetes Service Cluster Admin Role"),
    (r"/listClusterUserCredential/action$", "Azure Kubernetes Service Cluster User Role"),
    (r"/managedClusters/read$", "Azure Kubernetes Service Cluster User Role"),
    (r"/read$", "Reader"),
    (r"/managedClusters/", "Azure Kubernetes Service Contributor Role"),
    (r"", "Contributor"),
)
_CLIENT = r"client '(?P<client>[^']*)'"
_OBJECT = r"object id '(?P<object>[^']*)'"
_ACTION = r"action '(?P<action>[^']*)'"
_SCOPE = r"scope '(?P<scope>[^']*)'"
# Who writes a resource needs rights at others that it names. Several are listed, in the same order.
_LINKED = r"perform action\(s\) '(?P<action>[^']*)' on the linked scope\(s\) '(?P<scope>[^']*)'"
_PROVIDERS = r"(?P<scope>.*)/providers/(?P<namespace>[^/]+)(?P<rest>(/[^/]+)+)"


def explained(refusal: Refusal, who: Identity | None = None) -> FlexNodeError:
    """The error for an answer of Resource Manager."""
    if refusal.status == 403 and "AuthorizationFailed" in refusal.code:
        return permission_error(refusal, who or Identity())
    why = ": ".join(part for part in (refusal.code, refusal.message) if part)
    if refusal.status == 401:
        return SignInFailed("Azure does not accept the token", where=refusal.request, why=why)
    error: NotInAzure | AzureRefuses | AzureUnavailable | ChangedMeanwhile
    if refusal.status == 404:
        error = NotInAzure(f"{refusal.missing} was not found in Azure", where=refusal.path, why=why)
    elif refusal.status == 429 or refusal.status >= 500:
        busy = "is busy" if refusal.status in (429, 503) else "fails"
        what = f"Azure {busy} in all attempts (HTTP {refusal.status})"
        error = AzureUnavailable(what, where=refusal.request, why=why, fix="run this again in a few minutes")
    elif refusal.status == 412 or (
        (refusal.status, refusal.code) == (409, "EtagMismatch") and not another_operation(refusal.error)
    ):
        error = ChangedMeanwhile("the resource was changed meanwhile", where=refusal.request, why=why)
    else:
        what = f"Azure refuses this (HTTP {refusal.status})"
        error = AzureRefuses(what, where=refusal.request, why=why)
    error.refusal = refusal
    return error


def permission_error(refusal: Refusal, who: Identity) -> PermissionMissing:
    """Which identity lacks which action where, and the command that grants it; Azure's own message counts."""
    said = {
        name: found[name]
        for name, pattern in (("client", _CLIENT), ("object", _OBJECT))
        if (found := re.search(pattern, refusal.message))
    }
    lacking = lacking_in(refusal)
    client = said.get("client", "")
    person = who.person or "@" in client
    identity = Identity(said.get("object") or who.object_id, who.app_id or client, person)
    assignee = identity.object_id or "OBJECT_ID"
    kind = "User" if person else "ServicePrincipal"
    grants = []
    for action, at in lacking:
        role = role_for(action)
        grants.append(
            f"az role assignment create --assignee-object-id {assignee} --assignee-principal-type {kind} "
            f'--role "{role}" --scope {granted_scope(at, pool=role == POOL_ROLE)}'
        )
    first, scope = lacking[0]
    return PermissionMissing(
        f"the identity may not {', '.join(dict.fromkeys(action for action, _at in lacking))}",
        where=granted_scope(scope, pool=role_for(first) == POOL_ROLE),
        why=f"{identity} has no role there that allows it"
        f"{' (a role that was assigned minutes ago may not be effective yet)' if identity.object_id else ''}",
        fix="; ".join(dict.fromkeys(grants)),
    )


def lacking_in(refusal: Refusal) -> list[tuple[str, str]]:
    """The actions that an identity lacks, each with its scope: those that Azure names, else the request's.

    LinkedAuthorizationFailed first names what the identity may do, and then what it lacks elsewhere.
    """
    if linked := re.search(_LINKED, refusal.message):
        actions, scopes = (linked[name].split(",") for name in ("action", "scope"))
        scopes += scopes[-1:] * (len(actions) - len(scopes))
        return [(one.strip(), at.strip()) for one, at in zip(actions, scopes, strict=False)]
    action, scope = (re.search(pattern, refusal.message) for pattern in (_ACTION, _SCOPE))
    return [
        (
            action["action"] if action else action_of(refusal.method, refusal.path),
            scope["scope"] if scope else refusal.path,
        )
    ]


def role_for(action: str) -> str:
    """The smallest built-in role that allows an action."""
    return next(role for pattern, role in ROLES if re.search(pattern, action, re.IGNORECASE))


def granted_scope(scope: str, *, pool: bool = False) -> str:
    """Roles are assigned on the cluster or its pool, not on a node that may not exist yet, nor on a role."""
    below = r"(/agentPools/[^/]+)?" if pool else ""
    found = re.match(rf"(?i).*?/managedClusters/[^/]+{below}", scope)
    found = found or re.match(r"(?i).*(?=/providers/Microsoft\.Network/)", scope)  # it may not exist yet
    return found[0] if found else re.sub(r"(?i)(?<=.)/providers/Microsoft\.Authorization(/.*)?$", "", scope)


def action_of(method: str, path: str) -> str:
    """The action that a request needs, by Resource Manager's rules: type, and what is done to it."""
    found = re.fullmatch(_PROVIDERS, path.rstrip("/"))
    if not found:
        return f"{method} {path}"
    kinds = [found["namespace"], *found["rest"].strip("/").split("/")[::2]]
    verb = {"GET": "read", "HEAD": "read", "DELETE": "delete", "POST": "action"}.get(method, "write")
    return "/".join((*kinds, verb))
