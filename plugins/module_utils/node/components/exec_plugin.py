# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's exec plugin: how it asks for Entra tokens, where its identity is one of Azure's."""

from __future__ import annotations

import json
import shlex
from typing import Any

from ..config.auth import kubelet_method
from ..config.model import AZURE_METHODS, NodeConfig
from ..machine.layout import BIN_DIR
from ..machine.program import COMMAND
from ..resources.base import Resource
from ..resources.paths import File

API = "client.authentication.k8s.io/v1"
SECONDS = 100  # more than Azure wants a client to wait while it updates its metadata service
# The kubelet's own environment does not reach a plugin: it gets what its kubeconfig names.
ARC_ENVIRONMENT = {
    "IDENTITY_ENDPOINT": "http://127.0.0.1:40342/metadata/identity/oauth2/token",
    "IMDS_ENDPOINT": "http://127.0.0.1:40342",
}


def identity_method(config: NodeConfig) -> str | None:
    """The Azure identity that the kubelet shows; None: it joins with a bootstrap token."""
    method = kubelet_method(config)
    return method if method in AZURE_METHODS else None


def lives_on_tokens(config: NodeConfig) -> bool:
    """Whether the kubelet shows Entra tokens for all its life, instead of a certificate of its own."""
    return identity_method(config) is not None and config.kubernetes_auth.profile == "token"


def script_path(config: NodeConfig) -> str:
    """Where the plugin is."""
    return f"{config.paths.kubernetes.kubelet_dir}/token.sh"


def identity_path(config: NodeConfig) -> str:
    """Which identity the plugin shows: a file of its own, which is rolled back with the kubelet's others."""
    return f"{config.paths.kubernetes.kubelet_dir}/token-identity.json"


def resources(config: NodeConfig, restarts: tuple[str, ...]) -> list[Resource]:
    """The plugin and its identity, where they are needed. The kubelet runs it for each new token."""
    if identity_method(config) is None:
        return []
    return [
        File(identity_path(config), identity_document(config), 0o600, restarts=restarts, secret=True),
        File(script_path(config), script(config), 0o700),
    ]


def identity_document(config: NodeConfig) -> str:
    """The part of the configuration that tokens need, as a configuration of its own."""
    azure, proxy, method = config.azure, config.proxy, identity_method(config)
    principal, managed = azure.service_principal, azure.managed_identity
    secret = principal.client_secret if principal else None
    identities: dict[str, Any] = {}
    if principal and method == "servicePrincipal":
        identities["servicePrincipal"] = {
            "clientId": principal.client_id,
            "clientTenant": principal.client_tenant,
            "clientSecret": secret.reveal() if secret else None,
            "clientSecretFile": principal.client_secret_file,
            "clientCertificateFile": getattr(principal, "client_certificate_file", None),
        }
    if method == "managedIdentity":
        identities["managedIdentity"] = {"clientId": managed.client_id if managed else None}
    if method == "arc":
        identities["arc"] = {"enabled": True, "location": azure.arc.location or azure.target_cluster.location}
    document = {
        "azure": {
            "tenantId": azure.tenant_id,
            "cloud": azure.cloud,
            "activeDirectoryEndpoint": azure.active_directory_endpoint,
            "resourceManagerEndpoint": azure.resource_manager_endpoint,
            **identities,
        },
        "kubernetesAuth": {"method": method},
        "proxy": {
            "http": proxy.http.reveal() if proxy.http else None,
            "https": proxy.https.reveal() if proxy.https else None,
            "no": list(proxy.no) or None,
        },
        "kubernetes": {"version": str(config.kubernetes.version)},
    }
    return json.dumps(_given(document), indent=1) + "\n"


def _given(document: dict[str, Any]) -> dict[str, Any]:
    """Without what is absent: an absent value is not a value."""
    return {
        key: _given(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if value is not None and (value != {} or key == "managedIdentity")
    }


def user(config: NodeConfig) -> dict[str, Any]:
    """The user of a kubeconfig that asks the plugin."""
    environment = ARC_ENVIRONMENT if identity_method(config) == "arc" else {}
    return {
        "exec": {
            "apiVersion": API,
            "command": script_path(config),
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }
    }


def script(config: NodeConfig) -> str:
    """It holds no secret, and is root's alone all the same: what it prints is one."""
    return f"""#!/bin/sh
# Managed by {COMMAND}. Prints an ExecCredential for the kubelet; what goes wrong is told on standard error.
timeout --kill-after=5 {SECONDS} {BIN_DIR}/{COMMAND} token --identity {shlex.quote(identity_path(config))}
status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
  echo "{COMMAND} token: no token within {SECONDS} s; see: {COMMAND} token --check" >&2
fi
exit "$status"
"""
