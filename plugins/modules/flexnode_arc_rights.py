#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_arc_rights
short_description: Assign and remove the rights of the Azure Arc machines of a play, and their registrations
version_added: 0.1.0
description:
  - Role assignments in Azure (M(aks.flexnode.flexnode_role_assignment)) and the right to request a kubelet
    certificate in the cluster (M(aks.flexnode.flexnode_identity_binding)), for all machines of the batch
    at once.
  - Rights follow the inventory alone. A machine that reports to be another Arc machine than the inventory
    names is refused, and so are machines that report to be the same one.
  - C(flexnode_arc_roles) and C(flexnode_arc_kubeconfig) are read from the variables of each host.
  - What fails for one machine is reported of this machine (RV(refused), RV(remains)). The others are done.
  - Runs on the controller, once per play (C(run_once)). Role P(aks.flexnode.arc#role) calls it.
options:
  state:
    description:
      - V(present) assigns what C(azure.arc.autoRoleAssignment) asks for.
      - V(surplus) removes what a machine no longer needs after its join.
      - V(absent) removes everything that this collection assigned, and then the registrations that it
        created (M(aks.flexnode.flexnode_arc_machine)). It never fails; RV(remains) says what could not be
        removed.
    type: str
    choices: [present, surplus, absent]
    default: present
  machines:
    description:
      - RV(aks.flexnode.flexnode_source#module:machines) of the same play.
    type: dict
    required: true
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
author:
  - aks.flexnode contributors (@aks-flexnode)
"""

EXAMPLES = r"""
- name: Assign roles and rights to all machines
  aks.flexnode.flexnode_arc_rights:
    machines: "{{ __source.machines }}"
  run_once: true
"""

RETURN = r"""
commands:
  description: By host, the commands that assign what the machine lacks and this run does not assign.
  returned: success
  type: dict
  sample: {edge-1: ["az role assignment create --role ..."]}
refused:
  description: By host, why it gets no rights. Only with O(state=present), which then does not fail.
  returned: success
  type: dict
  sample: {}
remains:
  description: By host, why rights or the registration of the machine may still exist.
  returned: success
  type: dict
  sample: {edge-1: []}
notes:
  description: By host, what may be left and was not looked for. Only with O(state=absent).
  returned: success
  type: dict
  sample: {}
deleted:
  description: The hosts whose registration no longer exists in Azure. Only with O(state=absent).
  returned: success
  type: list
  elements: str
  sample: [edge-1]
time:
  description: When it was done, in seconds of the controller's clock. Machines wait for roles from then on.
  returned: success
  type: int
  sample: 1767225600
actions:
  description: What was done, as sentences.
  returned: success
  type: list
  elements: str
  sample: [assign role Reader to edge-1]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1811}
"""
