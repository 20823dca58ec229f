#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: arc_info
short_description: Show the Azure Arc registration of a machine
version_added: 0.1.0
description:
  - Returns whether the Azure Connected Machine agent is installed, what the machine is registered as, the
    state of the agent's services, and the machine's own identity. It never changes anything.
  - With O(cluster_id), the roles that the identity lacks at the cluster are returned, with the commands that
    assign them.
  - What can't be queried, for example because Azure does not answer, is reported in RV(progress). It is no
    failure.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.arc
  - aks.flexnode.node_code
seealso:
  - module: aks.flexnode.arc_register
"""

EXAMPLES = r"""
- name: Show the Azure Arc registration of this machine
  aks.flexnode.arc_info:
  register: arc

- name: Show which roles its identity lacks at a cluster
  aks.flexnode.arc_info:
    cluster_id: "{{ flexnode_cluster_id }}"
"""

RETURN = r"""
installed:
  description: Whether the agent is on the machine.
  returned: success
  type: bool
  sample: true
connected:
  description: Whether the machine is registered, and its agent reports to Azure.
  returned: success
  type: bool
  sample: true
agent_status:
  description: The status, as the agent reports it.
  returned: success
  type: str
  sample: Connected
agent_error:
  description: The error that the agent reports, if any.
  returned: success
  type: str
  sample: ""
resource_id:
  description: The machine's resource in Azure. Empty where it is not registered.
  returned: success
  type: str
  sample: /subscriptions/1/resourceGroups/edge/providers/Microsoft.HybridCompute/machines/edge-1
principal_id:
  description: Object id of the machine's own identity. Empty where it has none.
  returned: success
  type: str
  sample: 99999999-8888-7777-6666-555555555555
vm_id:
  description: The machine's id in Azure Arc.
  returned: success
  type: str
  sample: 33333333-8888-7777-6666-555555555555
tenant_id:
  description: The tenant it is registered in.
  returned: success
  type: str
  sample: 66666666-7777-8888-9999-aaaaaaaaaaaa
location:
  description: The region it is registered in.
  returned: success
  type: str
  sample: westeurope
agent_version:
  description: The agent's version.
  returned: success
  type: str
  sample: 1.62.03460.1115
services:
  description: The agent's services and their states.
  returned: success
  type: dict
  sample: {himdsd: active, extd: active, gcad: active}
registered_by_us:
  description:
    - Whether this collection registered the machine. Only then M(aks.flexnode.arc_register) removes the
      registration.
  returned: success
  type: bool
  sample: true
missing_roles:
  description:
    - The roles that the machine's own identity lacks, with the commands. Those of Azure are at the cluster's
      resource, those of Kubernetes are ClusterRoles.
  returned: when O(cluster_id) is set and the machine is registered
  type: list
  elements: dict
  contains:
    kind:
      description: V(azure) or V(kubernetes).
      type: str
      sample: azure
    role:
      description: Name of the role.
      type: str
      sample: Reader
    role_id:
      description: GUID of an Azure role.
      type: str
      sample: acdd72a7-3385-48ef-bd42-f606fba81ae7
    scope:
      description: What the role is for.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    command:
      description: The command that assigns it.
      type: str
      sample: az role assignment create --assignee-object-id ...
  sample: [{kind: azure, role: Reader, command: az role assignment create ...}]
progress:
  description: Messages of the run, such as a query that failed.
  returned: success
  type: list
  elements: str
  sample: ["waiting for the Arc agent: extd not running"]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1814}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.arc_options import OPTIONS
from ansible_collections.aks.flexnode.plugins.module_utils.node_code import NODE_CODE, run_node_code


def main() -> None:
    module = AnsibleModule(
        argument_spec={**OPTIONS, **NODE_CODE},
        required_together=[("server_url", "ca_cert_data")],
        supports_check_mode=True,
    )
    run_node_code(module, "arc_info")


if __name__ == "__main__":
    main()
