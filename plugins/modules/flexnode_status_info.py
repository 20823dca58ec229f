#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_status_info
short_description: Show the status of a node
version_added: 0.1.0
description:
  - Reads the state of a machine, its configuration and its Node, and returns one document with one reason.
  - Changes nothing.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.node_code
options: {}
"""

EXAMPLES = r"""
- name: Read the status of this machine
  aks.flexnode.flexnode_status_info:
  register: result

- name: Show drift
  ansible.builtin.debug:
    var: result.status.drift
"""

RETURN = r"""
status:
  description: The status document, the same as C(aks-flex-node status --json) prints.
  returned: success
  type: dict
  sample:
    phase: NodeJoined
    reason: NodeJoined
    node: {name: edge-1, status: Ready, ready: true, kubeletVersion: 1.34.4}
    config: {version: "1708123456", appliedVersion: "1708123456"}
    drift: []
    message: ""
words:
  description: The same in short, for people to read.
  returned: success
  type: dict
  sample: {status: Ready, drift: none, config: 17 (applied), follows: Ok, reason: NodeJoined, right: "yes"}
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1402}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.node_code import NODE_CODE, run_node_code


def main() -> None:
    module = AnsibleModule(argument_spec=dict(NODE_CODE), supports_check_mode=True)
    run_node_code(module, "flexnode_status_info")


if __name__ == "__main__":
    main()
