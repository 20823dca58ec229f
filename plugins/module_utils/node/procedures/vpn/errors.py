# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the VPN."""

from __future__ import annotations

from ...errors import FlexNodeError


class VpnRefused(FlexNodeError):
    code, title = "FLEX-1531", "The VPN gateway refuses this machine, or the VPN client refuses its profile"
    remedy = (
        "check azure.vpn.profile: its certificate must not be revoked or expired, and its root must be known "
        "to the gateway; then run this again"
    )


class VpnUnreachable(FlexNodeError):
    code, title = "FLEX-1532", "The VPN gateway can't be reached"
    remedy = "check the gateway, and that the site's firewall lets this machine reach it; then run this again"


class VpnUnusable(FlexNodeError):
    code, title = "FLEX-1533", "The API server can't be reached through the VPN"


class VpnRolledBack(FlexNodeError):
    code, title = "FLEX-1535", "A change of the VPN does not work, and what was there before does"
    remedy = (
        "correct azure.vpn in the configuration; or try the same again: -e flexnode_retry=true, or "
        "`aks-flex-node update --retry`"
    )


class VpnDown(FlexNodeError):
    """Never raised: the reason in the status of a node whose tunnel is down."""

    code, title = "FLEX-1534", "The VPN tunnel of this node is down"
    remedy = (
        "the client reconnects by itself; if it does not, read `journalctl -u aks-flex-node-vpn -n 50`, and "
        "check the gateway and the site's firewall"
    )
