# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which credential is used for what: explicit choices first, then what is present."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import NOT_SET, Problem
from .choices import Choices
from .model import AZURE_METHODS, NodeConfig


def present_identities(config: NodeConfig) -> tuple[str, ...]:
    """Return the Azure identities of a document."""
    return _choices(config).identities


def azure_method(config: NodeConfig) -> str | None:
    """Return the node's Azure identity; None: it has none, or more than one."""
    return _choices(config).azure_method


def kubelet_method(config: NodeConfig) -> str | None:
    """Return the kubelet's credential; None: there is none."""
    return _choices(config).kubelet_method


def _choices(config: NodeConfig) -> Choices:
    azure = config.azure
    return Choices(
        azure=config.azure_auth.method,
        kubelet=config.kubernetes_auth.method,
        use_azure_auth=config.kubernetes_auth.use_azure_auth,
        bootstrap_token=azure.bootstrap_token is not None,
        service_principal=azure.service_principal is not None,
        managed_identity=azure.managed_identity is not None,
        arc=azure.arc.enabled,
        pool=azure.target_agent_pool_name is not None,
    )


def contradictions(config: NodeConfig) -> Iterator[Problem]:
    """Yield contradictions in the choice of credentials."""
    auth, present = config.kubernetes_auth, present_identities(config)
    if len(present) > 1 and azure_method(config) is None:
        yield Problem(
            "azureAuth.method",
            NOT_SET,
            " | ".join(present),
            "there are several identities",
        )
    if auth.use_azure_auth and auth.method == "bootstrapToken":
        accepted = "false, or another kubernetesAuth.method"
        hint = "kubernetesAuth.method is bootstrapToken"
        yield Problem("kubernetesAuth.useAzureAuth", "true", accepted, hint)
    if auth.use_azure_auth is False and auth.method in AZURE_METHODS:
        hint = f"kubernetesAuth.method is {auth.method}"
        yield Problem("kubernetesAuth.useAzureAuth", "false", "true", hint)
    if auth.use_azure_auth and auth.method and config.azure_auth.method not in (None, auth.method):
        wanted = config.azure_auth.method
        hint = f"azureAuth.method is {wanted}, and useAzureAuth is true"
        yield Problem("kubernetesAuth.method", auth.method, wanted, hint)
    if auth.profile == "token" and kubelet_method(config) == "bootstrapToken":
        yield Problem(
            "kubernetesAuth.profile",
            "token",
            "certificate",
            "a bootstrap token is valid for one join; only Entra tokens can be renewed",
        )


def missing_credentials(config: NodeConfig) -> Iterator[Problem]:
    """Yield the chosen methods whose credential is missing."""
    azure = config.azure
    needs = {
        "bootstrapToken": (
            # The token of a pool is fetched when it is needed, and removed after the join.
            azure.bootstrap_token or azure.target_agent_pool_name,
            "azure.bootstrapToken.token",
            "a bootstrap token",
        ),
        "servicePrincipal": (azure.service_principal, "azure.servicePrincipal", "a service principal"),
        "arc": (azure.arc.enabled, "azure.arc.enabled", "true"),
    }  # managedIdentity needs nothing: absent means system-assigned
    for method in sorted({azure_method(config), kubelet_method(config)} - {None}, key=str):
        present, path, accepted = needs.get(str(method), (True, "", ""))
        if not present:
            yield Problem(path, NOT_SET, accepted, f"method {method} needs it")


def kubelet_credential(config: NodeConfig) -> Iterator[Problem]:
    """Yield a problem if the kubelet has no credential to join."""
    if kubelet_method(config) is None and len(present_identities(config)) < 2:
        yield Problem(
            "kubernetesAuth.method",
            "without a credential",
            "azure.bootstrapToken, azure.servicePrincipal, azure.managedIdentity or azure.arc.enabled",
            "with useAzureAuth false only a bootstrap token can join"
            if config.kubernetes_auth.use_azure_auth is False
            else "the kubelet needs one to join",
        )
