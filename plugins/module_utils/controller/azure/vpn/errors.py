# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be wrong with the VPN of a cluster, its gateway and its certificates."""

from __future__ import annotations

from ....node.errors import FlexNodeError


class RangesOverlap(FlexNodeError):
    code, title = "FLEX-1721", "Address ranges of the VPN overlap"
    remedy = "choose another azure.vpn.p2sGatewayCIDR that none of these networks uses, then run this again"


class VnetUnusable(FlexNodeError):
    code, title = "FLEX-1722", "The VNet can't take a VPN gateway"


class GatewayUnusable(FlexNodeError):
    code, title = "FLEX-1723", "The VPN gateway can't be used as it is"


class RecordUnusable(FlexNodeError):
    code, title = "FLEX-1724", "The record of VPN certificates can't be used"


class ProfileUnusable(FlexNodeError):
    code, title = "FLEX-1725", "The VPN profile that Azure generated can't be used"
    remedy = "run this again; az network vnet-gateway vpn-client generate shows whether Azure has a profile"


class ClientsActive(FlexNodeError):
    code, title = "FLEX-1726", "Machines still have valid VPN certificates of this gateway"
