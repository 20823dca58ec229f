#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_bootstrap_token
short_description: Create and delete bootstrap tokens of a cluster
version_added: 0.1.0
description:
  - Creates a bootstrap token in the cluster for each node that is not Ready, and deletes it after the join.
    An older token of the same node is replaced.
  - A Node that exists and is not Ready gets one too. Its machine may be switched off, but it may also have
    been reinstalled, which the cluster does not know, and then it needs a token. A token that was not needed
    is deleted after the run, or expires.
  - The rights that joining machines need are bound where no binding grants them yet. A token may ask for a
    kubelet's certificate and have it approved, and nothing else; C(system:node) is never bound to anything.
  - The API server is reached with an administrator's credential of the AKS cluster or, where its local
    accounts are disabled, as the Azure identity itself, which then needs the rights in the cluster. With the
    Kubernetes options (O(kubeconfig), O(host)), Azure is not asked at all, and all O(nodes) are nodes of that
    one cluster.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.kubernetes
  - aks.flexnode.nodes
attributes:
  idempotent:
    support: partial
    description: A node that has not joined gets a new token at every run, because tokens are stored nowhere.
options:
  nodes:
    default: []
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      cluster_id:
        description: Resource id of its AKS cluster, instead of O(cluster_id).
        type: str
      token:
        description:
          - Whether the node joins with a token. For one that does not, only C(joined) is returned, and what
            nodes need after a join is bound.
        type: bool
        default: true
      rollout:
        description:
          - Whether the node takes part in rollouts (C(upgrade.maxUnavailable)). The record of rollouts and
            the rights of nodes at it are created where they are missing, as M(aks.flexnode.flexnode_rollout)
            does.
        type: bool
        default: false
  cluster_id:
    description:
      - Resource id of the AKS cluster of all nodes that do not name one, and of O(token_ids).
  state:
    description:
      - V(present) creates tokens for O(nodes) that are not Ready.
      - V(absent) deletes the tokens that were created for O(nodes), and O(token_ids).
    type: str
    choices: [present, absent]
    default: present
  token_ids:
    description:
      - Ids of tokens to delete, the part before the dot.
    type: list
    elements: str
    default: []
  ttl_hours:
    description:
      - Hours that a token is valid, unless it is deleted sooner.
    type: int
    default: 24
  rbac:
    description:
      - Bind the rights that joining machines need, where they are missing.
    type: bool
    default: true
requirements:
  - azure-mgmt-containerservice
seealso:
  - module: aks.flexnode.flexnode_cluster_info
"""

EXAMPLES = r"""
- name: Create a token for each machine that has not joined
  aks.flexnode.flexnode_bootstrap_token:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1}, {name: edge-2}]
  register: tokens
  run_once: true

- name: Delete the tokens after the join
  aks.flexnode.flexnode_bootstrap_token:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1}, {name: edge-2}]
    state: absent
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [create a bootstrap token for edge-1]
nodes:
  description:
    - The nodes, with the token of each that has not joined. With O(state=absent), the tokens that were
      deleted.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    cluster_id:
      description: Resource id of its cluster. Empty with the Kubernetes options.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    joined:
      description: Whether its Node is Ready. Only with O(state=present).
      type: bool
      sample: false
    token:
      description: The token, a secret. Only where one was created. In check mode V(<minted at apply>).
      type: str
      sample: abcdef.0123456789abcdef
    token_id:
      description: Its id, which is no secret.
      type: str
      sample: abcdef
    expires:
      description: When it expires.
      type: str
      sample: "2026-02-27T10:00:00Z"
  sample: [{name: edge-1, joined: false, token_id: abcdef, expires: "2026-02-27T10:00:00Z"}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where nodes failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1505}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    Clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.bootstrap_token import (
    TokenClient,
    create_tokens,
    delete_tokens,
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
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import tokens_by_cluster
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    node = {
        "name": {"type": "str", "required": True},
        "cluster_id": {"type": "str"},
        "token": {"type": "bool", "default": True, "no_log": False},
        "rollout": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **KUBERNETES,
            "nodes": {"type": "list", "elements": "dict", "default": [], "options": node},
            "cluster_id": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "token_ids": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "ttl_hours": {"type": "int", "default": 24},
            "rbac": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params, check, clock = module.params, module.check_mode, SystemClock()
    packages = {"azure-mgmt-core": ARM_ERROR, "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR}
    require(module, {"PyYAML": YAML_ERROR, "kubernetes": KUBERNETES_ERROR})
    in_azure = bool(params["cluster_id"]) or any(node["cluster_id"] for node in params["nodes"])
    kubernetes = uses_kubernetes(params, os.environ, azure=in_azure)
    done = []
    try:
        work = tokens_by_cluster(params, kubernetes=kubernetes)
        # Azure is asked only for clusters that are named by their resource id.
        clusters = Clusters(login_of(module, packages)) if any(part.cluster for part in work) else None
        for part in work:
            if clusters and part.cluster:
                access = clusters.access(part.cluster, admin=True)
            else:
                access = kubernetes_access(module)
            with connected(access, TokenClient) as client:
                if params["state"] == "absent":
                    result = delete_tokens(client, part.names, part.token_ids, check=check)
                else:
                    result = create_tokens(
                        client,
                        part.names,
                        clock,
                        hours=params["ttl_hours"],
                        rights=params["rbac"],
                        check=check,
                        without=part.without,
                        rollouts=part.rollouts,
                    )
            done.append((str(part.cluster or ""), result))
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        actions = [sentence for _cluster, result in done for sentence in result.actions]
        module.exit_json(
            changed=bool(actions),
            actions=actions,
            nodes=[{**one, "cluster_id": cluster} for cluster, result in done for one in result.nodes],
            diff=[entry for _cluster, result in done for entry in result.diff],
        )


if __name__ == "__main__":
    main()
