#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_pool_info
short_description: List FlexNodes pools of an AKS cluster with their machines
version_added: 0.1.0
description:
  - Returns the FlexNodes pools of a cluster, their machines, and what of their cluster, the feature flags of
    the preview and the permissions of the login can be read. What may not be read is left out.
  - Azure does not know whether a node works. With O(node_states=true) the Nodes of the machines are read from
    the cluster.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.azure
  - aks.flexnode.kubernetes
options:
  cluster_id:
    description:
      - Resource id of the AKS cluster.
    type: str
    required: true
  pools:
    description:
      - Names of pools, of whatever type. Without it, all FlexNodes pools of the cluster.
    type: list
    elements: str
    default: []
  machines:
    description:
      - Whether to list the machines of each pool.
    type: bool
    default: true
  node_states:
    description:
      - Whether to read the Nodes of the machines from the cluster, with O(kubeconfig), else with the
        credentials that the Azure login gets.
    type: bool
    default: false
  checks:
    description:
      - Whether to read the feature flags of the preview, and the permissions of the login at each pool.
    type: bool
    default: false
  api_version:
    description:
      - Version of the API of FlexNodes pools.
    type: str
    default: 2026-05-02-preview
requirements:
  - azure-mgmt-core
seealso:
  - module: aks.flexnode.flexnode_pool
"""

EXAMPLES = r"""
- name: List all FlexNodes pools of a cluster with their machines
  aks.flexnode.flexnode_pool_info:
    cluster_id: "{{ flexnode_cluster_id }}"
  register: found
  run_once: true

- name: Compare the machines of a pool with their Nodes
  aks.flexnode.flexnode_pool_info:
    cluster_id: "{{ flexnode_cluster_id }}"
    pools: [edge]
    node_states: true
  run_once: true
"""

RETURN = r"""
pools:
  description: The pools that exist.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool.
      type: str
      sample: edge
    id:
      description: Its resource id.
      type: str
      sample: /subscriptions/.../managedClusters/plant/agentPools/edge
    readable:
      description: Whether the login may read the pool. If not, all but its name and machines is empty.
      type: bool
      sample: true
    type:
      description: Its type.
      type: str
      sample: FlexNodes
    version:
      description: Its version of Kubernetes.
      type: str
      sample: 1.36.2
    current_version:
      description: The full version, if Azure returns it.
      type: str
      sample: 1.36.2
    max_pods:
      description: Default for new machines.
      type: int
      sample: 75
    labels:
      description: Default labels of new machines.
      type: dict
      sample: {site: lab-1}
    taints:
      description: Default taints of new machines.
      type: list
      elements: str
      sample: []
    max_unavailable:
      description: How many nodes may be down at once in an upgrade.
      type: str
      sample: "1"
    provisioning_state:
      description: What Azure says about the last change.
      type: str
      sample: Succeeded
    missing_actions:
      description:
        - With O(checks=true), the actions that the login lacks at the pool. Null if Azure does not say.
      type: list
      elements: str
      sample: []
    machines:
      description: Its machines, with O(machines=true).
      type: list
      elements: dict
      sample: [{name: edge-1, version: 1.36.2, node_state: Ready, kubelet_version: 1.36.2}]
  sample: [{name: edge, type: FlexNodes, version: 1.36.2}]
missing:
  description: Those of O(pools) that do not exist.
  returned: success
  type: list
  elements: str
  sample: []
cluster:
  description: The cluster, as far as the login may read it, and its part of a node's configuration.
  returned: success
  type: dict
  sample: {id: /subscriptions/.../managedClusters/plant, readable: true, kubernetes_version: 1.36.2}
features:
  description: With O(checks=true), the state of each feature flag of the preview that could be read.
  returned: success
  type: dict
  sample: {AKSFlexNodePreview: Registered}
identity:
  description: With O(checks=true), the object id of the login.
  returned: success
  type: str
  sample: 99999999-8888-7777-6666-555555555555
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1703}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    Clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import (
    AZURE,
    POOLS,
    login_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import (
    ARM_ERROR,
    OPERATION_SECONDS,
    Arm,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.api import Pools
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.pool import pool_name
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.reading import (
    cluster_facts,
    features,
    missing_actions,
    pools_of,
    with_nodes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import cluster_of, require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.bootstrap_token import (
    TokenClient,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import (
    KUBERNETES_ERROR,
    connected,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import YAML_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.options import (
    KUBERNETES,
    kubernetes_access,
    uses_kubernetes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **KUBERNETES,
            "cluster_id": {"type": "str", "required": True},
            "pools": {"type": "list", "elements": "str", "default": []},
            "machines": {"type": "bool", "default": True},
            "node_states": {"type": "bool", "default": False},
            "checks": {"type": "bool", "default": False},
            "api_version": POOLS["api_version"],
        },
        supports_check_mode=True,
    )
    params, more = module.params, {}
    packages = {"azure-mgmt-core": ARM_ERROR}
    if params["node_states"]:
        packages["azure-mgmt-containerservice"] = CONTAINERSERVICE_ERROR
        require(module, {"PyYAML": YAML_ERROR, "kubernetes": KUBERNETES_ERROR})
    try:
        names = [pool_name(name) for name in dict.fromkeys(params["pools"])]
        cluster = cluster_of(params["cluster_id"])
        login = login_of(module, packages)
        facts = cluster_facts(login, cluster)
        api = Pools(Arm(login, params["api_version"], 5, OPERATION_SECONDS), cluster)
        found, missing = pools_of(api, names, machines=params["machines"])
        if params["checks"]:
            for pool in found:
                pool["missing_actions"] = missing_actions(login, api, pool["name"])
            more = {"features": features(login, cluster), "identity": login.identity().object_id}
        if params["node_states"]:
            if uses_kubernetes(params, os.environ, azure=True):
                access = kubernetes_access(module)
            else:
                access = Clusters(login).access(cluster, admin=True)
            with connected(access, TokenClient) as client:
                found = with_nodes(found, client.nodes())
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(changed=False, pools=found, missing=missing, cluster=facts, **more)


if __name__ == "__main__":
    main()
