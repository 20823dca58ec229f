#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_config_blob
short_description: Manage configurations of nodes in Azure Blob Storage
version_added: 0.1.0
description:
  - Stores the configuration of each node as a blob that only the node can read and follow. Any storage
    account will do, and no preview of Azure is needed.
  - A node has a container of its own with one blob, C(config.json), and one stored access policy. Its URL is
    read-only, bound to that policy, and stays the same; without the policy it is invalid.
  - A blob is written only if its content differs, so a node that sends an ETag gets C(304) until then.
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
          - Resource id of its AKS cluster, if O(nodes[].document) does not name it. What is stored for a node
            of another cluster is neither replaced nor removed.
        type: str
      document:
        description:
          - Its whole configuration document, for O(state=present). It is checked before anything is written.
        type: dict
        default: {}
  state:
    description:
      - V(present) stores each document, with a URL to read it from.
      - V(tombstone) replaces each document by a note that the node has to leave its cluster. The URL stays
        valid, so that the node can read it.
      - V(absent) removes policy and blob. The URL is refused from then on, and the node keeps working.
    type: str
    choices: [present, absent, tombstone]
    default: present
  token:
    description:
      - V(remove) removes the bootstrap token from what is stored, after the join. Nothing else of it changes,
        and O(nodes[].document) is ignored.
    type: str
    choices: [keep, remove]
    default: keep
  days:
    description:
      - Days that a URL is valid. A run extends it when less than half of them is left.
      - The URL itself stays the same.
    type: int
    default: 365
  account_url:
    description:
      - URL of the storage account's blob service, such as V(https://plant.blob.core.windows.net).
      - Without it, E(AZURE_STORAGE_ACCOUNT_URL).
    type: str
  account_key:
    description:
      - Key of the account. It signs the URLs, so no other credential will do. Without it,
        E(AZURE_STORAGE_KEY).
    type: str
  connection_string:
    description:
      - URL and key in one, for what O(account_url) and O(account_key) do not set. Without it,
        E(AZURE_STORAGE_CONNECTION_STRING).
    type: str
  ca_bundle:
    description:
      - A file of CA certificates to trust instead of the public ones. Without it, E(REQUESTS_CA_BUNDLE).
    type: path
requirements:
  - azure-storage-blob
notes:
  - The module runs on the controller, where its Python packages and credentials are, whatever machine the
    task is for. It needs no C(delegate_to). Use C(run_once) in a play on many machines.
seealso:
  - module: aks.flexnode.flexnode_config_fetch
"""

EXAMPLES = r"""
- name: Store the configuration of a node in blob storage
  aks.flexnode.flexnode_config_blob:
    account_url: https://plant.blob.core.windows.net
    account_key: "{{ vault_storage_key }}"
    nodes:
      - name: edge-1
        document: "{{ flexnode_config }}"
  register: blobs
  run_once: true

- name: Remove the token after the join
  aks.flexnode.flexnode_config_blob:
    connection_string: "{{ vault_connection_string }}"
    nodes: [{name: edge-1}]
    token: remove
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
  description: The result for each node, in the order of O(nodes).
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
        - URL of the bundle, a secret. Only if it is valid. In check mode V(<minted at apply>) if the URL or
          its content would be new.
      type: str
      sample: https://plant.blob.core.windows.net/flexnode-edge-1/config.json?si=...
    url_expires:
      description: When the URL expires, unless it is extended.
      type: str
      sample: "2027-02-26T10:00:00Z"
    config_version:
      description: Version of the configuration in storage. Empty if there is none, or if it would be new.
      type: str
      sample: "1708123456"
    etag:
      description: ETag of the blob.
      type: str
      sample: '"0x8DC3A1B2C3D4E5F"'
  sample: [{name: edge-1, action: created, config_version: "1708123456"}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where nodes failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1708}
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.account import (
    BLOB_ERROR,
    account,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.bundle import checked
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.fleet import keep_all
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import (
    mask_only_secrets,
    require,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import node_names
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
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
    params = module.params
    require(module, {"azure-storage-blob": BLOB_ERROR})
    documents = [one["document"] for one in params["nodes"]]
    mask_only_secrets(module, documents, [params["account_key"], params["connection_string"]])
    try:
        names = node_names(params["nodes"])
        if params["state"] == "present" and params["token"] == "keep":  # noqa: S105 - a choice
            wrong = [problem for one in params["nodes"] for problem in checked(one["name"], one["document"])]
            if wrong:
                raise ConfigInvalid(wrong)
        storage = account(
            params["account_url"] or "",
            params["account_key"] or "",
            params["connection_string"] or "",
            ca_bundle=params["ca_bundle"] or "",
        )
        nodes = list(zip(names, params["nodes"], strict=True))
        outcomes = keep_all(storage, nodes, params, SystemClock(), check=module.check_mode)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
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
