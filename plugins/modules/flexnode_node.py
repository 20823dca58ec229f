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
  - With O(kubeconfig), O(context) or O(host) it runs on the controller, whatever machine the task is for.
  - Without them it runs on a joined machine and signs in as the machine's own kubelet, which may change its
    own Node only, and not its taints.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.kubernetes
options:
  names:
    description:
      - Names of the Nodes. Without it, the Node of this machine, and the environment is not read.
        Needed with O(kubeconfig) and O(host).
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
      - Taints to set. Other taints stay.
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
  unschedulable:
    description:
      - V(true) cordons, V(false) uncordons.
    type: bool
  drain:
    description:
      - Cordon and evict the pods, as their disruption budgets allow.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Wait until two nodes are Ready
  aks.flexnode.flexnode_node:
    names: [edge-1, edge-2]
    ready: true
    kubeconfig: ~/.kube/config
  run_once: true

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
  description: Pods that a drain could not move in time.
  returned: success
  type: list
  elements: str
  sample: [default/web-0]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1505}
"""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.nodes import (
    NodeApi,
    NodeClient,
    apply_node,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.options import (
    KUBERNETES,
    kubernetes_access,
    uses_kubernetes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import stored_config


def main() -> None:
    taint = {
        "key": {"type": "str", "required": True, "no_log": False},
        "value": {"type": "str", "default": ""},
        "effect": {
            "type": "str",
            "required": True,
            "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
        },
    }
    module = AnsibleModule(
        argument_spec={
            **KUBERNETES,
            "names": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "ready": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 120},
            "labels": {"type": "dict", "default": {}},
            "taints": {"type": "list", "elements": "dict", "options": taint},
            "unschedulable": {"type": "bool"},
            "drain": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params, host = module.params, Host()
    # Without names the module acts on the Node of this machine, and ignores the environment.
    kubernetes = uses_kubernetes(params, os.environ, azure=not params["names"])
    if kubernetes and not params["names"]:
        module.fail_json(msg="names is required with kubeconfig or host: set it to the names of the Nodes")
    try:
        with contextlib.ExitStack() as stack:
            client: NodeApi
            if kubernetes:
                access = kubernetes_access(module)
                client, names = stack.enter_context(connected(access, NodeClient)), params["names"]
            else:
                node = stored_config(host, pollable=True).node
                client, names = node.api(), params["names"] or [node.name]
            done = [apply_node(client, name, params, host.clock, check=module.check_mode) for name in names]
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        actions = [sentence for result in done for sentence in result.actions]
        module.exit_json(
            changed=bool(actions),
            actions=actions,
            nodes=[result.summary for result in done if result.summary],
            remains=[pod for result in done for pod in result.remains],
            diff=[entry for result in done for entry in result.diff],
        )


if __name__ == "__main__":
    main()
