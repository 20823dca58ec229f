# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VPN gateway that modules work on."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules for the VPN gateway of a cluster."""

    DOCUMENTATION = r"""
options:
  cluster_id:
    description:
      - Resource id of the AKS cluster. Its node pools say which VNet it is, its pods and Services which
        addresses are in use. Without it, O(vnet_id) is needed.
    type: str
  vnet_id:
    description:
      - Resource id of the VNet. Needed if AKS made the VNet of the cluster itself, and if the gateway is in
        another VNet than the cluster, such as a hub that is peered with it.
    type: str
  gateway_id:
    description:
      - Resource id of a gateway that exists, also in another subscription of the tenant. If it does not
        exist, that is an error, and none is created.
      - Without it, the VPN gateway in the GatewaySubnet of the VNet, else one of O(name).
    type: str
  name:
    description:
      - Name of a gateway that is created. Without it, C(flexnode-vpn).
    type: str
  resource_group:
    description:
      - Resource group of a gateway that is created. Without it, that of the VNet.
    type: str
  directory:
    description:
      - A directory on the controller for the record of certificates, one file per gateway. It is created with
        mode 0700. It has to outlive the run, also in an execution environment, and belongs into a backup.
    type: path
    required: true
  poll_interval:
    description:
      - Seconds between two requests for the state of a long-running operation, if Azure names no interval.
    type: int
    default: 15
  operation_timeout:
    description:
      - Seconds that a long-running operation may take. If it takes longer, it goes on in Azure, and the next
        run waits for it.
    type: int
    default: 5400
requirements:
  - azure-mgmt-network
  - azure-mgmt-containerservice
  - cryptography
notes:
  - This collection was tried with an emulation of the published network API only, never with Azure itself.
    See docs/vpn_gateway.md.
"""
