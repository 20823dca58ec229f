#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_config_blob
short_description: Configurations of nodes in Azure Blob Storage
version_added: 0.1.0
description:
  - Keeps the configuration of each node as a blob that the node can read and follow, and nobody else. Any
    storage account will do, and no preview of Azure is needed.
  - A node has a container of its own with one blob, C(config.json), and one stored access policy. Its address
    is read-only, bound to that policy, and stays the same; without the policy it is void.
  - A blob is written only when its content differs, so a node that asks with an ETag is answered C(304) until
    then.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
options:
  nodes:
    description:
      - The nodes.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      cluster_id:
        description:
          - Resource id of its AKS cluster, where O(nodes[].document) does not name it. What is stored for a
            node of another cluster is neither replaced nor removed.
        type: str
      document:
        description:
          - Its whole configuration document, for O(state=present). It is checked before anything is written.
        type: dict
        default: {}
  state:
    description:
      - V(present) has each document in storage, with an address to read it from.
      - V(tombstone) tells each node to leave its cluster. The address stays valid, so that the node can read
        that.
      - V(absent) removes policy and blob. The address is refused from then on, and the node works on as it
        is.
    type: str
    choices: [present, absent, tombstone]
    default: present
  token:
    description:
      - V(remove) takes the bootstrap token out of what is stored, after the join. Nothing else of it changes,
        and O(nodes[].document) is not looked at.
    type: str
    choices: [keep, remove]
    default: keep
  days:
    description:
      - Days that an address is valid. A run renews it when less than half of them is left; it stays the same
        address.
    type: int
    default: 365
  account_url:
    description:
      - Address of the storage account's blob service, such as V(https://plant.blob.core.windows.net).
      - Without it, E(AZURE_STORAGE_ACCOUNT_URL).
    type: str
  account_key:
    description:
      - Key of the account. It signs the addresses, so no other credential will do. Without it,
        E(AZURE_STORAGE_KEY).
    type: str
  connection_string:
    description:
      - Address and key in one, for what is not given by O(account_url) and O(account_key). Without it,
        E(AZURE_STORAGE_CONNECTION_STRING).
    type: str
  ca_bundle:
    description:
      - A file of CA certificates to trust instead of the public ones. Without it, E(REQUESTS_CA_BUNDLE).
    type: path
requirements:
  - azure-storage-blob
notes:
  - The module runs where its Python packages are, which is the controller. Run it on V(localhost), once for
    all machines.
seealso:
  - module: aks.flexnode.flexnode_config_fetch
"""

EXAMPLES = r"""
- name: Have the configuration of a node in blob storage
  aks.flexnode.flexnode_config_blob:
    account_url: https://plant.blob.core.windows.net
    account_key: "{{ vault_storage_key }}"
    nodes:
      - name: edge-1
        document: "{{ flexnode_config }}"
  register: blobs
  no_log: true # it returns addresses that are secrets
  delegate_to: localhost
  run_once: true

- name: Take the token out after the join
  aks.flexnode.flexnode_config_blob:
    connection_string: "{{ vault_connection_string }}"
    nodes: [{name: edge-1}]
    token: remove
  no_log: true
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [create the bundle of edge-1 (there is none)]
nodes:
  description: What became of each node, in the order of O(nodes).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    action:
      description: V(created), V(updated), V(unchanged), V(tombstoned) or V(deleted).
      type: str
      sample: created
    reasons:
      description: Why.
      type: list
      elements: str
      sample: [there is none]
    url:
      description:
        - Address of the bundle, a secret. Only where it is valid. In check mode V(<minted at apply>) where
          it, or what it shows, would be made.
      type: str
      sample: https://plant.blob.core.windows.net/flexnode-edge-1/config.json?si=...
    url_expires:
      description: When the address ends, unless it is renewed.
      type: str
      sample: "2027-02-26T10:00:00Z"
    config_version:
      description: Version of the configuration in storage. Empty where there is none, or it would be new.
      type: str
      sample: "1708123456"
    etag:
      description: ETag of the blob.
      type: str
      sample: '"0x8DC3A1B2C3D4E5F"'
  sample: [{name: edge-1, action: created, config_version: "1708123456"}]
error:
  description: What went wrong, as data. Where nodes failed for different reasons, C(nodes) has each.
  returned: failure
  type: dict
  sample: {code: FLEX-1708, what: the storage account refuses this}
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.account import (
    BLOB_ERROR,
    account,
    keep,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.bundle import checked
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import (
    mask_only_secrets,
    require,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import node_names
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES, in_parallel
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    node = {
        "name": {"type": "str", "required": True},
        "cluster_id": {"type": "str"},
        "document": {"type": "dict", "default": {}},
    }

    def text(variable: str, *, secret: bool = False) -> dict[str, object]:
        return {"type": "str", "no_log": secret, "fallback": (env_fallback, [variable])}

    module = AnsibleModule(
        argument_spec={
            "nodes": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": node,
                "no_log": True,
            },
            "state": {
                "type": "str",
                "choices": ["present", "absent", "tombstone"],
                "default": "present",
            },
            "token": {"type": "str", "choices": ["keep", "remove"], "default": "keep", "no_log": False},
            "days": {"type": "int", "default": 365},
            "account_url": text("AZURE_STORAGE_ACCOUNT_URL"),
            "account_key": text("AZURE_STORAGE_KEY", secret=True),
            "connection_string": text("AZURE_STORAGE_CONNECTION_STRING", secret=True),
            "ca_bundle": {"type": "path", "fallback": (env_fallback, ["REQUESTS_CA_BUNDLE"])},
        },
        supports_check_mode=True,
    )
    given = module.params
    require(module, {"azure-storage-blob": BLOB_ERROR})
    documents = [one["document"] for one in given["nodes"]]
    mask_only_secrets(module, documents, [given["account_key"], given["connection_string"]])
    try:
        names = node_names(given["nodes"])
        if given["state"] == "present" and given["token"] == "keep":  # noqa: S105 - a choice
            wrong = [problem for one in given["nodes"] for problem in checked(one["name"], one["document"])]
            if wrong:
                raise ConfigInvalid(wrong)
        storage = account(
            given["account_url"] or "",
            given["account_key"] or "",
            given["connection_string"] or "",
            ca_bundle=given["ca_bundle"] or "",
        )
        clock = SystemClock()
        outcomes = in_parallel(
            lambda pair: keep(
                storage,
                pair[0],
                pair[1]["document"],
                given,
                clock,
                check=module.check_mode,
                cluster_id=pair[1]["cluster_id"] or "",
            ),
            list(zip(names, given["nodes"], strict=True)),
            lambda pair: pair[0],
        )
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_dict())
    else:
        changed = [outcome for outcome in outcomes if outcome.plan.changes]
        module.exit_json(
            changed=bool(changed),
            actions=[outcome.sentence() for outcome in changed],
            nodes=[outcome.as_dict() for outcome in outcomes],
            diff=[outcome.diff() for outcome in changed],
        )


if __name__ == "__main__":
    main()
