#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: arc_register
short_description: Register a machine with Azure Arc
version_added: 0.2.0
description:
  - Has the Azure Connected Machine agent (azcmagent) on the machine, registered and at work. Where it is
    there already it is used as it is.
  - A machine that is registered as the wanted resource is left alone. One that is registered as another
    resource is an error that names it.
  - O(state=absent) takes back what this module did and nothing else. A registration or an agent of somebody
    else stays.
  - The access token reaches the agent in a file that only root can read, on a tmpfs, which is gone
    afterwards. It never is an argument of a command.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
options:
  state:
    description:
      - V(present) registers the machine, V(absent) takes that back, V(query) only looks.
    type: str
    choices: [present, absent, query]
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
  cloud:
    description:
      - Which Azure.
    type: str
    choices: [AzurePublicCloud, AzureUSGovernment, AzureChinaCloud]
    default: AzurePublicCloud
  tags:
    description:
      - Azure tags of the machine. They are set when it is registered.
    type: dict
    default: {}
  proxy:
    description:
      - Proxy of the agent. Without it, the agent's setting stays. An empty text clears it.
      - The agent does not support a user and password here.
    type: str
  access_token:
    description:
      - An access token for Azure Resource Manager, of somebody who may register machines there.
      - Needed only when there is something to register or to remove.
    type: str
  package_url:
    description:
      - Address of the agent's package (C(.deb)). Used only where there is no agent.
    type: str
  package_sha256:
    description:
      - Digest of the package.
    type: str
  ca_cert:
    description:
      - CA certificates (PEM) to trust for O(package_url), beside those of the system.
    type: str
  services_seconds:
    description:
      - How long to wait until the agent is connected and its services run.
    type: int
    default: 120
  local_only:
    description:
      - With O(state=absent) and without O(access_token), remove the registration on the machine and leave the
        resource in Azure.
    type: bool
    default: false
  cluster_id:
    description:
      - The AKS cluster. With it, the roles that the machine's own identity lacks there are returned.
    type: str
  profile:
    description:
      - What the kubelet lives on. V(token) needs wider roles than V(certificate).
    type: str
    choices: [certificate, token]
    default: certificate
  roles:
    description:
      - The roles that are needed at O(cluster_id), instead of those of O(profile).
    type: list
    elements: str
    choices: [reader, rbac-cluster-admin, cluster-admin]
  server_url:
    description:
      - Address of the cluster's API server, where the kubelet is to use the machine's identity. With it, the
        API server is asked as well what the identity may do there.
      - A kubelet that has its certificate needs nothing more there, and nothing is asked.
    type: str
  ca_cert_data:
    description:
      - The API server's CA, PEM in base64. Needed with O(server_url).
    type: str
  node_name:
    description:
      - Name of the Node, for the commands that are shown. Without it, the host name.
    type: str
  kubelet_dir:
    description:
      - Where the kubelet keeps its certificate.
    type: path
    default: /var/lib/kubelet
  wait_roles_seconds:
    description:
      - How long to wait until the machine's own identity has the roles. What is missing then is an error.
      - V(0) does not wait, and missing roles are only returned.
    type: int
    default: 0
  resource_manager_endpoint:
    description:
      - Address of Azure Resource Manager. Without it, that of O(cloud).
    type: str
  data_dir:
    description:
      - Where the machine's state is. Without it, where it was found last.
    type: path
  operation:
    description:
      - Name of the operation that this call belongs to, as returned by M(aks.flexnode.flexnode_config_fetch).
    type: str
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

- name: See what it is
  aks.flexnode.arc_register:
    state: query

- name: Take the registration back, if it was ours
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
  description: Whether the machine is registered, and Azure hears of it.
  returned: success
  type: bool
  sample: true
agent_status:
  description: The status in the agent's own word.
  returned: success
  type: str
  sample: Connected
agent_error:
  description: The trouble that the agent names, if any.
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
  description: Whether this collection registered the machine, and so may take it back.
  returned: success
  type: bool
  sample: true
missing_roles:
  description:
    - The roles that the machine's own identity lacks, with the commands. Those of Azure are at the cluster's
      resource, those of Kubernetes are ClusterRoles.
  returned: when O(cluster_id) is given and the machine is registered
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
      description: GUID of a role of Azure's.
      type: str
      sample: acdd72a7-3385-48ef-bd42-f606fba81ae7
    scope:
      description: What the role is for.
      type: str
      sample: /subscriptions/.../managedClusters/plant
    command:
      description: The line that gives it.
      type: str
      sample: az role assignment create --assignee-object-id ...
  sample: [{kind: azure, role: Reader, command: az role assignment create ...}]
