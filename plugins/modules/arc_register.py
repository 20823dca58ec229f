#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: arc_register
short_description: Register a machine with Azure Arc
version_added: 0.1.0
description:
  - Installs the Azure Connected Machine agent (azcmagent) if it is missing, registers the machine with Azure
    Arc, and waits until the agent works. An agent that is installed already is used as it is.
  - A machine that is registered as this resource already is not changed. One that is registered as another
    resource is an error that names it.
  - O(state=absent) removes what this module registered or installed, and nothing else. A registration or an
    agent of someone else stays.
  - The access token is passed to the agent in a file on a tmpfs that only root can read, and that is deleted
    afterwards. It is never an argument of a command.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.arc
  - aks.flexnode.node_code
options:
  state:
    description:
      - V(present) registers the machine, V(absent) removes the registration.
    type: str
    choices: [present, absent]
    default: present
  machine_name:
    description:
      - Name of the machine in Azure Arc. Without it, the host name.
    type: str
  resource_group:
    description:
      - Resource group of the machine. Needed with O(state=present).
    type: str
  subscription_id:
    description:
      - Subscription of the machine. Needed with O(state=present).
    type: str
  tenant_id:
    description:
      - Tenant of the subscription. Needed with O(state=present).
    type: str
  location:
    description:
      - Region of the machine. Needed with O(state=present).
    type: str
  tags:
    description:
      - Azure tags of the machine. They are set when it is registered.
    type: dict
    default: {}
  access_token:
    description:
      - An access token for Azure Resource Manager, of an identity that may register machines there.
      - Needed only if there is something to register or to remove.
    type: str
  package_url:
    description:
      - URL of the agent's package (C(.deb)). Used only if the agent is not installed.
      - It may be a signed URL. What follows the C(?) is never shown.
    type: str
  package_sha256:
    description:
      - SHA-256 digest of the package.
    type: str
  ca_cert:
    description:
      - CA certificates (PEM) to trust for O(package_url), beside those of the system.
    type: str
  services_seconds:
    description:
      - Seconds to wait until the agent is connected and its services run.
    type: int
    default: 120
  local_only:
    description:
      - With O(state=absent) and without O(access_token), remove the registration on the machine and leave the
        resource in Azure.
    type: bool
    default: false
  wait_roles_seconds:
    description:
      - Seconds to wait until the machine's own identity has the roles. What is missing then is an error.
      - V(0) does not wait, and missing roles are only returned.
    type: int
    default: 0
  data_dir:
    description:
      - Directory of the machine's state. Without it, where it was found last.
    type: path
  operation:
    description:
      - Name of the operation that this call belongs to, as returned by M(aks.flexnode.flexnode_config_fetch).
    type: str
seealso:
  - module: aks.flexnode.arc_info
"""

EXAMPLES = r"""
- name: Register this machine, and wait until its identity has its roles
  aks.flexnode.arc_register:
    resource_group: edge
    subscription_id: 11111111-2222-3333-4444-555555555555
    tenant_id: 66666666-7777-8888-9999-aaaaaaaaaaaa
    location: westeurope
    tags: {site: lab}
    access_token: "{{ arc_access_token }}"
    package_url: https://mirror.example/azcmagent_1.62_amd64.deb
    package_sha256: "{{ arc_package_sha256 }}"
    cluster_id: "{{ flexnode_cluster_id }}"
    wait_roles_seconds: 1800

- name: Remove the registration, if this collection created it
  aks.flexnode.arc_register:
    state: absent
    access_token: "{{ arc_access_token }}"
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [register this machine as /subscriptions/1/.../Microsoft.HybridCompute/machines/edge-1]
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
    - Whether this collection registered the machine. Only then O(state=absent) removes the registration.
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
  description: Messages of the run, such as the roles that it waited for.
  returned: success
  type: list
  elements: str
  sample: ["waiting for the Arc agent: extd not running"]
remains:
  description: With O(state=absent), what was not removed, and why.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: ["/subscriptions/1/...: registered by someone else"]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1813}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.arc_options import OPTIONS
from ansible_collections.aks.flexnode.plugins.module_utils.node_code import NODE_CODE, run_node_code


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **OPTIONS,
            **NODE_CODE,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "machine_name": {"type": "str"},
            "resource_group": {"type": "str"},
            "subscription_id": {"type": "str"},
            "tenant_id": {"type": "str"},
            "location": {"type": "str"},
            "tags": {"type": "dict", "default": {}},
            "access_token": {"type": "str", "no_log": True},
            "package_url": {"type": "str", "no_log": True},
            "package_sha256": {"type": "str"},
            "ca_cert": {"type": "str"},
            "services_seconds": {"type": "int", "default": 120},
            "local_only": {"type": "bool", "default": False},
            "wait_roles_seconds": {"type": "int", "default": 0},
            "data_dir": {"type": "path"},
            "operation": {"type": "str"},
        },
        required_if=[("state", "present", ("resource_group", "subscription_id", "tenant_id", "location"))],
        required_together=[("package_url", "package_sha256"), ("server_url", "ca_cert_data")],
        supports_check_mode=True,
    )
    run_node_code(module, "arc_register")


if __name__ == "__main__":
    main()
