#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_vpn_gateway_info
short_description: Show the VPN gateway of a cluster and the certificates of its machines
version_added: 0.1.0
description:
  - Reads the VPN gateway of a cluster or a VNet, and the record of client certificates in O(directory). It
    needs no passphrase and returns no keys.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.attributes.info
  - aks.flexnode.azure
  - aks.flexnode.vpn
seealso:
  - module: aks.flexnode.flexnode_vpn_gateway
"""

EXAMPLES = r"""
- name: Show the gateway and its certificates
  aks.flexnode.flexnode_vpn_gateway_info:
    cluster_id: "{{ flexnode_cluster_id }}"
    directory: ~/flexnode_vpn
  register: vpn
  run_once: true
"""

RETURN = r"""
gateway:
  description: The gateway. Empty if there is none.
  returned: success
  type: dict
  contains:
    id:
      description: Its resource id.
      type: str
      sample: /subscriptions/.../virtualNetworkGateways/flexnode-vpn
    name:
      description: Its name.
      type: str
      sample: flexnode-vpn
    vnet_id:
      description: The VNet that it is in.
      type: str
      sample: /subscriptions/.../virtualNetworks/plant
    sku:
      description: Its SKU.
      type: str
      sample: VpnGw2AZ
    address_pool:
      description: Addresses of clients.
      type: list
      elements: str
      sample: [192.168.100.0/24]
    root_certificates:
      description: Thumbprints of the root certificates that it trusts.
      type: list
      elements: str
      sample: [1F3A5C7E...]
    revoked_certificates:
      description: Thumbprints of the client certificates that it refuses.
      type: list
      elements: str
      sample: []
    provisioning_state:
      description: What Azure says about the last change.
      type: str
      sample: Succeeded
    created_by_collection:
      description: Whether this collection created it.
      type: bool
      sample: true
  sample: {name: flexnode-vpn, sku: VpnGw2AZ, provisioning_state: Succeeded}
certificates:
  description: All certificates of the record, without keys.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the Node.
      type: str
      sample: edge-1
    state:
      description: V(active), V(replaced), V(revoked) or V(expired).
      type: str
      sample: active
    thumbprint:
      description: SHA-1 of the certificate, as Azure shows it.
      type: str
      sample: 3C01B2...
    expires:
      description: Until when it is valid.
      type: str
      sample: "2027-11-16T17:00:00+00:00"
  sample: [{node: edge-1, state: active}]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1722}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    CONTAINERSERVICE_ERROR,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arguments import AZURE, login_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.module import require
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.api import (
    NETWORK_ERROR,
    Network,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import (
    CRYPTOGRAPHY_ERROR,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.clients import listed
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.gateway import described
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.options import (
    PLACE,
    Ids,
    place_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.record import Store
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.controller.progress import teller
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock


def main() -> None:
    module = AnsibleModule(argument_spec={**AZURE, **PLACE}, supports_check_mode=True)
    params, clock = module.params, SystemClock()
    packages = {"azure-mgmt-network": NETWORK_ERROR, "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR}
    require(module, {**packages, "cryptography": CRYPTOGRAPHY_ERROR})
    try:
        ids, login = Ids.of(params), login_of(module)
        network = Network(
            login,
            clock,
            teller(None),
            pause=params["poll_interval"],
            seconds=params["operation_timeout"],
        )
        place = place_of(params, ids, login, network)
        found = network.get(place.gateway)
        record = Store(params["directory"], place.gateway, "").read(secrets=False)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(
            changed=False,
            gateway=described(place, found) if found else {},
            certificates=listed(record, clock.now()),
        )


if __name__ == "__main__":
    main()