progress:
  description: What was told on the way, e.g. which roles were waited for.
  returned: success
  type: list
  elements: str
  sample: ["wait for the Arc agent: extd not running"]
remains:
  description: With O(state=absent), what stays, and why.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: ["/subscriptions/1/...: somebody else registered it"]
error:
  description: What went wrong, as data.
  returned: failure
  type: dict
  sample: {code: FLEX-1813, what: this machine is registered as /subscriptions/...}
"""

import base64
import socket
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.sections.azure import CLOUDS
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import held, new_operation
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.state import store_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    CaMismatch,
    FlexNodeError,
    Forbidden,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.choice import AKS
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import TokenSourceUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.token import Identity
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import Clock
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host, require_root
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient, Proxies
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.rights import refused
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.agent import (
    Order,
    Registration,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import ArmUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.registration import (
    Outcome,
    Package,
    own_identity,
    own_principal,
    query,
    register,
    unregister,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import (
    PROFILES,
    ROLES,
    Grants,
    Missing,
    missing_bindings,
    missing_roles,
    needed,
    wait_for_roles,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret

PATIENCE = 30.0
PAUSE = 3.0
T = TypeVar("T")
KUBELET_DIR = "/var/lib/kubelet"
CERTIFICATE = "pki/kubelet-client-current.pem"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "query"], "default": "present"},
            "machine_name": {"type": "str"},
            "resource_group": {"type": "str"},
            "subscription_id": {"type": "str"},
            "tenant_id": {"type": "str"},
            "location": {"type": "str"},
            "cloud": {"type": "str", "choices": list(CLOUDS), "default": "AzurePublicCloud"},
            "tags": {"type": "dict", "default": {}},
            "proxy": {"type": "str", "no_log": True},
            "access_token": {"type": "str", "no_log": True},
            "package_url": {"type": "str"},
            "package_sha256": {"type": "str"},
            "ca_cert": {"type": "str"},
            "services_seconds": {"type": "int", "default": 120},
            "local_only": {"type": "bool", "default": False},
            "cluster_id": {"type": "str"},
            "profile": {"type": "str", "choices": list(PROFILES), "default": "certificate"},
            "roles": {"type": "list", "elements": "str", "choices": list(ROLES)},
            "server_url": {"type": "str"},
            "ca_cert_data": {"type": "str"},
            "node_name": {"type": "str"},
            "kubelet_dir": {"type": "path", "default": KUBELET_DIR},
            "wait_roles_seconds": {"type": "int", "default": 0},
            "resource_manager_endpoint": {"type": "str"},
            "data_dir": {"type": "path"},
            "operation": {"type": "str"},
        },
        required_if=[("state", "present", ("resource_group", "subscription_id", "tenant_id", "location"))],
        required_together=[("package_url", "package_sha256"), ("server_url", "ca_cert_data")],
        supports_check_mode=True,
    )
    try:
        require_root()
        host = Host()
        if module.check_mode or module.params["state"] == "query":
            result = carry_out(module, host)
        else:
            with held(host, module.params["operation"] or new_operation(), "Ansible"):
                result = carry_out(module, host)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_dict())
    else:
        module.exit_json(**result)


def carry_out(module: AnsibleModule, host: Host) -> dict[str, object]:
    given = module.params
    store = store_of(host, given["data_dir"])
    token = Secret(given["access_token"]) if given["access_token"] else None
    told: list[str] = []
    if given["state"] == "absent":
        outcome = unregister(
            host, token, local_only=given["local_only"], check=module.check_mode, tell=told.append
        )
        return {**answer(outcome, told), "remains": outcome.remains}
    if given["state"] == "query":
        outcome = query(host)
    else:
        outcome = register(
            host,
            store,
            order_of(given),
            token,
            package_=package_of(given, host),
            proxy=given["proxy"],
            services_seconds=given["services_seconds"],
            check=module.check_mode,
            tell=told.append,
        )
    more: dict[str, object] = {}
    if outcome.status.connected:
        arm = given["resource_manager_endpoint"] or CLOUDS[given["cloud"]][0]
        try:
            hasty = given["state"] == "query" or module.check_mode or given["wait_roles_seconds"]
            seconds = 0 if hasty else PATIENCE
            outcome.principal_id = patiently(partial(own_principal, host, arm), host.clock, seconds, told)
            if given["cluster_id"]:
                look = partial(lacking, module, host, arm, told)
                found = patiently(look, host.clock, seconds, told)
                more["missing_roles"] = [one.as_dict() for one in found]
        except FlexNodeError as error:
            if given["state"] != "query":
                raise
            told.append(f"{error.what}: {error.why}")  # who only looks is told what there is to see
    return {**answer(outcome, told), **more}


def patiently(look: Callable[[], T], clock: Clock, seconds: float, told: list[str]) -> T:
    """Ask again what may pass: an agent that was just started, a line that blinks. A refusal does not."""
    deadline = clock.monotonic() + seconds
    while True:
        try:
            return look()
        except (ArmUnusable, TokenSourceUnreachable) as trouble:
            if getattr(trouble.__cause__, "final", False) or clock.monotonic() >= deadline:
                raise
            told.append(f"{trouble.what}: {trouble.why}")
            clock.sleep(PAUSE)


def answer(outcome: Outcome, told: list[str]) -> dict[str, object]:
    return {
        "changed": outcome.changed,
        "actions": outcome.actions,
        "progress": told,
        "diff": {"before": "", "after": "".join(f"{action}\n" for action in outcome.actions)},
        **outcome.as_dict(),
    }


def order_of(given: dict[str, object]) -> Order:
    name = str(given["machine_name"] or socket.gethostname())
    tags = given["tags"] if isinstance(given["tags"], dict) else {}
    return Order(
        registration=Registration(str(given["subscription_id"]), str(given["resource_group"]), name),
        tenant_id=str(given["tenant_id"]),
        location=str(given["location"]),
        cloud=str(given["cloud"]),
        tags={str(key): str(value) for key, value in tags.items()},
    )


def package_of(given: dict[str, object], host: Host) -> Package | None:
    if not given["package_url"]:
        return None
    proxy = str(given["proxy"] or "")
    client = HttpClient(ca_pem=str(given["ca_cert"] or ""), proxies=Proxies(proxy, proxy), clock=host.clock)
    return Package(str(given["package_url"]), str(given["package_sha256"]).lower(), client)


def lacking(module: AnsibleModule, host: Host, arm: str, told: list[str]) -> list[Missing]:
    given = module.params
    identity = own_identity(host)
    proxy = str(given["proxy"] or "")
    grants = Grants(identity, arm, HttpClient(proxies=Proxies(proxy, proxy), clock=host.clock))
    roles = given["roles"] if given["roles"] is not None else needed(given["profile"])

    waits = given["state"] == "present" and given["wait_roles_seconds"] and not module.check_mode

    def look() -> list[Missing]:
        missing = missing_roles(grants, identity, given["cluster_id"], roles)
        # Azure's role comes first: in the cluster it has its effect through Azure.
        acts = any(one.role_id == ROLES["rbac-cluster-admin"].id for one in missing)
        return missing if acts else [*missing, *in_cluster(given, host, identity, arm, waiting=bool(waits))]

    if waits:
        wait_for_roles(look, host.clock, given["wait_roles_seconds"], told.append)
        return []
    return look()


def in_cluster(
    given: dict[str, object], host: Host, identity: Identity, arm: str, *, waiting: bool
) -> list[Missing]:
    if not given["server_url"]:
        return []
    name, profile = str(given["node_name"] or socket.gethostname()).lower(), str(given["profile"])
    certificate = f"{given['kubelet_dir']}/{CERTIFICATE}"
    try:
        ca_pem = base64.b64decode(str(given["ca_cert_data"]), validate=True).decode()
        # Three attempts: a line that blinks is no right that is there.
        connect = partial(KubeClient, str(given["server_url"]), ca_pem, clock=host.clock, attempts=3)
        certified = profile == "certificate" and host.exists(certificate)
        if certified and not refused(connect(certificate=host.path(certificate)), name):
            return []  # the kubelet has what the right is for
        client = connect(token=identity.token(AKS).value.reveal())
    except (ValueError, CaMismatch, Forbidden):  # preflight says where it stands, and what it should be
        return []
    return missing_bindings(client, identity, f"{arm.rstrip('/')}/", profile, name, waiting=waiting)


if __name__ == "__main__":
    main()
