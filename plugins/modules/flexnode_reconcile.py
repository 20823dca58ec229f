#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_reconcile
short_description: Apply the configuration of a node to a machine
version_added: 0.1.0
description:
  - Computes everything that a node consists of from its configuration, compares it with the machine, and
    applies what differs in one transaction. Artifacts are fetched and verified first, then all is placed,
    then what changed is restarted once.
  - An item that is no longer in the configuration is restored to its state before the join. If it was changed
    outside this collection since, it is left, with a warning.
  - With the V(services) component, success means that the Node is Ready at the API server, with the right
    version.
  - If the node is applying a configuration by itself at that moment, O(state=present) waits until that is
    done, as long as its drain, its gates and its downloads may take. For another run it waits 30 s.
  - O(state=absent) uninstalls everything. What was on the machine before is restored; what was changed by
    others since is left and reported.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.source
  - aks.flexnode.node_code
options:
  components:
    description:
      - What to apply, always in this order. Each component can be applied by itself.
      - V(vpn) is applied and tested first, because the others need the API server.
      - V(pull), which is ansible-pull with its schedule, is applied only by itself, after the node works.
    type: list
    elements: str
    choices: [agent, vpn, system_config, runtime, kubernetes, cni, kubelet, npd, services, pull]
    default: [agent, vpn, system_config, runtime, kubernetes, cni, kubelet, npd, services]
  state:
    description:
      - V(present) makes the machine a node, V(absent) uninstalls the node.
    type: str
    choices: [present, absent]
    default: present
  source:
    description:
      - Obtain the configuration in this call, as M(aks.flexnode.flexnode_config_fetch) does, and apply it.
    type: str
    choices: [inline, url, stored]
  origin:
    description:
      - Where the playbook got the configuration from, as C(flexnode_config_source) calls it. It changes
        nothing but the advice in errors, for example how to get a new bootstrap token.
      - Without it, O(source).
    type: str
    choices: [inline, url, rp, cluster, blob, machines]
  config:
    description:
      - The document that M(aks.flexnode.flexnode_config_fetch) returned. Secrets are read from the machine.
      - Without it and without O(source), the document that is stored on the machine is used.
    type: dict
  preflight:
    description:
      - With O(source), check everything that would keep the machine from joining before anything is changed,
        and fail with all problems at once. Skipped on a machine that has joined.
    type: bool
    default: false
  preflight_skip:
    description:
      - Ids of checks of O(preflight) to skip.
    type: list
    elements: str
    default: []
  drain_seconds:
    description:
      - With O(state=absent), how long pods may take to leave. V(0) does not drain.
    type: int
    default: 120
  expected:
    description:
      - With O(state=absent), which node the machine must be. Another one is refused, and nothing is changed.
        What is not set is not compared, and a machine that is not a node may leave in any case.
      - Playbook C(aks.flexnode.unbootstrap) sets it from the inventory, by whose names it then deletes what
        the node has in Azure.
    type: dict
    suboptions:
      node_name:
        description: Name of its Node.
        type: str
      cluster_id:
        description: Resource id of its AKS cluster.
        type: str
      pool:
        description: Its FlexNodes pool.
        type: str
  retry:
    description:
      - Also apply a configuration that was rolled back before. By default it is refused until it changes.
    type: bool
    default: false
  wait_seconds:
    description:
      - How long to wait for the turn of this node, if the configuration has C(upgrade.maxUnavailable). V(0)
        does not wait. Without it, C(upgrade.waitSeconds) of the configuration, and V(0) in a playbook that
        ansible-pull runs.
      - If its turn does not come in that time, the module fails and nothing was changed. In a playbook that
        ansible-pull runs it does not fail, because the next run tries again. It returns RV(waits) and the
        tasks after it run.
    type: int
  operation:
    description:
      - Name of the operation that this call belongs to, as returned by M(aks.flexnode.flexnode_config_fetch).
    type: str
"""

EXAMPLES = r"""
- name: Make this machine a node
  aks.flexnode.flexnode_reconcile:
    source: inline
    document: "{{ flexnode_config | to_json }}"

- name: Apply the configuration that was fetched before
  aks.flexnode.flexnode_reconcile:
    config: "{{ fetched.config }}"
    operation: "{{ fetched.operation }}"

- name: Install the container runtime in an image
  aks.flexnode.flexnode_reconcile:
    components: [runtime]

- name: Install ansible-pull with its schedule on a node
  aks.flexnode.flexnode_reconcile:
    components: [pull]

- name: Uninstall the node
  aks.flexnode.flexnode_reconcile:
    state: absent

- name: Uninstall the node, if it is Node edge-1
  aks.flexnode.flexnode_reconcile:
    state: absent
    expected: {node_name: edge-1}
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [install containerd 2.3.4, create /etc/containerd/config.toml]
config_version:
  description: Version of the document, as the source returned it.
  returned: when O(source) is set
  type: str
  sample: "1708123456"
