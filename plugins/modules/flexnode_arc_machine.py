#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_arc_machine
short_description: Delete machines from Azure Arc
version_added: 0.1.0
description:
  - Deletes the resources of machines that leave Azure Arc. The controller does it, so no machine needs an
    access token for it. M(aks.flexnode.arc_register) with O(aks.flexnode.arc_register#module:local_only)
    removes the registration from the machine itself.
  - A resource that another machine has registered under the same name since is kept. Its C(vmId) differs.
  - All machines share one login. A machine that can't be deleted does not stop the others.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
options:
  machines:
    description:
      - The machines.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the host, for the result.
        type: str
        required: true
      machine_id:
        description: Resource id of the machine in Azure Arc.
        type: str
        required: true
      vm_id:
        description: Its C(vmId), as RV(aks.flexnode.arc_info#module:vm_id) returns it.
        type: str
        required: true
  state:
    description:
      - V(absent) deletes the machines.
    type: str
    choices: [absent]
    default: absent
seealso:
  - module: aks.flexnode.arc_register
  - module: aks.flexnode.arc_info
"""

EXAMPLES = r"""
- name: Read the registration of each machine
  aks.flexnode.arc_info:
  register: arc

- name: Delete the machines from Azure Arc
  aks.flexnode.flexnode_arc_machine:
    machines:
      - name: edge-1
        machine_id: "{{ hostvars['edge-1'].arc.resource_id }}"
        vm_id: "{{ hostvars['edge-1'].arc.vm_id }}"
    state: absent
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: unless the sign-in failed
  type: list
  elements: str
  sample: [delete /subscriptions/.../machines/edge-1]
machines:
  description: The result for each machine.
  returned: unless the sign-in failed
  type: list
  elements: dict
  contains:
    name:
      description: Name of the host.
      type: str
      sample: edge-1
    machine_id:
      description: Resource id of the machine.
      type: str
      sample: /subscriptions/.../machines/edge-1
    action:
      description: V(deleted), V(absent), V(kept) or V(failed).
      type: str
      sample: deleted
    reason:
      description: Why.
      type: str
      sample: it was registered by this collection
    code:
      description: The code of the error. Empty unless it failed.
      type: str
      sample: ""
  sample: [{name: edge-1, action: deleted}]
error:
  description: The code of the first error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1701}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arc_machines import (
    API_VERSION,
    DELETED,
    FAILED,
    ArcResource,
    delete_machines,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR, Arm
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError

POLL_SECONDS = 5


def main() -> None:
    needed = {"type": "str", "required": True}
    machine = {"name": needed, "machine_id": needed, "vm_id": needed}
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            "machines": {"type": "list", "elements": "dict", "required": True, "options": machine},
            "state": {"type": "str", "choices": ["absent"], "default": "absent"},
        },
        supports_check_mode=True,
    )
    machines = [ArcResource(**one) for one in module.params["machines"]]
    try:
        azure = Arm(login_of(module, {"azure-mgmt-core": ARM_ERROR}), API_VERSION, POLL_SECONDS)
        outcomes = delete_machines(azure, machines, check=module.check_mode)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        deleted = [one for one in outcomes if one.action == DELETED]
        result = {
            "changed": bool(deleted),
            "actions": [one.sentence for one in deleted],
            "machines": [one.as_dict() for one in outcomes],
        }
        failed = [one for one in outcomes if one.action == FAILED]
        if failed:
            msg = "\n".join(f"{one.name}: {one.reason}" for one in failed)
            module.fail_json(msg=msg, error={"code": failed[0].code}, **result)
        module.exit_json(**result)


if __name__ == "__main__":
    main()
