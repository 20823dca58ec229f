# SPDX-License-Identifier: GPL-3.0-or-later
"""From the properties of a PUT to the configuration that a node gets."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from testbed.azure.serving.place import Place

AZURE_METHODS = ("servicePrincipal", "managedIdentity", "arc")
VERSIONED = ("kubernetes", "containerd", "runc", "cni", "npd")
SECRETS = frozenset({"clientSecret", "bootstrapToken"})

# What a PUT may hold, section by section; None is a leaf that is passed on as it is.
SCHEMA: Mapping[str, Any] = {
    "continuousMonitoring": None,
    "azureAuth": {
        "method": None,
        "servicePrincipal": {"clientId": None, "clientSecret": None, "clientTenant": None},
        "managedIdentity": {"clientId": None},
        "arc": None,
    },
    "kubernetesAuth": {"method": None, "useAzureAuth": None},
    "versions": dict.fromkeys(VERSIONED),
    "nodeConfig": {"maxPods": None, "labels": None, "taints": None, "kubelet": None},
}


class Invalid(Exception):
    """Properties that the provider does not take."""


def _check(content: Any, schema: Mapping[str, Any], path: str) -> None:
    if not isinstance(content, dict):
        raise Invalid(f"'{path}' must be an object.")
    for name, value in content.items():
        if name not in schema:
            raise Invalid(f"Could not find member '{name}' on object '{path}'. Known: {', '.join(schema)}.")
        if schema[name] is not None:
            _check(value, schema[name], f"{path}.{name}")


def parse(content: Any) -> dict[str, Any]:
    """The properties of a PUT, checked; they are whole, never a part."""
    if content is None:
        raise Invalid("The request content has no 'properties'.")
    _check(content, SCHEMA, "properties")
    properties: dict[str, Any] = content
    azure = properties.get("azureAuth", {})
    method = azure.get("method")
    if method is not None and method not in AZURE_METHODS:
        raise Invalid(f"'properties.azureAuth.method' is '{method}': it takes {', '.join(AZURE_METHODS)}.")
    if method == "servicePrincipal":
        principal = azure.get("servicePrincipal", {})
        for name in ("clientId", "clientSecret", "clientTenant"):
            if not principal.get(name):
                raise Invalid(f"'properties.azureAuth.servicePrincipal.{name}' is required.")
    if needs_azure(properties) and method is None:
        raise Invalid(
            "'properties.kubernetesAuth' asks for an Azure identity: 'properties.azureAuth.method' "
            "is required."
        )
    if properties.get("continuousMonitoring") and method is None:
        raise Invalid(
            "Continuous monitoring needs an Azure identity: 'properties.azureAuth.method' is required."
        )
    return properties


def needs_azure(properties: Mapping[str, Any]) -> bool:
    """Whether the kubelet joins with an Azure identity instead of a bootstrap token."""
    auth = properties.get("kubernetesAuth", {})
    return bool(auth.get("useAzureAuth")) or auth.get("method") in AZURE_METHODS


def document(place: Place, name: str, properties: Mapping[str, Any], token: str | None) -> dict[str, Any]:
    """The whole configuration of a node."""
    kubernetes = place.kubernetes
    authority = base64.b64encode(kubernetes.ca_pem.encode()).decode()
    azure: dict[str, Any] = {
        "subscriptionId": place.subscription_id,
        "tenantId": place.tenant_id,
        "resourceManagerEndpoint": place.origin,
        "activeDirectoryEndpoint": place.origin,
        "targetCluster": {
            "resourceId": place.cluster_id,
            "location": place.location,
            "nodeResourceGroup": place.node_resource_group,
        },
    }
    auth = properties.get("azureAuth", {})
    for method in AZURE_METHODS:
        if method in auth:
            azure[method] = auth[method]
    if auth.get("method") == "arc":
        azure["arc"] = {"enabled": True, **(auth.get("arc") or {})}
    if token:
        azure["bootstrapToken"] = {"token": token}
    content = properties.get("nodeConfig", {})
    kubelet = {
        **(content.get("kubelet") or {}),
        "dnsServiceIP": kubernetes.dns_service_ip,
        "serverURL": kubernetes.server,
        "caCertData": authority,
        "clientCAData": authority,
    }
    versions = {"kubernetes": kubernetes.version, **properties.get("versions", {})}
    config: dict[str, Any] = {
        "continuousMonitoring": bool(properties.get("continuousMonitoring")),
        "azure": azure,
        **{part: {"version": versions[part]} for part in VERSIONED if versions.get(part)},
        "network": {"serviceCIDR": kubernetes.service_cidr, "podCIDR": kubernetes.pod_cidr},
        "node": {
            **{key: content[key] for key in ("maxPods", "labels", "taints") if key in content},
            "kubelet": kubelet,
        },
        "agent": {"nodeName": name},
    }
    if "method" in auth:
        config["azureAuth"] = {"method": auth["method"]}
    if properties.get("kubernetesAuth"):
        config["kubernetesAuth"] = properties["kubernetesAuth"]
    return config


def text(config: Mapping[str, Any], version: int) -> bytes:
    """The bundle as it lies at the configUrl."""
    return json.dumps({"config": config, "configVersion": str(version)}, indent=1).encode() + b"\n"


def without_secrets(content: Any) -> Any:
    """The same without what no answer may show."""
    if isinstance(content, Mapping):
        return {name: without_secrets(value) for name, value in content.items() if name not in SECRETS}
    if isinstance(content, list):
        return [without_secrets(value) for value in content]
    return content
