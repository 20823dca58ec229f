#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_bootstrap_token
short_description: Bootstrap tokens for machines that have yet to join
version_added: 0.1.0
description:
  - Mints a bootstrap token in the cluster for each node that is not Ready, and deletes it after the join. A
    token that was minted for the same node before is replaced.
  - A Node that exists and is not Ready gets one too. Its machine may only be off, but it may as well have
    been reinstalled, which nothing in the cluster tells; then it needs a token. One that is not needed is
    deleted after the run, or expires.
  - The rights that joining machines need are bound where no binding grants them yet. A token may ask for a
    kubelet's certificate and have it approved, and nothing else; C(system:node) is never bound to anything.
  - The API server is reached with an administrator's credential of the AKS cluster or, where its local
    accounts are disabled, as the Azure identity itself, which then needs the rights in the cluster. With
    O(kubeconfig), Azure is not asked at all.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
attributes:
  idempotent:
    support: partial
    description: A node that has not joined gets a new token at every run, because nobody keeps the old one.
options:
  nodes:
    description:
      - The nodes.
    type: list
    elements: dict
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
          - Whether the node joins with a token. Of one that does not it is only told whether it has joined,
            and what nodes need after a join is bound for it.
        type: bool
        default: true
        version_added: 0.2.0
  cluster_id:
    description:
      - Resource id of the AKS cluster of all nodes that name none, and of O(token_ids).
    type: str
  state:
    description:
      - V(present) mints tokens for O(nodes) that are not Ready.
      - V(absent) deletes the tokens that were minted for O(nodes), and O(token_ids).
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
  kubeconfig:
    description:
      - A kubeconfig file of an administrator, instead of Azure. All O(nodes) are nodes of its cluster.
    type: path
  context:
    description:
      - Context of O(kubeconfig), instead of its current one.
    type: str
    default: ""
requirements:
  - azure-mgmt-containerservice
  - PyYAML
seealso:
  - module: aks.flexnode.flexnode_cluster_info
"""

EXAMPLES = r"""
- name: Mint a token for each machine that has not joined
  aks.flexnode.flexnode_bootstrap_token:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1}, {name: edge-2}]
  register: tokens
  no_log: true # it returns the tokens
  delegate_to: localhost
  run_once: true

- name: Delete them after the join
  aks.flexnode.flexnode_bootstrap_token:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1}, {name: edge-2}]
    state: absent
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [mint a bootstrap token for edge-1]
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
      description: Resource id of its cluster. Empty with O(kubeconfig).
      type: str
      sample: /subscriptions/.../managedClusters/plant
    joined:
      description: Whether its Node is Ready. Only with O(state=present).
      type: bool
      sample: false
    token:
      description: The token, a secret. Only where one was minted. In check mode V(<minted at apply>).
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
  description: What went wrong, as data. Where nodes failed for different reasons, C(nodes) has each.
  returned: failure
  type: dict
  sample: {code: FLEX-1505, what: the API server refuses this request}
"""

import contextlib

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    YAML_ERROR,
    Clusters,
    read_kubeconfig,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.bootstrap_token import (
    TokenClient,
    mint,
    revoke,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import admission_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    node = {
        "name": {"type": "str", "required": True},
        "cluster_id": {"type": "str"},
        "token": {"type": "bool", "default": True, "no_log": False},
    }
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            "nodes": {"type": "list", "elements": "dict", "default": [], "options": node},
            "cluster_id": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "token_ids": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "ttl_hours": {"type": "int", "default": 24},
            "rbac": {"type": "bool", "default": True},
            "kubeconfig": {"type": "path"},
            "context": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    given, check, clock = module.params, module.check_mode, SystemClock()
    packages = {"azure-mgmt-core": ARM_ERROR, "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR}
    require(module, {"PyYAML": YAML_ERROR})
    done = []
    try:
        work = admission_of(given)
        # Azure is asked only where a cluster of it is meant.
        clusters = Clusters(login_of(module, packages)) if any(part.cluster for part in work) else None
        for part in work:
            with contextlib.ExitStack() as stack:
                if clusters and part.cluster:
                    access = clusters.access(part.cluster, admin=True)
                else:
                    access = read_kubeconfig(given["kubeconfig"], given["context"])
                client = stack.enter_context(connected(access, TokenClient))
                if given["state"] == "absent":
                    result = revoke(client, part.names, part.token_ids, check=check)
                else:
                    result = mint(
                        client,
                        part.names,
                        clock,
                        hours=given["ttl_hours"],
                        rights=given["rbac"],
                        check=check,
                        without=part.without,
                    )
            done.append((str(part.cluster or ""), result))
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_dict())
    except OSError as error:
        module.fail_json(msg=f"{given['kubeconfig']}: {error.strerror}")
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
