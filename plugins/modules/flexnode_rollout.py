#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_rollout
short_description: Show and control rollouts of new software to the nodes of a cluster
version_added: 0.1.0
description:
  - Nodes with C(upgrade.maxUnavailable) in their configuration take turns. They keep a record in the
    ConfigMap C(flexnode-rollout) of the namespace C(kube-system), which this module creates, shows and
    changes.
  - A node that is being changed holds a slot, an entry under C(holders) in the record. The record also says
    how far each rollout got, and whether it is stopped.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.kubernetes
options:
  cluster_id:
    description:
      - Resource id of the AKS cluster, instead of O(kubeconfig) and O(host). An administrator's credential is
        obtained with the Azure login. Where local accounts are disabled, the login itself is used.
      - Whichever login is used, it needs get and update on ConfigMap C(flexnode-rollout) in C(kube-system)
        (O(state=present) also create, and get and create of Roles and RoleBindings there).
    type: str
  state:
    description:
      - Without it, the record is returned, and changed only if O(forget) is set.
      - V(present) creates the record, and the rights of nodes to read and write it, where they are missing.
      - V(stopped) stops a rollout. Nodes that have begun finish, no other node begins.
      - V(resumed) lets a stopped rollout go on. Nodes that were rolled back stay as they are until they are
        retried, and are not waited for.
    type: str
    choices: [present, stopped, resumed]
  rollout:
    description:
      - Id of the rollout to stop or to resume. Without it, the newest one; with O(state=resumed) the newest
        one that is stopped.
    type: str
  reason:
    description:
      - With O(state=stopped), why; nodes show it in their status.
    type: str
  forget:
    description:
      - Names of nodes that never come back. Their slots are released, and no node waits for them any more.
        A node that works registers again with its next change.
    type: list
    elements: str
    default: []
requirements:
  - azure-mgmt-containerservice, with O(cluster_id)
seealso:
  - module: aks.flexnode.flexnode_node
"""

EXAMPLES = r"""
- name: Prepare a cluster for nodes that take turns
  aks.flexnode.flexnode_rollout:
    state: present
    kubeconfig: ~/.kube/config
  run_once: true

- name: Show which nodes are being changed
  aks.flexnode.flexnode_rollout:
    cluster_id: "{{ flexnode_cluster_id }}"
  register: found
  run_once: true

- name: Let a rollout go on that stopped itself
  aks.flexnode.flexnode_rollout:
    state: resumed
    kubeconfig: ~/.kube/config
  run_once: true

- name: Do not wait for a machine that burnt down
  aks.flexnode.flexnode_rollout:
    forget: [edge-3]
    kubeconfig: ~/.kube/config
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [resume rollout 0f3a5e0b9c6d (kubernetes 1.34.3 -> 1.34.4)]
exists:
  description: Whether the cluster has a record.
  returned: success
  type: bool
  sample: true
nodes:
  description: The nodes that take turns, each with its ring and the digest of its software.
  returned: success
  type: list
  elements: dict
  sample: [{name: edge-1, ring: canary, software: 5d41402abc4b, since: "2026-11-16T06:00:00+00:00"}]
holders:
  description: The slots, that is the nodes that are being changed now.
  returned: success
  type: list
  elements: dict
  sample: [{name: edge-1, rollout: 0f3a5e0b9c6d, what: kubernetes 1.34.3 -> 1.34.4}]
rollouts:
  description: The newest rollouts, the newest first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Its id.
      type: str
      sample: 0f3a5e0b9c6d
    what:
      description: What changes, in words.
      type: str
      sample: kubernetes 1.34.3 -> 1.34.4
    started:
      description: When the first node began.
      type: str
      sample: "2026-11-16T06:00:00+00:00"
    stopped:
      description: Why it is stopped. Empty if it is not.
      type: str
      sample: ""
    done:
      description: Per ring, the number of nodes that completed the rollout, and when the last one did.
      type: dict
      sample: {canary: {nodes: 1, last: "2026-11-16T06:01:00+00:00"}}
    rolled_back:
      description: The nodes that were rolled back, each with its ring and the code of the error.
      type: dict
      sample: {}
  sample: [{id: 0f3a5e0b9c6d, what: kubernetes 1.34.3 -> 1.34.4, stopped: ""}]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1521}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
    Clusters,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import cluster_of, require
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
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.rollout import (
    RolloutClient,
    administer,
    described,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock

EFFECT = {"rollout": ("stopped", "resumed"), "reason": ("stopped",)}  # options that only some states use


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **KUBERNETES,
            "cluster_id": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "stopped", "resumed"]},
            "rollout": {"type": "str"},
            "reason": {"type": "str"},
            "forget": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    for option, states in EFFECT.items():
        if params[option] and params["state"] not in states:
            here = f"with state {params['state']}" if params["state"] else "without state"
            module.fail_json(msg=f"{option} has no effect {here}, only with {' or '.join(states)}")
    require(module, {"PyYAML": YAML_ERROR, "kubernetes": KUBERNETES_ERROR})
    try:
        if params["cluster_id"] and not uses_kubernetes(params, os.environ, azure=True):
            packages = {"azure-mgmt-core": ARM_ERROR, "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR}
            cluster = cluster_of(params["cluster_id"])
            access = Clusters(login_of(module, packages)).access(cluster, admin=True)
        else:
            access = kubernetes_access(module)
        with connected(access, RolloutClient) as client:
            done = administer(
                client,
                SystemClock(),
                state=params["state"] or "",
                rollout=params["rollout"] or "",
                reason=params["reason"] or "",
                forget=params["forget"],
                check=module.check_mode,
            )
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(
            changed=bool(done.actions),
            actions=done.actions,
            exists=done.exists,
            diff=done.diff,
            **described(done.shared),
        )


if __name__ == "__main__":
    main()
