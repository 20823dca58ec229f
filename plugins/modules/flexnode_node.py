#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_node
short_description: Manage Node objects of a cluster
version_added: 0.1.0
description:
  - Waits for Nodes to be Ready, sets labels and taints, cordons, drains, uncordons and deletes them.
  - With O(kubeconfig), O(context), O(host) or O(cluster_id) it runs on the controller, whatever machine the
    task is for.
  - Without them it runs on a joined machine and signs in as the machine's own kubelet, which may change its
    own Node only, and not its taints.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.kubernetes
  - aks.flexnode.node_code
options:
  cluster_id:
    description:
      - Resource id of the AKS cluster of the Nodes, instead of O(kubeconfig) and O(host). An administrator's
        credential is obtained with the Azure login or, where local accounts are disabled, the login itself
        is used, which then needs the rights in the cluster.
    type: str
  names:
    description:
      - Names of the Nodes. Without it, the Node of this machine, and the environment is not read.
        They, or O(nodes), are needed with O(kubeconfig), O(host) and O(cluster_id).
    type: list
    elements: str
    default: []
  nodes:
    description:
      - Nodes with what is known of their machines, as
        RV(aks.flexnode.flexnode_reconcile#module:machine) returns it. Machines of two clusters may have the
        same name. A Node whose kubelet reports another machine id is not changed, and the module fails.
      - If there is no such Node, the cluster is compared. It is the same if it has the same URL (host and
        port), or shares a CA certificate. Else the module fails, also with O(state=absent), as the Node may
        exist in another cluster.
      - Without O(names), a machine id is needed, or a Node that reports one is not changed. Else what is
        empty is not compared. With O(names), it is about those that are named there.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      machine_id:
        description: Content of C(/etc/machine-id) of the machine.
        type: str
        default: ""
      api_server:
        description: URL of the API server, as the machine knows it.
        type: str
        default: ""
      ca_sha256:
        description: SHA-256 of the CA certificates that the machine trusts the API server with.
        type: list
        elements: str
        default: []
  state:
    description:
      - V(present) for Nodes that must exist, V(absent) deletes them.
    type: str
    choices: [present, absent]
    default: present
  ready:
    description:
      - Wait until the Nodes are Ready.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait for each Node to be Ready, or to be drained.
    type: int
    default: 120
  labels:
    description:
      - Labels to set. A label whose value is V(null) is removed.
    type: dict
    default: {}
  taints:
    description:
      - Taints to set, each in place of one with the same key and effect. Other taints stay.
    type: list
    elements: dict
    suboptions:
      key:
        description: The taint's key.
        type: str
        required: true
      value:
        description: The taint's value.
        type: str
        default: ""
      effect:
        description: What it does to pods.
        type: str
        required: true
        choices: [NoSchedule, PreferNoSchedule, NoExecute]
  taints_absent:
    description:
      - Taints to remove, whatever their value.
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description: The taint's key.
        type: str
        required: true
      effect:
        description: What it does to pods.
        type: str
        required: true
        choices: [NoSchedule, PreferNoSchedule, NoExecute]
  unschedulable:
    description:
      - V(true) cordons, V(false) uncordons.
    type: bool
  drain:
    description:
      - Cordon and evict the pods, as their disruption budgets allow.
    type: bool
    default: false
requirements:
  - azure-mgmt-containerservice, with O(cluster_id)
"""

EXAMPLES = r"""
- name: Wait until two nodes are Ready
  aks.flexnode.flexnode_node:
    names: [edge-1, edge-2]
    ready: true
    kubeconfig: ~/.kube/config
  run_once: true

- name: Reserve a node for GPU workloads
  aks.flexnode.flexnode_node:
    names: [edge-1]
    taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
    taints_absent: [{key: maintenance, effect: NoExecute}]
    cluster_id: "{{ flexnode_cluster_id }}"

- name: Delete the Node of a machine that has left, if it is this machine's
  aks.flexnode.flexnode_node:
    nodes: ["{{ left.machine | combine({'name': left.node_name}) }}"]
    state: absent
    kubeconfig: ~/.kube/config

- name: Delete a Node whose machine is gone
  aks.flexnode.flexnode_node:
    names: [edge-3]
    state: absent
    kubeconfig: ~/.kube/config
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [delete Node edge-3]
nodes:
  description: Readiness and kubelet version of every Node that exists.
  returned: success
  type: list
  elements: dict
  sample: [{name: edge-1, ready: true, kubeletVersion: 1.34.4}]
remains:
  description: Pods that did not leave before the end of a drain, each with the reason.
  returned: success
  type: list
  elements: str
  sample: [default/web-0 (PodDisruptionBudget web)]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1505}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    Clusters,
    cluster_ids_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import (
    KUBERNETES_ERROR,
    connected,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import (
    YAML_ERROR,
    Access,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.nodes import (
    NodeClient,
    NodesOfMachines,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.options import (
    KUBERNETES,
    kubernetes_access,
    uses_kubernetes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.targets import targets_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock
from ansible_collections.aks.flexnode.plugins.module_utils.node_code import NODE_CODE, run_node_code
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.node_changes import apply_nodes


def main() -> None:
    taint = {
        "key": {"type": "str", "required": True, "no_log": False},
        "effect": {
            "type": "str",
            "required": True,
            "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
        },
    }
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **KUBERNETES,
            **NODE_CODE,
            "cluster_id": {"type": "str"},
            "names": {"type": "list", "elements": "str", "default": []},
            "nodes": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "machine_id": {"type": "str", "default": ""},
                    "api_server": {"type": "str", "default": ""},
                    "ca_sha256": {"type": "list", "elements": "str", "default": []},
                },
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "ready": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 120},
            "labels": {"type": "dict", "default": {}},
            "taints": {
                "type": "list",
                "elements": "dict",
                "options": {**taint, "value": {"type": "str", "default": ""}},
            },
            "taints_absent": {"type": "list", "elements": "dict", "default": [], "options": taint},
            "unschedulable": {"type": "bool"},
            "drain": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    # Without names the module acts on the Node of this machine, and ignores the environment.
    in_azure = bool(params["cluster_id"])
    named = bool(params["names"] or params["nodes"])
    kubernetes = uses_kubernetes(params, os.environ, azure=in_azure or not named)
    if kubernetes or in_azure:
        change_as_controller(module, kubernetes=kubernetes)
    else:
        run_node_code(module, "flexnode_node")


def change_as_controller(module: AnsibleModule, *, kubernetes: bool) -> None:
    """Change Nodes with a kubeconfig, or with the Azure login."""
    params = module.params
    targets = targets_of(params["names"], params["nodes"])
    if not targets:
        module.fail_json(
            msg="names is required with kubeconfig, host or cluster_id: set it to the names of the Nodes"
        )
    names = list(dict.fromkeys(target.name for target in targets))
    deleting = params["state"] == "absent"
    try:
        access = kubernetes_access(module) if kubernetes else azure_access(module)
        with connected(access, NodeClient) as client:
            # Who names Nodes need not know their machines.
            told = {"waiting": params["ready"], "proven": not params["names"]}
            nodes = NodesOfMachines(client, access, targets, deleting, **told)
            result = apply_nodes(nodes, names, params, SystemClock(), check=module.check_mode)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(**result)


def azure_access(module: AnsibleModule) -> Access:
    """The cluster of `cluster_id`, with the Azure login."""
    require(module, {"PyYAML": YAML_ERROR, "kubernetes": KUBERNETES_ERROR})
    packages = {"azure-mgmt-core": ARM_ERROR, "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR}
    (cluster,) = cluster_ids_of([module.params["cluster_id"]])
    return Clusters(login_of(module, packages)).access(cluster, admin=True)


if __name__ == "__main__":
    main()