timings:
  description: Seconds spent in each part.
  returned: success
  type: dict
  sample: {plan: 0.1, fetch: 0.9, apply: 0.4, start: 0.3, gate: 1.2}
outcome:
  description: What the run was, one of V(joined), V(updated), V(repaired), V(unchanged) and V(waits).
  returned: when O(state=present)
  type: str
  sample: updated
settings:
  description: Names of the settings that differ from the configuration that was applied before.
  returned: when O(state=present)
  type: list
  elements: str
  sample: [maxPods, labels]
summary:
  description: The outcome in words, for people.
  returned: when O(state=present)
  type: str
  sample: updated (maxPods, labels)
drains:
  description: Whether pods leave the node before the change, as C(upgrade.drain) says.
  returned: when O(state=present)
  type: bool
vpn_certificate:
  description: Thumbprint (SHA-1) of the client certificate that the VPN tunnel of this machine works with.
  returned: when C(azure.vpn.enabled) is set in the document
  type: str
  sample: 3C01B2D4E5F60718293A4B5C6D7E8F9001122334
pull_pending:
  description: Whether ansible-pull differs from the configuration, and the component V(pull) has work to do.
  returned: when the services component was applied
  type: bool
  sample: true
waits:
  description: Why this node waits before it changes anything, with a code. Only in a run of ansible-pull.
  returned: when it waits
  type: str
  sample: "FLEX-1522: this node waits for edge-7 (kubernetes 1.34.3 -> 1.34.4)"
taints:
  description:
    - Taints of the Node that differ from the configuration. A node may not change its own taints, so the
      controller has to, with M(aks.flexnode.flexnode_node).
  returned: when the services component was applied
  type: dict
  sample: {set: [{key: dedicated, value: edge, effect: NoSchedule}], remove: []}
node:
  description: The Node, as the API server has it.
  returned: when the services component was applied
  type: dict
  sample: {name: edge-1, ready: true, kubeletVersion: 1.34.4, containerRuntime: containerd 2.3.4}
machine:
  description:
    - What tells the Node of this machine from a Node of the same name in another cluster, as
      O(aks.flexnode.flexnode_node#module:nodes) takes it. The machine id is the one that its kubelet reports,
      the rest is how it reaches its cluster.
  returned: when the services component was applied, or O(state=absent)
  type: dict
  sample:
    machine_id: 0f1e2d3c4b5a69788796a5b4c3d2e1f0
    api_server: https://plant-dns-1a2b3c.hcp.westeurope.azmk8s.io:443
    ca_sha256: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
remains:
  description: With O(state=absent), what could not be restored, and why.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: ["file:/etc/containerd/config.toml: changed outside this collection"]
node_name:
  description: With O(state=absent), name of the Node that the machine was.
  returned: when O(state=absent)
  type: str
  sample: edge-1
node_remains:
  description: With O(state=absent), why the machine could not delete its Node. Empty if it could.
  returned: when O(state=absent)
  type: str
  sample: "the API server refuses this request: nodes \"edge-1\" is forbidden"
pool:
  description:
    - With O(state=absent), the FlexNodes pool of the node. This module does not delete its machine there.
  returned: when O(state=absent)
  type: str
  sample: edge
rolled_back:
  description: That all changes of this run were rolled back, so that the machine is as before.
  returned: when a failed run was rolled back
  type: bool
  sample: true
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1203}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.config_options import OPTIONS, REQUIRED_IF
from ansible_collections.aks.flexnode.plugins.module_utils.node_code import NODE_CODE, run_node_code

# What a node consists of. The table is in the node's code, which must not be imported here: Ansible would
# pack it a second time.
COMPONENTS = ["agent", "vpn", "system_config", "runtime", "kubernetes", "cni", "kubelet", "npd", "services"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            **NODE_CODE,
            "components": {
                "type": "list",
                "elements": "str",
                "choices": [*COMPONENTS, "pull"],
                "default": COMPONENTS,
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "origin": {"type": "str", "choices": ["inline", "url", "rp", "cluster", "blob", "machines"]},
            "config": {"type": "dict"},
            "preflight": {"type": "bool", "default": False},
            "preflight_skip": {"type": "list", "elements": "str", "default": []},
            "drain_seconds": {"type": "int", "default": 120},
            "expected": {
                "type": "dict",
                "options": {name: {"type": "str"} for name in ("node_name", "cluster_id", "pool")},
            },
            "retry": {"type": "bool", "default": False},
            "wait_seconds": {"type": "int"},
            "operation": {"type": "str"},
        },
        required_if=REQUIRED_IF,
        mutually_exclusive=[("source", "config")],
        supports_check_mode=True,
    )
    run_node_code(module, "flexnode_reconcile")


if __name__ == "__main__":
    main()
