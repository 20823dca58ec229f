# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the modules arc_register and arc_info, without the code behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The options of the doc fragment aks.flexnode.arc. The choices are names in tables of the node's code, which
# must not be imported here: Ansible would pack it a second time.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cloud": {
        "type": "str",
        "choices": ["AzurePublicCloud", "AzureUSGovernment", "AzureChinaCloud"],
        "default": "AzurePublicCloud",
    },
    "proxy": {"type": "str", "no_log": True},
    "cluster_id": {"type": "str"},
    "pool": {"type": "str"},
    "profile": {"type": "str", "choices": ["certificate", "token"], "default": "certificate"},
    "roles": {
        "type": "list",
        "elements": "str",
        "choices": ["reader", "rbac-cluster-admin", "cluster-admin", "flex-node-agent"],
    },
    "server_url": {"type": "str"},
    "ca_cert_data": {"type": "str"},
    "node_name": {"type": "str"},
    "kubelet_dir": {"type": "path", "default": "/var/lib/kubelet"},
    "resource_manager_endpoint": {"type": "str"},
}
