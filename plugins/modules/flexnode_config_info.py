#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_config_info
short_description: List flexNodeConfig resources of an AKS cluster with the status of their nodes
version_added: 0.1.0
description:
  - Returns the flexNodeConfig resources of a cluster and the status of their nodes. No secret is returned.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.azure
  - aks.flexnode.azure.preview
options:
  cluster_id:
    description:
      - Resource id of the AKS cluster.
    type: str
    required: true
  names:
    description:
      - Names of nodes, to return each with its whole configuration. Without it, all nodes of the cluster with
        their status, in one request.
    type: list
    elements: str
    default: []
requirements:
  - azure-mgmt-core
seealso:
  - module: aks.flexnode.flexnode_config
"""

EXAMPLES = r"""
- name: List all nodes of a cluster with their status
  aks.flexnode.flexnode_config_info:
    cluster_id: "{{ flexnode_cluster_id }}"
  register: configs
  run_once: true

- name: Show the configuration of one node
  aks.flexnode.flexnode_config_info:
    cluster_id: "{{ flexnode_cluster_id }}"
    names: [edge-1]
  run_once: true
"""

RETURN = r"""
nodes:
  description: The nodes that exist, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    cluster_id:
      description: Resource id of its cluster.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    config_version:
      description: Version of the configuration in Azure.
      type: str
      sample: "1708123456"
    applied_config_version:
      description: Version that the machine has applied.
      type: str
      sample: "1708123456"
    provisioning_state:
      description: What Azure says about the last write.
      type: str
      sample: Succeeded
    ready:
      description: Whether its Node is Ready.
      type: bool
      sample: true
    phase:
      description: The phase of the machine, as it said itself.
      type: str
      sample: NodeJoined
    reason:
      description:
        - The reason of its status, the same as C(aks-flex-node status) shows on the machine. Before the
          join, and where Azure does not pass it on, the reason of the Ready condition.
      type: str
      sample: NodeJoined
    message:
      description: The same as a sentence.
      type: str
      sample: ""
    drift:
      description: How many items of the machine differ from its configuration.
      type: int
      sample: 0
    leftovers:
      description: What a machine that left the cluster could not remove there.
      type: list
      elements: str
      sample: [Node edge-1]
    last_seen:
      description: When the machine last reported.
      type: str
      sample: "2026-02-26T15:30:45Z"
    status:
      description: Its status, as Azure returns it.
      type: dict
      sample: {conditions: [{type: Ready, status: "True"}], lastConfigApplied: "2026-02-26T14:00:00Z"}
    config:
      description: Its configuration, without secrets, if Azure returns it.
      type: dict
      sample: {kubernetes: {version: 1.34.4}}
  sample: [{name: edge-1, ready: true, config_version: "1708123456"}]
missing:
  description: Those of O(names) that do not exist.
  returned: success
  type: list
  elements: str
  sample: []
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1703}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import (
    AZURE,
    PREVIEW,
    login_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR, Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.api import (
    FlexNodes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.fleet import (
    described,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import members_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES, in_parallel
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import ArmId


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **PREVIEW,
            "cluster_id": {"type": "str", "required": True},
            "names": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    names = list(dict.fromkeys(params["names"]))
    try:
        members = members_of([{"name": name} for name in names or ["any"]], params["cluster_id"])
        cluster: ArmId = members[0].cluster
        login = login_of(module, {"azure-mgmt-core": ARM_ERROR})
        nodes = FlexNodes(
            Arm(login, params["api_version"], params["poll_interval"], params["operation_timeout"]), cluster
        )
        found = in_parallel(nodes.get, names, str) if names else list(nodes.list())
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        shown = [described(resource, cluster) for resource in found if resource is not None]
        there = {node["name"] for node in shown}
        module.exit_json(
            changed=False,
            nodes=sorted(shown, key=lambda node: str(node["name"])),
            missing=[name for name in names if name not in there],
        )


if __name__ == "__main__":
    main()
