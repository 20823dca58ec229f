#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_preflight_info
short_description: Check what would keep a machine from joining
version_added: 0.1.0
description:
  - Runs every check and reports everything that is wrong at once, each with what was found, why it matters
    and the command that fixes it.
  - Findings do not make this module fail. See RV(ok).
  - Changes nothing, needs no more rights than the join itself, and never authenticates with the bootstrap
    token.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.source
  - aks.flexnode.node_code
options:
  source:
    description:
      - Where the configuration comes from.
      - V(inline) is O(document) itself; V(url) is a configuration bundle at O(url), over which O(document) is
        merged; V(stored) is the document that is on the machine already, with O(document) merged over it.
    type: str
    choices: [inline, url, stored]
    default: inline
  durable:
    description:
      - Whether O(url) stays valid, so that C(continuousMonitoring) can follow it.
  stage:
    description:
      - V(host) checks the machine and sends no request. V(connectivity) asks the API server, the sources of
        all artifacts and Azure, and belongs after Arc and VPN. V(all) does both, except what needs Arc or a
        VPN that is not there yet.
    type: str
    choices: [host, connectivity, all]
    default: all
  skip:
    description:
      - Ids of checks that are left out. One that does not exist is an error.
    type: list
    elements: str
    default: []
  purpose:
    description:
      - What the configuration must be complete for. With V(prepare) it needs no cluster, because its source
        is asked only after this check.
    type: str
    choices: [join, prepare]
    default: join
  name:
    description:
      - What the machine is called in RV(table). Without it, the name of its Node.
    type: str
  token_expires:
    description:
      - When the bootstrap token expires, as its issuer says. A date as in V(2026-11-15T08:00:00Z), or
        seconds since 1970.
      - The document does not contain it, and only the cluster's administrator can read it there.
    type: str
"""

EXAMPLES = r"""
- name: Check everything that would keep this machine from joining
  aks.flexnode.flexnode_preflight_info:
    document: "{{ flexnode_config | to_json }}"
    skip: [swap]
  register: result

- name: Show the result
  ansible.builtin.debug:
    var: result.table
"""

RETURN = r"""
ok:
  description: Whether the machine can join. Warnings do not prevent it.
  returned: success
  type: bool
  sample: false
findings:
  description: All problems, errors first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Stable name of the check, as O(skip) takes it.
      type: str
      sample: foreign-runtime
    severity:
      description: V(error) would make the join fail, V(warning) would not.
      type: str
      sample: error
    found:
      description: What was found.
      type: str
      sample: /usr/lib/systemd/system/docker.service
    why:
      description: Why it matters.
      type: str
      sample: two of them can't share a machine
    fix:
      description: What to do about it.
      type: str
      sample: "uninstall it, or set takeover: true in the configuration"
unchecked:
  description: Checks that could not run, with the reason of each.
  returned: success
  type: list
  elements: dict
  sample: [{id: token-expired, why: "when the token abcdef expires: the configuration does not say"}]
table:
  description: The same for a person, as lines.
  returned: success
  type: list
  elements: str
  sample: ["edge-1  1 error", "  ERROR    root  preflight does not run as root"]
summary:
  description: The result in a few words.
  returned: success
  type: str
  sample: 1 error, 2 warnings
error_count:
  description: Number of findings of severity V(error).
  returned: success
  type: int
  sample: 1
warning_count:
  description: Number of findings of severity V(warning).
  returned: success
  type: int
  sample: 2
checks:
  description: Ids of all checks that ran.
  returned: success
  type: list
  elements: str
  sample: [root, platform, systemd]
skipped_checks:
  description: Ids of the checks that were skipped.
  returned: success
  type: list
  elements: str
  sample: [swap]
name:
  description: O(name), or the name of the Node.
  returned: success
  type: str
  sample: edge-1
node_name:
  description: Name that the Node will have.
  returned: success
  type: str
  sample: edge-1
cluster_id:
  description:
    - Resource id of the cluster that it would join, in lower case. Empty if the configuration has none. Two
      machines would be the same Node if both this and C(node_name) are equal.
  returned: success
  type: str
  sample: /subscriptions/1/resourcegroups/rg/providers/microsoft.containerservice/managedclusters/plant
joined:
  description:
    - Whether the machine has joined a cluster and can go on with its own credential. Null if that can't be
      read.
  returned: success
  type: bool
  sample: false
config_version:
  description: Version of the configuration that is stored on the machine. Empty if there is none.
  returned: success
  type: str
  sample: "1708123456"
stage:
  description: The stage that was run.
  returned: success
  type: str
  sample: all
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 0.09
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1101}
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
            "stage": {"type": "str", "choices": ["host", "connectivity", "all"], "default": "all"},
            "skip": {"type": "list", "elements": "str", "default": []},
            "purpose": {"type": "str", "choices": ["join", "prepare"], "default": "join"},
            "name": {"type": "str"},
            "token_expires": {"type": "str", "no_log": False},
        },
        required_if=REQUIRED_IF,
        supports_check_mode=True,
    )
    run_node_code(module, "flexnode_preflight_info")


if __name__ == "__main__":
    main()
