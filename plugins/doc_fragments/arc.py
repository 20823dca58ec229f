# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules that query the Azure Arc agent of a machine."""

from __future__ import annotations


class ModuleDocFragment:
    """Which roles the machine's own identity needs, and how that is checked."""

    DOCUMENTATION = r"""
options:
  cloud:
    description:
      - Which Azure.
    type: str
    choices: [AzurePublicCloud, AzureUSGovernment, AzureChinaCloud]
    default: AzurePublicCloud
  proxy:
    description:
      - Proxy URL. Without it, no proxy is used, and the agent's own setting stays. An empty text clears it.
      - The agent does not support a user and password in it.
    type: str
  cluster_id:
    description:
      - Resource id of the AKS cluster. With it, the roles that the machine's own identity lacks there are
        returned.
    type: str
  pool:
    description:
      - Name of the FlexNodes pool of the machine. The roles are then needed at the pool, not at its cluster.
    type: str
  profile:
    description:
      - The C(kubernetesAuth.profile) of the node. V(token) needs wider roles than V(certificate).
    type: str
    choices: [certificate, token]
    default: certificate
  roles:
    description:
      - The roles that are needed at O(cluster_id), instead of those of O(profile).
    type: list
    elements: str
    choices: [reader, rbac-cluster-admin, cluster-admin, flex-node-agent]
  server_url:
    description:
      - URL of the cluster's API server, if the kubelet is to use the machine's identity. With it, the API
        server is asked as well what the identity may do there.
      - A kubelet that has its certificate needs no further right, and the API server is not asked.
    type: str
  ca_cert_data:
    description:
      - The API server's CA, PEM in base64. Needed with O(server_url).
    type: str
  node_name:
    description:
      - Name of the Node, for the commands that are shown. Without it, the host name.
    type: str
  kubelet_dir:
    description:
      - Directory of the kubelet's certificate.
    type: path
    default: /var/lib/kubelet
  resource_manager_endpoint:
    description:
      - URL of Azure Resource Manager. Without it, that of O(cloud).
    type: str
"""
