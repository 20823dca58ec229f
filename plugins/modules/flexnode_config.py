#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_config
short_description: Manage flexNodeConfig resources of AKS clusters
version_added: 0.1.0
description:
  - Creates, updates and deletes the resources that hold the configuration of flex nodes in Azure. All nodes
    of a run share one login, and each cluster is listed once.
  - Every write issues a bootstrap token and a new configuration URL. So a joined node without a difference is
    not written, and a node that exists but has not joined gets a new URL without a write.
  - Azure fills in what a document does not mention, which is no difference. Labels and taints are compared as
    a whole, so one that is no longer in the document is removed.
  - Azure never returns a secret, so a changed secret can't be seen. See O(update_secret).
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.azure.preview
  - aks.flexnode.nodes
options:
  nodes:
    required: true
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      cluster_id:
        description: Resource id of its AKS cluster, instead of O(cluster_id).
        type: str
      document:
        description:
          - Its configuration document, or a part of it. The resource holds its identity, the versions,
            and the settings of the Node and its kubelet. The rest is for the machine only.
        type: dict
        default: {}
      joined:
        description:
          - Whether the machine itself says that it has joined. Without it, Azure's status of the node counts,
            which may be that of another machine, or of the same one before it was reinstalled.
          - With V(false) it gets a new URL. If its Node is Ready all the same, and it would join with a
            bootstrap token, nothing is written, because another machine has its name.
        type: bool
  state:
    description:
      - V(present) creates or updates the resources.
      - V(absent) deletes them. URLs and tokens become invalid, and a machine that follows its resource leaves
        the cluster at its next poll.
    type: str
    choices: [present, absent]
    default: present
  update_secret:
    description:
      - Whether a secret in a document is sent when nothing else differs. V(on_create) sends it with the first
        write and with any other difference, V(always) at every run.
    type: str
    choices: [on_create, always]
    default: on_create
  need_url:
    description:
      - Whether a node that has not joined needs a URL to fetch its configuration from.
    type: bool
    default: true
requirements:
  - azure-mgmt-core
seealso:
  - module: aks.flexnode.flexnode_config_info
  - module: aks.flexnode.flexnode_token
"""

EXAMPLES = r"""
- name: Create the configuration of two nodes in Azure
  aks.flexnode.flexnode_config:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes:
      - name: edge-1
        document: {kubernetes: {version: 1.34.4}, node: {labels: {site: lab-1}}}
      - name: edge-2
        document: {kubernetes: {version: 1.34.4}}
  register: configs
  run_once: true

- name: Delete the configuration of a machine that no longer exists
  aks.flexnode.flexnode_config:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-3}]
    state: absent
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [create flexNodeConfig edge-1 (it does not exist)]
nodes:
  description: The result for each node, in the order of O(nodes).
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
      description:
        - V(created), V(updated), V(regenerated), V(unchanged), V(deleted), or V(refused) if another machine
          is this Node.
      type: str
      sample: created
    reasons:
      description: Why. For an update, the properties that differ.
      type: list
      elements: str
      sample: [versions.kubernetes]
    joined:
      description: Whether it had joined before, even if its Node is not Ready at the moment.
      type: bool
      sample: false
    config_version:
      description: Version of the configuration in Azure.
      type: str
      sample: "1708123456"
    provisioning_state:
      description: What Azure says about the last write.
      type: str
      sample: Succeeded
    config_url:
      description:
        - URL of the configuration, a secret. Only if one was issued. In check mode V(<minted at apply>).
      type: str
      sample: https://aksconfigs.blob.core.windows.net/configs/edge-1-config.json?sv=...
    config_url_expires:
      description: When the URL expires, unless the join makes it invalid sooner.
      type: str
      sample: "2026-02-27T10:00:00Z"
  sample: [{name: edge-1, action: created, joined: false, config_version: "1708123456"}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where nodes failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1702}
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
    keep_absent,
    keep_present,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.plan import (
    checked,
    properties_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import mask_only_secrets
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import members_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid


def main() -> None:
    node = {
        "name": {"type": "str", "required": True},
        "cluster_id": {"type": "str"},
        "document": {"type": "dict", "default": {}},
        "joined": {"type": "bool"},
    }
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **PREVIEW,
            "nodes": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": node,
                "no_log": True,
            },
            "cluster_id": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "update_secret": {
                "type": "str",
                "choices": ["on_create", "always"],
                "default": "on_create",
                "no_log": False,
            },
            "need_url": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    mask_only_secrets(module, [one["document"] for one in params["nodes"]], [params["secret"]])
    try:
        members = members_of(params["nodes"], params["cluster_id"] or "")
        login = login_of(module, {"azure-mgmt-core": ARM_ERROR})
        arm = Arm(login, params["api_version"], params["poll_interval"], params["operation_timeout"])
        if params["state"] == "absent":
            outcomes = keep_absent(lambda cluster: FlexNodes(arm, cluster), members, check=check)
        else:
            if problems := [wrong for one in members for wrong in checked(one.name, one.document)]:
                raise ConfigInvalid(problems)
            outcomes = keep_present(
                lambda cluster: FlexNodes(arm, cluster),
                members,
                lambda member: properties_of(member.document),
                secret_anyway=params["update_secret"] != "on_create",  # noqa: S105 - a choice, not a secret
                need_url=params["need_url"],
                check=check,
            )
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        changed = [outcome for outcome in outcomes if outcome.action.changes]
        module.exit_json(
            changed=bool(changed),
            actions=[outcome.sentence() for outcome in changed],
            nodes=[outcome.as_dict() for outcome in outcomes],
            diff=[outcome.diff() for outcome in changed if outcome.before or outcome.after],
        )


if __name__ == "__main__":
    main()
