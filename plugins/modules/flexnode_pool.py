#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_pool
short_description: Manage a FlexNodes pool of an AKS cluster
version_added: 0.1.0
description:
  - Creates, changes, upgrades and deletes a FlexNodes pool, the kind of node pool that machines outside
    Azure belong to.
  - Labels, taints and O(max_pods) of a pool are defaults for machines that join later. A change here changes
    no machine that exists.
  - A new O(version) is an upgrade of the pool. AKS goes through its machines, at most O(max_unavailable) at
    a time. The module waits until Azure reports the end, see O(operation_timeout). That the pool has the new
    version is no proof that each node has. Compare with C(kubectl get nodes).
  - Before a change the module waits for an operation that runs on the cluster.
  - A setting that Azure accepted, but did not take, is a warning and no change.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.pools
options:
  state:
    description:
      - V(present) creates or changes the pool.
      - V(absent) deletes it. A pool that has machines is an error, unless O(delete_machines=true).
        A cluster, a resource group or a subscription that does not exist is an error as well.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - Version of Kubernetes, such as V(1.36.2) or V(1.36). It must not be newer than the control plane.
        Without it, a new pool has the version of the control plane, and an existing one keeps its own.
    type: str
  max_pods:
    description:
      - Default for new machines. The value of an existing machine can't be changed.
    type: int
  labels:
    description:
      - Default labels of new machines, all of them. Without it, they stay as they are.
    type: dict
  taints:
    description:
      - Default taints of new machines, all of them, as KEY=VALUE:EFFECT. Without it, they stay as they are.
    type: list
    elements: str
  max_unavailable:
    description:
      - How many nodes may be down at once while AKS upgrades the pool, a number or a percentage such as
        V(10%).
      - Azure takes it when a pool is created, and keeps it afterwards. Another value for a pool that exists
        is a warning, and no change.
    type: str
  delete_machines:
    description:
      - With O(state=absent), delete the machines of the pool first.
      - A node that follows its machine leaves by itself only while the pool still lists its machines. So
        unbootstrap the hosts before; or delete the machines with M(aks.flexnode.flexnode_machine), wait until
        their Nodes are gone, and delete the pool then. Nodes whose pool is gone stay until they are
        unbootstrapped.
    type: bool
    default: false
seealso:
  - module: aks.flexnode.flexnode_pool_info
  - module: aks.flexnode.flexnode_machine
"""

EXAMPLES = r"""
- name: Create a pool
  aks.flexnode.flexnode_pool:
    cluster_id: "{{ flexnode_cluster_id }}"
    pool: edge
    version: 1.36.2
    max_pods: 75
    labels: {site: lab-1}
    max_unavailable: "1"
  run_once: true

- name: Upgrade the pool, node by node
  aks.flexnode.flexnode_pool:
    cluster_id: "{{ flexnode_cluster_id }}"
    pool: edge
    version: 1.36.3
    operation_timeout: 7200
  run_once: true

- name: Delete the pool with its machines
  aks.flexnode.flexnode_pool:
    cluster_id: "{{ flexnode_cluster_id }}"
    pool: edge
    state: absent
    delete_machines: true
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [create pool edge (it does not exist)]
pool:
  description: The pool. Empty after O(state=absent).
  returned: success
  type: dict
  sample: {name: edge, type: FlexNodes, version: 1.36.2, max_pods: 75, labels: {site: lab-1}, taints: []}
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1711}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import (
    AZURE,
    POOLS,
    login_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR, Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.api import (
    CLUSTER_API_VERSION,
    Pools,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.busy import Idle
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.life import (
    keep_absent,
    keep_present,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.pool import (
    WantedPool,
    pool_name,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import cluster_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **POOLS,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": {"type": "str"},
            "max_pods": {"type": "int"},
            "labels": {"type": "dict"},
            "taints": {"type": "list", "elements": "str"},
            "max_unavailable": {"type": "str"},
            "delete_machines": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    try:
        cluster, name = cluster_of(params["cluster_id"]), pool_name(params["pool"])
        wanted = WantedPool.of(params)
        login = login_of(module, {"azure-mgmt-core": ARM_ERROR})
        pause, seconds = params["poll_interval"], params["operation_timeout"]
        pools = Pools(Arm(login, params["api_version"], pause, seconds), cluster)
        cluster_api = Arm(login, CLUSTER_API_VERSION, pause, seconds)
        idle = Idle(cluster_api, cluster, SystemClock(), pause=pause, seconds=seconds)
        if params["state"] == "absent":
            done = keep_absent(pools, name, idle, machines_too=params["delete_machines"], check=check)
        else:
            done = keep_present(pools, name, wanted, idle, check=check)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        if done.note:
            module.warn(done.note)
        module.exit_json(changed=bool(done.actions), actions=done.actions, pool=done.pool, diff=done.diff)


if __name__ == "__main__":
    main()
