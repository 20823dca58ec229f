# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which credential is used for what: explicit choices first, else what is present."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import Problem
from .model import AZURE_METHODS, NodeConfig


def present_identities(config: NodeConfig) -> tuple[str, ...]:
    """Return the Azure identities a document brings."""
    azure = config.azure
    present = {
        "servicePrincipal": azure.service_principal is not None,
        "managedIdentity": azure.managed_identity is not None,
        "arc": azure.arc.enabled,
    }
    if azure.arc.enabled:
        # The principal then only registers the machine; at work it is Arc's identity, as in the seeds.
        present["servicePrincipal"] = False
    return tuple(method for method, there in present.items() if there)


def azure_method(config: NodeConfig) -> str | None:
    """Return the identity the node has in Azure; None: it has none, or more than one."""
    present = present_identities(config)
    explicit = config.azure_auth.method or _kubelet_azure_method(config)
    return explicit or (present[0] if len(present) == 1 else None)


def kubelet_method(config: NodeConfig) -> str | None:
    """Return the kubelet's credential; None: there is none."""
    auth = config.kubernetes_auth
    if auth.method:
        return auth.method
    # A bootstrap token is good for nothing but the join, so its presence is a choice.
    if config.azure.bootstrap_token and not auth.use_azure_auth:
        return "bootstrapToken"
    return None if auth.use_azure_auth is False else azure_method(config)


def _kubelet_azure_method(config: NodeConfig) -> str | None:
    # With several identities there, the one chosen for the kubelet serves Azure too.
    method = config.kubernetes_auth.method
    return method if method in AZURE_METHODS else None


def contradictions(config: NodeConfig) -> Iterator[Problem]:
    """Yield what can't be true at the same time in the choice of credentials."""
    auth, present = config.kubernetes_auth, present_identities(config)
    if len(present) > 1 and azure_method(config) is None:
        yield Problem(
            "azureAuth.method",
            "not given",
            " | ".join(present),
            "several identities are there: say which one",
        )
    if auth.use_azure_auth and auth.method == "bootstrapToken":
        yield Problem("kubernetesAuth.useAzureAuth", "true", "false, or another kubernetesAuth.method")
    if auth.use_azure_auth is False and auth.method in AZURE_METHODS:
        yield Problem(
            "kubernetesAuth.useAzureAuth", "false", f"true, as kubernetesAuth.method is {auth.method}"
        )
    if auth.use_azure_auth and auth.method and config.azure_auth.method not in (None, auth.method):
        yield Problem(
            "kubernetesAuth.method", auth.method, f"{config.azure_auth.method}, as useAzureAuth is true"
        )
    if auth.profile == "token" and kubelet_method(config) == "bootstrapToken":
        yield Problem(
            "kubernetesAuth.profile",
            "token",
            "certificate",
            "a bootstrap token joins once; only Entra tokens last",
        )


def missing_credentials(config: NodeConfig) -> Iterator[Problem]:
    """Yield the methods that were chosen without what they need."""
    azure = config.azure
    needs = {
        "bootstrapToken": (azure.bootstrap_token, "azure.bootstrapToken.token"),
        "servicePrincipal": (azure.service_principal, "azure.servicePrincipal"),
        "arc": (azure.arc.enabled, "azure.arc.enabled"),
    }  # managedIdentity needs nothing: absent means system-assigned
    for method in sorted({azure_method(config), kubelet_method(config)} - {None}, key=str):
        given, path = needs.get(str(method), (True, ""))
        if not given:
            yield Problem(path, "not given", f"needed by method {method}")


def kubelet_credential(config: NodeConfig) -> Iterator[Problem]:
    """Yield a problem when nothing lets the kubelet join."""
    if kubelet_method(config) is None and len(present_identities(config)) < 2:
        yield Problem(
            "kubernetesAuth.method",
            "no credential given",
            "azure.bootstrapToken, azure.servicePrincipal, azure.managedIdentity or azure.arc.enabled",
            "with useAzureAuth false only a bootstrap token can join"
            if config.kubernetes_auth.use_azure_auth is False
            else "the kubelet needs one of them to join",
        )
