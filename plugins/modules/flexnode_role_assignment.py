#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_role_assignment
short_description: Assign Azure roles to machines on their AKS clusters
version_added: 0.1.0
description:
  - Assigns the roles that machines need on their clusters to their identities, and removes them. All machines
    of a run share one login, and the assignments at each cluster are listed once.
  - The name of an assignment depends on what it grants, so a second run and a removal find the one that was
    created before. An assignment by someone else, at the scope or above it, counts. It is neither changed nor
    removed.
  - A new role assignment takes minutes to be effective. M(aks.flexnode.arc_register) waits for that on the
    machine, as the machine's own identity.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.nodes
options:
  assignments:
    description:
      - Single assignments.
    type: list
    elements: dict
    default: []
    suboptions:
      principal_id:
        description: Object id of a service principal or managed identity.
        type: str
        required: true
      role:
        description: Name, GUID or resource id of a role, or one of the short names of O(roles).
        type: str
        required: true
      scope:
        description: Resource id to assign the role at.
        type: str
        required: true
  nodes:
    description:
      - Machines. Each is assigned O(roles) on its cluster.
    default: []
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      principal_id:
        description: Object id of the machine's identity.
        type: str
      machine_id:
        description:
          - Resource id of the machine in Azure Arc. Azure is asked for its identity if
            O(nodes[].principal_id) is not set.
        type: str
      cluster_id:
        description:
          - Resource id of its AKS cluster, instead of O(cluster_id).
          - With O(state=absent) and O(nodes[].machine_id) it may be left out. Roles are then searched in
            the whole subscription of the machine, which needs the right to read role assignments there.
        type: str
      pool:
        description:
          - Name of its FlexNodes pool. The role C(flex-node-agent) is then assigned at the pool, instead of
            roles at the cluster. With O(state=absent) assignments at both are removed.
        type: str
      auth_profile:
        description: The C(kubernetesAuth.profile) of its configuration, instead of O(auth_profile).
        aliases: [profile]
        type: str
        choices: [certificate, token]
      roles:
        description: Its roles, instead of O(roles).
        type: list
        elements: str
  auth_profile:
    description:
      - The C(kubernetesAuth.profile) of O(nodes), which decides about O(roles). V(certificate) needs
        C(reader), V(token) needs C(reader), C(rbac-cluster-admin) and C(cluster-admin).
    type: str
    choices: [certificate, token]
    default: certificate
  roles:
    description:
      - The roles of O(nodes), instead of those of O(auth_profile). Each is a name, a GUID, a resource id, or
        a short name.
      - The short names are C(reader), C(rbac-cluster-admin), C(cluster-admin) and C(flex-node-agent), which
        is the role of FlexNodes pools.
      - Without it, O(state=absent) removes all assignments that this module created on their clusters.
    type: list
    elements: str
  state:
    description:
      - V(present) assigns the roles, V(absent) removes those that this module assigned, V(query) changes
        nothing.
    type: str
    choices: [present, absent, query]
    default: present
  principal_seconds:
    description:
      - Seconds to retry while Azure does not know a principal, which happens shortly after it was created.
    type: int
    default: 300
requirements:
  - azure-mgmt-authorization
  - azure-mgmt-hybridcompute (only with O(nodes[].machine_id))
seealso:
  - module: aks.flexnode.arc_register
"""

EXAMPLES = r"""
- name: Assign two machines what they need to follow their configurations
  aks.flexnode.flexnode_role_assignment:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes:
      - name: edge-1
        principal_id: 99999999-8888-7777-6666-555555555555
      - name: edge-2
        machine_id: "{{ arc_resource_id }}"
  run_once: true

- name: Let a machine of a FlexNodes pool get bootstrap data and follow its machine
  aks.flexnode.flexnode_role_assignment:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1, principal_id: 99999999-8888-7777-6666-555555555555, pool: edge}]
  run_once: true

- name: Show which roles a machine with kubernetesAuth.profile token lacks
  aks.flexnode.flexnode_role_assignment:
    cluster_id: "{{ flexnode_cluster_id }}"
    nodes: [{name: edge-1, principal_id: 99999999-8888-7777-6666-555555555555}]
    auth_profile: token
    state: query
  register: found

- name: Assign a custom role
  aks.flexnode.flexnode_role_assignment:
    assignments:
      - principal_id: 99999999-8888-7777-6666-555555555555
        role: AKS Flex Node
        scope: "{{ flexnode_cluster_id }}"
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences. Also where it failed for some machines.
  returned: unless the sign-in failed
  type: list
  elements: str
  sample: [assign role Reader to edge-1 at /subscriptions/.../managedClusters/plant]
