#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_cluster_info
short_description: Read AKS clusters for the configuration of their nodes
version_added: 0.1.0
description:
  - Reads AKS clusters and returns what a node needs to know of them, as a part of a node's configuration
    document. That is the URL and CA of the API server, the Kubernetes version, the DNS service, the address
    ranges, the tenant and the node resource group.
  - The right to list a user's credential of the cluster is enough. No secret is returned.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.azure
options:
  cluster_ids:
    description:
      - Resource ids of AKS clusters. Each is read once, even if it is listed several times.
    type: list
    elements: str
    required: true
requirements:
  - azure-mgmt-containerservice
  - PyYAML
seealso:
  - module: aks.flexnode.flexnode_bootstrap_token
"""

EXAMPLES = r"""
- name: Read a cluster
  aks.flexnode.flexnode_cluster_info:
    cluster_ids: ["{{ flexnode_cluster_id }}"]
  register: found
  run_once: true

- name: Show the cluster's part of the configuration of its nodes
  ansible.builtin.debug:
    var: found.clusters[0].document
"""

RETURN = r"""
clusters:
  description: The clusters, each once, in the order of O(cluster_ids).
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Resource id, in Azure's own spelling.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    name:
      description: Name of the cluster.
      type: str
      sample: plant
    location:
      description: Its region.
      type: str
      sample: westeurope
    document:
      description: The part of a node's configuration document that the cluster determines.
      type: dict
      sample: {kubernetes: {version: 1.34.4}, node: {kubelet: {dnsServiceIP: 10.0.0.10}}}
    kubernetes_version:
      description: Version that runs.
      type: str
      sample: 1.34.4
    provisioning_state:
      description: What Azure says about the last change of the cluster.
      type: str
      sample: Succeeded
    power_state:
      description: V(Running) or V(Stopped).
      type: str
      sample: Running
    local_accounts:
      description: Whether the cluster has certificates of its own for administrators.
      type: bool
      sample: true
    node_resource_group:
      description: AKS's own resource group for the cluster.
      type: str
      sample: MC_rg_plant_westeurope
    network_plugin:
      description: The cluster's network plugin.
      type: str
      sample: azure
  sample: [{name: plant, power_state: Running, local_accounts: true}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where clusters failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1703}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    YAML_ERROR,
    Clusters,
    cluster_ids_of,
    described,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES, in_parallel


def main() -> None:
    module = AnsibleModule(
        argument_spec={**AZURE, "cluster_ids": {"type": "list", "elements": "str", "required": True}},
        supports_check_mode=True,
    )
    packages = {
        "azure-mgmt-core": ARM_ERROR,
        "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR,
        "PyYAML": YAML_ERROR,
    }
    try:
        ids = cluster_ids_of(module.params["cluster_ids"])
        clusters = Clusters(login_of(module, packages))
        found = in_parallel(lambda cluster: described(clusters, cluster), ids, str)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(changed=False, clusters=found)


if __name__ == "__main__":
    main()
