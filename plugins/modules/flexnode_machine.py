#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_machine
short_description: Manage machines of a FlexNodes pool
version_added: 0.1.0
description:
  - Creates, changes and deletes the machine resources of a FlexNodes pool. A machine is the goal of one node.
    It has a version of Kubernetes, the maximum of pods, labels and taints.
  - All machines of a run share one login. The pool is listed once, and only machines that differ are written.
    A write names the eTag that was read. If someone else changed the machine meanwhile, it is read again
    once.
  - A machine is found by the name of its Node, and is created with that name. Azure accepts at most 40
    characters and no dot.
  - O(machines[].max_pods) of an existing machine can't be changed. Recreate the machine instead.
  - What Azure returns for a write is compared with what was asked for. Labels and taints that it did not take
    are warnings, and no change. Another version or another maximum of pods is an error.
  - Azure refuses changes while another operation runs, such as an upgrade of the pool. They are tried again
    for O(operation_timeout).
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.pools
options:
  machines:
    description:
      - The machines.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      version:
        description: Version of Kubernetes. Without it, a new machine has the pool's, others keep their own.
        type: str
      max_pods:
        description: How many pods may run on it. Without it, a new machine has the pool's value.
        type: int
      labels:
        description:
          - Labels, set over those of the pool. Other labels of the machine are removed. Without it, a new
            machine has the pool's, others keep their own.
        type: dict
      taints:
        description:
          - All taints, as KEY=VALUE:EFFECT. Without it, a new machine has the pool's, others keep their own.
        type: list
        elements: str
  state:
    description:
      - V(present) creates or changes the machines.
      - V(absent) deletes them with one call (C(deleteMachines)) and waits until they are gone. AKS then
        drains their Nodes and deletes them. A node that follows its machine leaves by itself.
        Without their pool, machines count as deleted. A cluster, a resource group or a subscription that does
        not exist is an error.
    type: str
    choices: [present, absent]
    default: present
  defaults:
    description:
      - What new machines have, for a login that may not read the pool. Otherwise the pool's values are used.
    type: dict
    suboptions:
      version:
        description: Version of Kubernetes.
        type: str
      max_pods:
        description: How many pods may run on a machine.
        type: int
      labels:
        description: Labels.
        type: dict
      taints:
        description: Taints, as KEY=VALUE:EFFECT.
        type: list
        elements: str
  progress_file:
    description:
      - A file to which lines about the progress are appended. The action plugin shows them as they come.
    type: path
seealso:
  - module: aks.flexnode.flexnode_pool
  - module: aks.flexnode.flexnode_pool_info
"""

EXAMPLES = r"""
- name: Create two machines, one of them with an own label
  aks.flexnode.flexnode_machine:
    cluster_id: "{{ flexnode_cluster_id }}"
    pool: edge
    machines:
      - name: edge-1
      - name: edge-2
        labels: {site: lab-2}
  run_once: true

- name: Delete a machine that no longer exists
  aks.flexnode.flexnode_machine:
    cluster_id: "{{ flexnode_cluster_id }}"
    pool: edge
    machines: [{name: edge-3}]
    state: absent
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [create machine edge-1 (it does not exist)]
machines:
  description: The result for each machine, in the order of O(machines).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    action:
      description:
        - V(created), V(updated), V(unchanged), V(deleted), or V(absent) if there was nothing to delete.
      type: str
      sample: created
    reasons:
      description: Why. For an update, what changes.
      type: list
      elements: str
      sample: [label site=lab-2]
    etag:
      description: The eTag of the machine, new at each change of its goal. Empty in check mode for new ones.
      type: str
      sample: 1f0c8a52-5b1c-4b9e-8a44-1b3f0e6a7c11
    provisioning_state:
      description: What Azure says about the last write.
      type: str
      sample: Succeeded
    version:
      description: Version of Kubernetes.
      type: str
      sample: 1.36.2
    max_pods:
      description: How many pods may run on it.
      type: int
      sample: 75
    labels:
      description: Its labels, without those of AKS itself.
      type: dict
      sample: {site: lab-2}
    taints:
      description: Its taints.
      type: list
      elements: str
      sample: []
  sample: [{name: edge-1, action: created, version: 1.36.2}]
notes:
  description: What Azure did not take of a write, though it accepted it. They are warnings, too.
  returned: success
  type: list
  elements: str
  sample: []
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where machines failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1112}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import (
    AZURE,
    POOLS,
    login_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR, Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.api import Pools
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.busy import Patience
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.fleet import (
    keep_absent,
    keep_present,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.plan import (
    defaults_of,
    wanted_machines,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.pool import pool_name
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import cluster_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.controller.progress import teller
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import pool_id


def main() -> None:
    goal = {
        "version": {"type": "str"},
        "max_pods": {"type": "int"},
        "labels": {"type": "dict"},
        "taints": {"type": "list", "elements": "str"},
    }
    machine = {"name": {"type": "str", "required": True}, **goal}
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            **POOLS,
            "machines": {"type": "list", "elements": "dict", "required": True, "options": machine},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "defaults": {"type": "dict", "options": goal},
            "progress_file": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    try:
        cluster, pool = cluster_of(params["cluster_id"]), pool_name(params["pool"])
        wanted = wanted_machines(params["machines"])
        login = login_of(module, {"azure-mgmt-core": ARM_ERROR})
        pause, seconds = params["poll_interval"], params["operation_timeout"]
        pools = Pools(Arm(login, params["api_version"], pause, seconds), cluster)
        tell, where = teller(params["progress_file"]), pool_id(pools.cluster, pool)
        patience = Patience(where, SystemClock(), pause=pause, seconds=seconds, tell=tell)
        if params["state"] == "absent":
            outcomes = keep_absent(pools, pool, [one.name for one in wanted], patience, check=check)
        else:
            known = defaults_of(params["defaults"])
            outcomes = keep_present(pools, pool, wanted, known, patience, check=check)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        changed = [outcome for outcome in outcomes if outcome.action.changes]
        notes = [outcome.note for outcome in outcomes if outcome.note]
        for note in notes:
            module.warn(note)
        module.exit_json(
            changed=bool(changed),
            actions=[outcome.sentence() for outcome in changed],
            machines=[outcome.as_dict() for outcome in outcomes],
            notes=notes,
            diff=[outcome.diff() for outcome in changed],
        )


if __name__ == "__main__":
    main()
