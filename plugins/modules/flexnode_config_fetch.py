#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_config_fetch
short_description: Obtain, check and store the configuration of a node
version_added: 0.1.0
description:
  - Fetches a machine's configuration document from its source, merges explicit settings over it, checks every
    field, and stores it on the machine, readable by root only.
  - All problems of a document are reported in one pass, each with its path, its value and what is accepted.
  - The document is returned without its secrets, so that it can be shown and passed to
    M(aks.flexnode.flexnode_reconcile).
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.source
  - aks.flexnode.node_code
options:
  source:
    description:
      - Where the configuration comes from.
      - V(inline) is O(document) itself; V(url) is a configuration bundle at O(url), over which O(document) is
        merged; V(stored) is the document that is on the machine already, with O(document) merged over it.
      - A machine that has joined does not need its source. If O(url) can't be reached, the stored document is
        used, with a warning.
    type: str
    choices: [inline, url, stored]
    default: inline
  purpose:
    description:
      - V(join) needs a cluster and a credential; V(prepare) does not, it is for baking images.
    type: str
    choices: [join, prepare]
    default: join
  operation:
    description:
      - Name of the operation that this call belongs to. Calls of one operation share the machine's lease.
      - Without it a new operation begins, whose name is returned.
    type: str
"""

EXAMPLES = r"""
- name: Use the configuration of the inventory
  aks.flexnode.flexnode_config_fetch:
    document: "{{ flexnode_config | to_json }}"
  register: fetched

- name: Fetch it from a configuration URL, and add a label
  aks.flexnode.flexnode_config_fetch:
    source: url
    url: "{{ config_url }}"
    document: "{{ {'node': {'labels': {'site': 'lab-1'}}} | to_json }}"

- name: Change a label of a node, whatever the source of its configuration
  aks.flexnode.flexnode_config_fetch:
    source: stored
    document: "{{ {'node': {'labels': {'site': 'lab-2'}}} | to_json }}"
"""

RETURN = r"""
config:
  description: The checked document. Secrets are replaced by V(<minted at apply>).
  returned: success
  type: dict
  sample: {kubernetes: {version: 1.34.4}, node: {maxPods: 50}}
config_version:
  description: Version of the document, as the source returned it.
  returned: success
  type: str
  sample: "1708123456"
arc:
  description: What the document asks of Azure Arc, as options of M(aks.flexnode.arc_register).
  returned: success
  type: dict
  sample: {enabled: true, resource_group: edge, location: westeurope}
arc_proxy:
  description: The proxy for the agent of Azure Arc. Empty where it has a password.
  returned: success
  type: str
  sample: http://proxy.example.com:3128
operation:
  description: Name of the operation, for the calls that follow.
  returned: success
  type: str
  sample: 4f1c2d9a77e0b3c8
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1103}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.config_options import OPTIONS, REQUIRED_IF
from ansible_collections.aks.flexnode.plugins.module_utils.node_code import NODE_CODE, run_node_code


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            **NODE_CODE,
            "source": {**OPTIONS["source"], "default": "inline"},
            "purpose": {"type": "str", "choices": ["join", "prepare"], "default": "join"},
            "operation": {"type": "str"},
        },
        required_if=REQUIRED_IF,
        supports_check_mode=True,
    )
    run_node_code(module, "flexnode_config_fetch")


if __name__ == "__main__":
    main()
