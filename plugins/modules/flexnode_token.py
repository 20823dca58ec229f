#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_token
short_description: Issue new bootstrap tokens and URLs for flexNodeConfig resources
version_added: 0.1.0
description:
  - Lets Azure issue a new bootstrap token for nodes, and a new URL to fetch their configuration from. The old
    token and the old URL become invalid.
  - For a machine whose token was consumed by a join that failed. A joined node does not need one, and is not
    affected.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.azure.preview
  - aks.flexnode.nodes
attributes:
  diff_mode:
    support: none
    description: What changes is a secret.
  idempotent:
    support: none
    description: Every run issues new tokens, which is its purpose.
options:
  nodes:
    default: []
  names:
    description:
      - Names of nodes of O(cluster_id).
    type: list
    elements: str
    default: []
  cluster_id:
    description:
      - Resource id of the AKS cluster of O(names), and of all O(nodes) that do not name one.
requirements:
  - azure-mgmt-core
seealso:
  - module: aks.flexnode.flexnode_config
"""

EXAMPLES = r"""
- name: Issue a new token, so that a machine can try to join again
  aks.flexnode.flexnode_token:
    cluster_id: "{{ flexnode_cluster_id }}"
    names: [edge-1]
  register: tokens
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [issue a new configuration URL for flexNodeConfig edge-1 (requested)]
nodes:
  description: The nodes, with what was issued for each.
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
    action:
      description: Always V(regenerated).
      type: str
      sample: regenerated
    reasons:
      description: Why.
      type: list
      elements: str
      sample: [requested]
    joined:
      description: Whether it had joined before, even if its Node is not Ready at the moment.
      type: bool
      sample: false
    config_version:
      description: Version of the configuration in Azure.
      type: str
      sample: "1708127890"
    provisioning_state:
      description: What Azure says about it.
      type: str
      sample: Succeeded
    config_url:
      description: URL of the configuration, a secret. In check mode V(<minted at apply>).
      type: str
      sample: https://aksconfigs.blob.core.windows.net/configs/edge-1-config-v2.json?sv=...
    config_url_expires:
      description: When the URL expires, unless the join makes it invalid sooner.
      type: str
      sample: "2026-02-27T11:00:00Z"
  sample: [{name: edge-1, action: regenerated, config_version: "1708127890"}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where nodes failed for different reasons.
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
    regenerate,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import members_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES


def main() -> None:
    node = {"name": {"type": "str", "required": True}, "cluster_id": {"type": "str"}}
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **PREVIEW,
            "nodes": {"type": "list", "elements": "dict", "default": [], "options": node},
            "names": {"type": "list", "elements": "str", "default": []},
            "cluster_id": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        named = [{"name": name} for name in params["names"]]
        members = members_of([*params["nodes"], *named], params["cluster_id"] or "")
        login = login_of(module, {"azure-mgmt-core": ARM_ERROR})
        arm = Arm(login, params["api_version"], params["poll_interval"], params["operation_timeout"])
        outcomes = regenerate(lambda cluster: FlexNodes(arm, cluster), members, check=module.check_mode)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(
            changed=bool(outcomes),
            actions=[outcome.sentence() for outcome in outcomes],
            nodes=[outcome.as_dict() for outcome in outcomes],
        )


if __name__ == "__main__":
    main()
