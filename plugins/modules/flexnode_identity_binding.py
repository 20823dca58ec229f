#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_identity_binding
short_description: Let machines join a cluster with their Azure identities
version_added: 0.1.0
description:
  - Binds the Azure identity of each machine, in the cluster, to the right to request a kubelet certificate,
    and to nothing else. It is what C(kubernetesAuth.profile=certificate) needs, once.
  - After the join the kubelet has a certificate of its own, and O(state=absent) removes the binding.
  - C(system:node) is never bound to an identity. For C(kubernetesAuth.profile=token), assign roles in Azure
    to the machine, see M(aks.flexnode.flexnode_role_assignment).
  - The API server is reached with an administrator's credential of the AKS cluster or, where its local
    accounts are disabled, as the Azure identity itself, which then needs the rights in the cluster. With the
    Kubernetes options (O(kubeconfig), O(host)), all O(nodes) are nodes of that one cluster, and Azure is
    asked only for the identities of machines.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.kubernetes
  - aks.flexnode.nodes
options:
  nodes:
    description:
      - The machines. Each is named by O(nodes[].principal_id), or by O(nodes[].machine_id).
    default: []
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      cluster_id:
        description: Resource id of its AKS cluster, instead of O(cluster_id).
        type: str
      principal_id:
        description: Object id of the machine's identity.
        type: str
      machine_id:
        description: Resource id of the machine in Azure Arc. Azure is then asked for its identity.
        type: str
  state:
    description:
      - V(present) creates the bindings, V(absent) removes those that this module created.
    type: str
    choices: [present, absent]
    default: present
requirements:
  - azure-mgmt-containerservice
  - azure-mgmt-hybridcompute
seealso:
  - module: aks.flexnode.flexnode_role_assignment
  - module: aks.flexnode.flexnode_bootstrap_token
"""

EXAMPLES = r"""
- name: Let machines of Azure Arc join with their own identities
  aks.flexnode.flexnode_identity_binding:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes:
      - name: edge-1
        machine_id: /subscriptions/1/resourceGroups/edge/providers/Microsoft.HybridCompute/machines/edge-1
  run_once: true

- name: Remove the bindings after the join
  aks.flexnode.flexnode_identity_binding:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1, principal_id: 99999999-8888-7777-6666-555555555555}]
    state: absent
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences. Also where it failed for some machines.
  returned: unless the sign-in failed
  type: list
  elements: str
  sample: ["bind system:node-bootstrapper to 99999999-8888-7777-6666-555555555555"]
nodes:
  description: The machines, with their identities. A machine that no longer exists in Azure, or for which it
    failed, is left out.
  returned: unless the sign-in failed
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    principal_id:
      description: Object id of the machine's identity.
      type: str
      sample: 99999999-8888-7777-6666-555555555555
    cluster_id:
      description: Resource id of its cluster. Empty with the Kubernetes options.
      type: str
      sample: /subscriptions/.../managedClusters/plant
  sample: [{name: edge-1, principal_id: 99999999-8888-7777-6666-555555555555}]
failures:
  description: The machines for which it failed, with C(code) and C(msg) of each. The others are done.
  returned: failure, unless the sign-in failed
  type: list
  elements: dict
  sample: [{name: edge-2, machine_id: /subscriptions/..., code: FLEX-1703, msg: there is no machine ...}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where machines failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1505}
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    Clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import Login
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.authorization import (
    HYBRIDCOMPUTE_ERROR,
    Authorization,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.binding import RbacClient
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import (
    KUBERNETES_ERROR,
    connected,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.identity_binding import (
    bind,
    machines_of,
    unbind,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import YAML_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.options import (
    KUBERNETES,
    kubernetes_access,
    uses_kubernetes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.failures import (
    Failure,
    as_result,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError


def main() -> None:
    text = {"type": "str"}
    node = {
        "name": {"type": "str", "required": True},
        "principal_id": text,
        "machine_id": text,
        "cluster_id": text,
    }
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **KUBERNETES,
            "nodes": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": node,
                "required_one_of": [("principal_id", "machine_id")],
            },
            "cluster_id": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    require(module, {"PyYAML": YAML_ERROR, "kubernetes": KUBERNETES_ERROR})
    try:
        result, failures = change(module)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        if failures:
            module.fail_json(**result, **as_result(failures))
        module.exit_json(**result)


def change(module: AnsibleModule) -> tuple[dict[str, Any], list[Failure]]:
    """Bind or unbind the machines of each cluster; a failure concerns a machine, or those of a cluster."""
    params = module.params
    in_azure = bool(params["cluster_id"]) or any(node["cluster_id"] for node in params["nodes"])
    kubernetes = uses_kubernetes(params, os.environ, azure=in_azure)
    act = unbind if params["state"] == "absent" else bind
    login = sign_in(module, kubernetes=kubernetes)
    owner = Authorization(login).principal_of if login else None
    by_cluster, failures = machines_of(params, owner, kubernetes=kubernetes)
    actions, diff, nodes = [], [], []
    for cluster, machines in by_cluster.items():
        try:
            if cluster and login:
                access = Clusters(login).access(cluster, admin=True)
            else:
                access = kubernetes_access(module)
            with connected(access, RbacClient) as client:
                done = act(client, machines, check=module.check_mode)
        except FAILURES as error:
            failures += [Failure(one.name, one.machine_id, error) for one in machines]
            continue
        actions += done.actions
        diff += done.diff
        failures += done.failures
        failed = {(one.node, one.machine_id) for one in done.failures}
        nodes += [
            {"name": one.name, "principal_id": one.principal_id, "cluster_id": str(cluster or "")}
            for one in machines
            if (one.name, one.machine_id) not in failed
        ]
    return {"changed": bool(actions), "actions": actions, "nodes": nodes, "diff": diff}, failures


def sign_in(module: AnsibleModule, *, kubernetes: bool) -> Login | None:
    """Azure is asked only for a cluster or a machine that is named by its resource id."""
    packages = {"azure-mgmt-core": ARM_ERROR}
    if not kubernetes:
        packages["azure-mgmt-containerservice"] = CONTAINERSERVICE_ERROR
    if asks := any(not node["principal_id"] for node in module.params["nodes"]):
        packages["azure-mgmt-hybridcompute"] = HYBRIDCOMPUTE_ERROR
    return login_of(module, packages) if asks or not kubernetes else None


if __name__ == "__main__":
    main()
