# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a field is when the document does not give it."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from tests.unit.node.config.test_samples import joining


def attribute(config: object, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("continuous_monitoring", False),
        ("azure.cloud", "AzurePublicCloud"),
        ("azure.resource_manager", "https://management.azure.com"),
        ("azure.sign_in", "https://login.microsoftonline.com"),
        ("azure.arc.enabled", False),
        ("azure.arc.resource_group", "rg"),
        ("azure.arc.tags", {}),
        ("azure.arc.auto_role_assignment", False),
        ("azure.vpn.enabled", False),
        ("azure.vpn.p2s_gateway_cidr", ip_network("192.168.100.0/24")),
        ("azure.vpn.gateway_sku", "VpnGw2AZ"),
        ("kubernetes_auth.profile", "certificate"),
        ("containerd.metrics_address", "127.0.0.1:10257"),
        ("cni.mode", "none"),
        ("npd.version", None),
        ("node.max_pods", 110),
        ("node.labels", {}),
        ("node.taints", ()),
        ("node.kubelet.image_gc_high_threshold", 85),
        ("node.kubelet.image_gc_low_threshold", 80),
        ("node.kubelet.kube_reserved", None),
        ("node.kubelet.verbosity", 2),
        ("cluster_dns", ip_address("10.0.0.10")),
        ("paths.config_dir", "/etc/aks-flex-node"),
        ("paths.data_dir", "/var/lib/aks-flex-node"),
        ("paths.log_dir", "/var/log/aks-flex-node"),
        ("paths.kubernetes.volume_plugin_dir", "/etc/kubernetes/volumeplugins"),
        ("paths.kubernetes.kubelet_dir", "/var/lib/kubelet"),
        ("paths.cni.bin_dir", "/opt/cni/bin"),
        ("agent.log_level", "info"),
        ("log_file", "/var/log/aks-flex-node/agent.log"),
        ("proxy.http", None),
        ("proxy.no", ()),
        ("mirror.url", None),
        ("registry_mirrors", {}),
        ("drift.mode", "repair"),
        ("drift.interval", 150),
        ("upgrade.drain", "minor"),
        ("upgrade.gate_seconds", 120),
        ("upgrade.max_unavailable", None),
        ("pull.repository", None),
        ("hooks.before", ()),
        ("takeover", False),
        ("write_admin_conf", False),
        ("kubelet.config_overrides", {}),
    ],
)
def test_default(path: str, expected: object) -> None:
    assert attribute(parse(joining()), path) == expected