assignments:
  description: The result for each assignment, except those of RV(failures).
  returned: unless the sign-in failed
  type: list
  elements: dict
  contains:
    node:
      description: Name of the Node. Empty for those of O(assignments).
      type: str
      sample: edge-1
    principal_id:
      description: Object id of the identity.
      type: str
      sample: 99999999-8888-7777-6666-555555555555
    role:
      description: Name of the role, or its GUID if the name is not known.
      type: str
      sample: Reader
    role_id:
      description: GUID of the role.
      type: str
      sample: acdd72a7-3385-48ef-bd42-f606fba81ae7
    scope:
      description: Resource id that the role is assigned at.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    name:
      description: Name of the assignment, if this module created it.
      type: str
      sample: 5f2c1d3e-0000-5000-8000-000000000000
    id:
      description: Its resource id.
      type: str
      sample: /subscriptions/.../roleAssignments/5f2c1d3e-0000-5000-8000-000000000000
    action:
      description:
        - V(created), V(unchanged), V(deleted), or V(kept) for an assignment by someone else. With
          O(state=query), V(present) or V(missing).
      type: str
      sample: created
    reason:
      description: Why.
      type: str
      sample: it does not exist
    ours:
      description: Whether this module created it.
      type: bool
      sample: true
  sample: [{node: edge-1, role: Reader, action: created, ours: true}]
missing:
  description:
    - Roles that are not assigned, each with the command that assigns it. In check mode, also planned ones.
  returned: unless the sign-in failed
  type: list
  elements: dict
  contains:
    node:
      description: Name of the Node.
      type: str
      sample: edge-1
    principal_id:
      description: Object id of the identity.
      type: str
      sample: 99999999-8888-7777-6666-555555555555
    role:
      description: Name of the role.
      type: str
      sample: Reader
    role_id:
      description: GUID of the role.
      type: str
      sample: acdd72a7-3385-48ef-bd42-f606fba81ae7
    scope:
      description: Resource id that the role is assigned at.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    command:
      description: The command that assigns it.
      type: str
      sample: az role assignment create --assignee-object-id ...
  sample: [{node: edge-1, role: Reader, command: az role assignment create ...}]
gone:
  description:
    - With O(state=absent), machines that no longer exist in Azure Arc, or have no identity there. Which one
      they had is not known, so assignments to it are not found.
    - C(missing) is what does not exist, V(machine), V(resource group) or V(identity). C(command) lists those
      that this module created, at one scope.
  returned: unless the sign-in failed
  type: list
  elements: dict
  sample: [{name: edge-3, machine_id: /subscriptions/..., missing: machine, command: az role assignment ...}]
failures:
  description: The machines for which it failed, with C(code) and C(msg) of each. The others are done.
  returned: failure, unless the sign-in failed
  type: list
  elements: dict
  sample: [{name: edge-2, machine_id: /subscriptions/..., code: FLEX-1703, msg: there is no machine ...}]
error:
  description: The code of the error; the message says the rest. C(nodes) has the code of each
    where machines failed for different reasons.
  returned: failure
  type: dict
  sample: {code: FLEX-1702}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.assignments import (
    requests_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.authorization import (
    AUTHORIZATION_ERROR,
    HYBRIDCOMPUTE_ERROR,
    Authorization,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.granting import (
    assign_roles,
    inspect_roles,
    plan_of,
    remove_roles,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.failures import as_result
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import PROFILES


def main() -> None:
    text = {"type": "str"}
    needed = {"type": "str", "required": True}
    single = {"principal_id": needed, "role": needed, "scope": needed}
    roles = {"type": "list", "elements": "str"}
    node = {
        "name": needed,
        "principal_id": text,
        "machine_id": text,
        "cluster_id": text,
        "pool": text,
        "auth_profile": {"type": "str", "choices": list(PROFILES), "aliases": ["profile"]},
        "roles": roles,
    }
    module = AnsibleModule(
        argument_spec={
            **AZURE,
            "assignments": {"type": "list", "elements": "dict", "default": [], "options": single},
            "nodes": {"type": "list", "elements": "dict", "default": [], "options": node},
            "cluster_id": {"type": "str"},
            "auth_profile": {"type": "str", "choices": list(PROFILES), "default": "certificate"},
            "roles": roles,
            "state": {"type": "str", "choices": ["present", "absent", "query"], "default": "present"},
            "principal_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    params, check = module.params, module.check_mode
    state, packages = params["state"], {"azure-mgmt-authorization": AUTHORIZATION_ERROR}
    try:
        requests = requests_of(params)
        if any(request.machine_id for request in requests):
            packages["azure-mgmt-hybridcompute"] = HYBRIDCOMPUTE_ERROR
        azure = Authorization(login_of(module, {"azure-mgmt-core": ARM_ERROR, **packages}))
        plan = plan_of(azure, requests, absent=state == "absent")
        if state == "absent":
            done = remove_roles(azure, plan, check=check)
        elif state == "query":
            done = inspect_roles(plan)
        else:
            seconds = params["principal_seconds"]
            done = assign_roles(azure, plan, SystemClock(), seconds=seconds, check=check)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        changed = [outcome for outcome in done.outcomes if outcome.changes]
        result = {
            "changed": bool(changed),
            "actions": [outcome.sentence() for outcome in changed],
            "assignments": [outcome.as_dict() for outcome in done.outcomes],
            "missing": [one.grant.as_missing() for one in done.outcomes if one.lacks(planned=check)],
            "gone": [one.as_dict() for one in plan.gone],
            "diff": [outcome.diff() for outcome in changed],
        }
        if done.failures:
            module.fail_json(**result, **as_result(done.failures))
        module.exit_json(**result)


if __name__ == "__main__":
    main()
