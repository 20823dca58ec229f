#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_bootstrap_data
short_description: Get the bootstrap data of a FlexNodes pool
version_added: 0.1.0
description:
  - Gets what a machine needs to join a FlexNodes pool (C(listBootstrapData)). That is the URL and CA of the
    API server, versions, the pool's settings, and a bootstrap token.
  - The data is the same for all machines of the pool. One call serves a whole fleet. Azure allows 100 calls
    at once per subscription and one per second after that.
  - The token is valid for one hour. Get new data after 45 minutes.
  - The result holds the token. It is hidden from every output of Ansible; do not write it to a file that
    others can read.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.pools
attributes:
  diff_mode:
    support: none
    details: The result is a secret.
  idempotent:
    support: none
    details: Each call creates a bootstrap token in the cluster, which Azure deletes after an hour.
options: {}
seealso:
  - module: aks.flexnode.flexnode_machine
"""

EXAMPLES = r"""
- name: Get the bootstrap data of a pool, once for all machines
  aks.flexnode.flexnode_bootstrap_data:
    cluster_id: "{{ flexnode_cluster_id }}"
    pool: edge
  register: bootstrap
  run_once: true
"""

RETURN = r"""
document:
  description: >-
    The data as a part of the configuration document, with all versions that the pool names, also those that a
    machine would refuse because it can't verify them. It holds the token. Empty in check mode.
  returned: success
  type: dict
  sample: {kubernetes: {version: 1.36.2}, azure: {targetAgentPoolName: edge}}
notes:
  description: What of the data is not used, and why.
  returned: success
  type: list
  elements: str
  sample: [the bootstrap data has fields that are not used; bootstrap.ociImage]
obtained:
  description: When the data was obtained, in seconds since 1970.
  returned: success
  type: int
  sample: 1795000000
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [get the bootstrap data of pool edge]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1113}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import (
    AZURE,
    POOLS,
    login_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import ARM_ERROR, Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.api import Pools
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.pool import pool_name
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import cluster_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.bootstrap_data import document_from


def main() -> None:
    module = AnsibleModule(argument_spec={**AZURE, **POOLS}, supports_check_mode=True)
    params, now = module.params, int(SystemClock().now())
    document: dict[str, Any] = {}
    notes: list[str] = []
    try:
        cluster, pool = cluster_of(params["cluster_id"]), pool_name(params["pool"])
        if not module.check_mode:
            login = login_of(module, {"azure-mgmt-core": ARM_ERROR})
            arm = Arm(login, params["api_version"], params["poll_interval"], params["operation_timeout"])
            data = Pools(arm, cluster).bootstrap_data(pool)
            document, notes = document_from(data, cluster=cluster.canonical(), pool=pool)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(
            changed=True,
            actions=[f"get the bootstrap data of pool {pool}"],
            document=document,
            notes=notes,
            obtained=now,
        )


if __name__ == "__main__":
    main()
