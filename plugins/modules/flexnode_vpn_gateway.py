#!/usr/bin/python
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: flexnode_vpn_gateway
short_description: Manage the VPN gateway of a private cluster and the certificates of its machines
version_added: 0.1.0
description:
  - Finds or creates what an OpenVPN point-to-site connection into the VNet of a cluster needs. That is the
    GatewaySubnet, a public IP address and a route-based VPN gateway that accepts client certificates. A VNet
    takes one VPN gateway; one that exists is used.
  - Creating a gateway takes 30 to 45 minutes in Azure. A run that is interrupted is continued by the next
    one, which waits for the operation that runs.
  - Issues a certificate per machine, and returns a complete OpenVPN profile for each. The root certificate is
    created on the controller; its key never leaves it. All keys are stored encrypted in O(directory).
  - The result holds private keys. It is hidden from every output.
author:
  - aks.flexnode contributors (@aks-flexnode)
extends_documentation_fragment:
  - aks.flexnode.attributes
  - aks.flexnode.azure
  - aks.flexnode.vpn
options:
  state:
    description:
      - V(present) creates or changes the gateway, issues the certificates of O(machines), and revokes those
        of O(confirmed), O(gone) and O(left).
      - V(absent) deletes what this collection created (its tag C(aks-flexnode) says so). Of a gateway of
        another owner only the root certificate of this collection is removed.
    type: str
    choices: [present, absent]
    default: present
  sku:
    description:
      - SKU of the gateway. V(Basic) has no OpenVPN.
    type: str
    default: VpnGw2AZ
  address_pool:
    description:
      - Addresses of VPN clients, a CIDR. It must not overlap the VNet and its peers, the cluster's pods and
        Services, and O(other_cidrs).
    type: str
    default: 192.168.100.0/24
  gateway_subnet_cidr:
    description:
      - Addresses of a GatewaySubnet that is created. Without it, the highest free /27 of the VNet.
    type: str
    default: ""
  zones:
    description:
      - Availability zones of the public IP address. Without it, V(1), V(2) and V(3) if the SKU ends with
        C(AZ), else none. A region without zones needs an empty list and a SKU without C(AZ).
    type: list
    elements: str
  other_cidrs:
    description:
      - Other networks that the addresses of clients must not overlap, such as those of the machines' sites.
    type: list
    elements: str
    default: []
  machines:
    description:
      - Names of the Nodes that get a profile. A certificate that is missing is issued, one that expires is
        renewed, any other stays as it is.
    type: list
    elements: str
    default: []
  renew:
    description:
      - Those of O(machines) that get a new certificate in any case.
    type: list
    elements: str
    default: []
  confirmed:
    description:
      - Nodes that use their newest certificate. Those before it are revoked.
    type: list
    elements: str
    default: []
  gone:
    description:
      - Nodes whose certificates are all revoked, such as that of a machine that was stolen. A name without
        any certificate in the record is an error, and then nothing is revoked.
    type: list
    elements: str
    default: []
  left:
    description:
      - The same as O(gone) for machines that left their cluster. A name without any certificate is ignored.
    type: list
    elements: str
    default: []
  certificate_days:
    description:
      - Lifetime of a new client certificate. It is renewed when a third of it is left.
    type: int
    default: 365
  passphrase:
    description:
      - Encrypts the keys in O(directory), and decrypts O(ca_key) if that is encrypted. At least 12
        characters. Without it, E(FLEXNODE_VPN_PASSPHRASE).
    type: str
  ca_certificate:
    description:
      - A root certificate of your own in PEM, instead of one that is created. It has to be self-signed and
        RSA.
    type: str
  ca_key:
    description:
      - Its key in PEM. It is stored nowhere, so every run that issues a certificate needs it.
    type: str
  new_root:
    description:
      - Create a new root certificate and issue all certificates anew. For a record or a passphrase that was
        lost. Machines outside O(machines) keep their certificates if the record still lists them, else they
        can't connect until they get a new profile.
    type: bool
    default: false
  refresh_profile:
    description:
      - Let Azure generate the profile again, for example after Azure announced new server certificates.
    type: bool
    default: false
  force:
    description:
      - With O(state=absent), delete the gateway although machines have valid certificates.
    type: bool
    default: false
  progress_file:
    description:
      - A file to which lines about the progress are appended. The action plugin shows them as they come.
    type: path
seealso:
  - module: aks.flexnode.flexnode_vpn_gateway_info
