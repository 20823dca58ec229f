# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user would write for this cluster: node configuration and Ansible inventory."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from testbed.cluster import Cluster
from testbed.layout import versions
from testbed.layout.identifiers import (
    CLUSTER_ID,
    LOCATION,
    NODE_RESOURCE_GROUP,
    SUBSCRIPTION_ID,
    TENANT_ID,
)
from testbed.machine import Machine
from testbed.mirror import Mirror
from testbed.services.registry import Registry

# What differs between a testbed and a real site: where binaries and images come from.
SITE = ("containerd", "runc", "cni", "mirror", "registryMirrors")
GROUP = "aks_flexnode"
"""The group of an inventory that the playbooks act on by default."""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def node_document(cluster: Cluster, mirror: Mirror, registry: Registry, ca_pem: str) -> dict[str, Any]:
    """The configuration of a node of this cluster, without credentials and what differs between nodes."""
    return {
        "azure": {
            "subscriptionId": SUBSCRIPTION_ID,
            "tenantId": TENANT_ID,
            "targetCluster": {
                "resourceId": CLUSTER_ID,
                "location": LOCATION,
                "nodeResourceGroup": NODE_RESOURCE_GROUP,
            },
        },
        "kubernetes": {"version": cluster.version},
        "containerd": {"version": versions.CONTAINERD, "pauseImage": registry.pause_image},
        "runc": {"version": versions.RUNC},
        "cni": {"version": versions.CNI_PLUGINS, "mode": "bridge"},
        "network": {"serviceCIDR": cluster.service_cidr, "podCIDR": cluster.pod_cidr},
        "node": {
            "kubelet": {
                "dnsServiceIP": cluster.dns_service_ip,
                "serverURL": cluster.server,
                "caCertData": _base64(cluster.ca_pem),
                "clientCAData": _base64(cluster.ca_pem),
            }
        },
        "mirror": {"url": mirror.url, "catalogue": mirror.catalogue, "caCert": ca_pem},
        "registryMirrors": {registry.host: {"endpoints": [f"https://{registry.host}"], "caCert": ca_pem}},
    }


def inventory(machines: Iterable[Machine], **variables: Any) -> dict[str, Any]:
    """An Ansible inventory; hosts are checked against the keys that were generated for them."""
    checked = "-o StrictHostKeyChecking=yes -o UserKnownHostsFile="
    hosts = {
        machine.name: {
            "ansible_host": machine.ip,
            "ansible_user": machine.ssh_user,
            "ansible_ssh_private_key_file": str(machine.ssh_key),
            "ansible_ssh_common_args": f"{checked}{machine.known_hosts}",
            "ansible_become": True,
            "ansible_python_interpreter": "/usr/bin/python3",
            "flexnode_host_config": {"cni": {"podCIDR": machine.pod_cidr}},
        }
        for machine in machines
    }
    group: dict[str, Any] = {"hosts": {name: {} for name in hosts}}
    return {"all": {"hosts": hosts, "vars": variables, "children": {GROUP: group}}}
