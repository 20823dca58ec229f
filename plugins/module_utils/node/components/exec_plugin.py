# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's exec plugin: how it gets Entra tokens, if it authenticates with an Azure identity."""

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
SECONDS = 100  # more than the longest wait that Azure documents for updates of its metadata service
# A plugin does not inherit the kubelet's environment: it gets the variables of its kubeconfig.
ARC_ENVIRONMENT = {
    "IDENTITY_ENDPOINT": "http://127.0.0.1:40342/metadata/identity/oauth2/token",
    "IMDS_ENDPOINT": "http://127.0.0.1:40342",
}


def identity_method(config: NodeConfig) -> str | None:
    """The Azure identity of the kubelet; None: it joins with a bootstrap token."""
    method = kubelet_method(config)
    return method if method in AZURE_METHODS else None


def uses_tokens(config: NodeConfig) -> bool:
    """Whether the kubelet always authenticates with Entra tokens, without a certificate."""
    return identity_method(config) is not None and config.kubernetes_auth.profile == "token"


def script_path(config: NodeConfig) -> str:
    """The path of the plugin."""
    return f"{config.paths.kubernetes.kubelet_dir}/token.sh"


def identity_path(config: NodeConfig) -> str:
    """The file with the plugin's identity; it is rolled back with the kubelet's other files."""
    return f"{config.paths.kubernetes.kubelet_dir}/token-identity.json"


def resources(config: NodeConfig, restarts: tuple[str, ...]) -> list[Resource]:
    """The plugin and its identity, if the kubelet has one. The kubelet runs it for each new token."""
    if identity_method(config) is None:
        return []
    return [
        File(identity_path(config), identity_document(config), 0o600, restarts=restarts, secret=True),
        File(script_path(config), script(config), 0o700),
    ]


def identity_document(config: NodeConfig) -> str:
    """The part of the configuration that is needed to get tokens, as a document."""
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
    return json.dumps(_without_absent(document), indent=1) + "\n"


def _without_absent(document: dict[str, Any]) -> dict[str, Any]:
    """The document without absent values."""
    return {
        key: _without_absent(value) if isinstance(value, dict) else value
        for key, value in document.items()
        if value is not None and (value != {} or key == "managedIdentity")
    }


def user(config: NodeConfig) -> dict[str, Any]:
    """The kubeconfig user that runs the plugin."""
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
    """The plugin. It contains no secret, but is only for root: it prints one."""
    return f"""#!/bin/sh
# Managed by {COMMAND}. Prints an ExecCredential for the kubelet; errors go to standard error.
timeout --kill-after=5 {SECONDS} {BIN_DIR}/{COMMAND} token --identity {shlex.quote(identity_path(config))}
status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
  echo "{COMMAND} token: no token within {SECONDS} s; see: {COMMAND} token --check" >&2
fi
exit "$status"
"""