"""

EXAMPLES = r"""
- name: Create the gateway before the first machine joins
  aks.flexnode.flexnode_vpn_gateway:
    cluster_id: "{{ flexnode_cluster_id }}"
    directory: ~/flexnode_vpn
    passphrase: "{{ vault_vpn_passphrase }}"
  run_once: true

- name: Get a profile for two machines
  aks.flexnode.flexnode_vpn_gateway:
    cluster_id: "{{ flexnode_cluster_id }}"
    directory: ~/flexnode_vpn
    passphrase: "{{ vault_vpn_passphrase }}"
    machines: [edge-1, edge-2]
  register: vpn
  run_once: true

- name: Revoke the certificate of a machine that was stolen
  aks.flexnode.flexnode_vpn_gateway:
    cluster_id: "{{ flexnode_cluster_id }}"
    directory: ~/flexnode_vpn
    passphrase: "{{ vault_vpn_passphrase }}"
    gone: [edge-2]
  run_once: true

- name: Delete the gateway
  aks.flexnode.flexnode_vpn_gateway:
    cluster_id: "{{ flexnode_cluster_id }}"
    directory: ~/flexnode_vpn
    state: absent
  run_once: true
"""

RETURN = r"""
actions:
  description: What was done, or would be done, in sentences.
  returned: success
  type: list
  elements: str
  sample: [create root certificate 1f3a5c7e, "issue a VPN certificate for edge-1 (it has none)"]
gateway:
  description: The gateway. Empty after O(state=absent).
  returned: success
  type: dict
  sample: {name: flexnode-vpn, sku: VpnGw2AZ, created_by_collection: true}
machines:
  description: What was done for each of O(machines).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: edge-1
    action:
      description: V(unchanged), V(issued) or V(renewed).
      type: str
      sample: issued
    profile:
      description: The OpenVPN profile with certificate and key. Empty in check mode.
      type: str
      sample: client...
    thumbprint:
      description: SHA-1 of the certificate, as Azure shows it.
      type: str
      sample: 3C01B2...
    expires:
      description: Until when the certificate is valid.
      type: str
      sample: "2027-11-16T17:00:00+00:00"
    replaced:
      description: Whether earlier certificates are valid until O(confirmed) names the machine.
      type: bool
      sample: false
  sample: [{name: edge-1, action: issued, thumbprint: 3C01B2...}]
notes:
  description: What an administrator should look at, such as a certificate that someone else revoked.
  returned: success
  type: list
  elements: str
  sample: []
certificates:
  description: All certificates of the record, without keys.
  returned: success
  type: list
  elements: dict
  sample: [{node: edge-1, state: active, thumbprint: 3C01B2..., expires: "2027-11-16T17:00:00+00:00"}]
error:
  description: The code of the error; the message says the rest.
  returned: failure
  type: dict
  sample: {code: FLEX-1721}
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
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.gateway import Gateways
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.options import (
    GATEWAY,
    PLACE,
    Ids,
    place_of,
    request_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.profile import (
    REQUESTS_ERROR,
    fetch,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.record import Store
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import FAILURES
from ansible_collections.aks.flexnode.plugins.module_utils.controller.progress import teller
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import SystemClock

PACKAGES = {
    "azure-mgmt-network": NETWORK_ERROR,
    "azure-mgmt-containerservice": CONTAINERSERVICE_ERROR,
    "cryptography": CRYPTOGRAPHY_ERROR,
    "requests": REQUESTS_ERROR,
}


def main() -> None:
    module = AnsibleModule(argument_spec={**AZURE, **PLACE, **GATEWAY}, supports_check_mode=True)
    params, clock = module.params, SystemClock()
    require(module, PACKAGES)
    try:
        ids, request = Ids.of(params), request_of(params, clock)
        login = login_of(module)
        pause, seconds = params["poll_interval"], params["operation_timeout"]
        tell = teller(params["progress_file"])
        network = Network(login, clock, tell, pause=pause, seconds=seconds)
        place = place_of(params, ids, login, network)
        store = Store(params["directory"], place.gateway, params["passphrase"] or "")
        bundle = login.settings.ca_bundle
        gateways = Gateways(
            network,
            store,
            clock,
            tell,
            lambda url: fetch(url, bundle),
            check=module.check_mode,
            pause=pause,
            seconds=seconds,
        )
        if params["state"] == "absent":
            done = gateways.absent(place, force=params["force"])
        else:
            done = gateways.present(place, request)
    except FAILURES as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(
            changed=bool(done.actions),
            actions=done.actions,
            gateway=done.gateway,
            machines=done.machines(),
            certificates=done.clients,
            notes=done.warnings,
            diff=done.diff,
        )


if __name__ == "__main__":
    main()
