# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VPN in the status: as the client itself reports it, because systemd knows only that it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..machine.clock import iso
from ..machine.host import Host
from ..machine.layout import VPN, VPN_DEVICE
from ..net.tunnel import tunnel_of
from ..resources.units import RUNNING, unit_states

NO_VPN, UP, CONNECTING, STOPPED, SILENT = (
    "NotConfigured",
    "Connected",
    "Connecting",
    "NotRunning",
    "NotAnswering",
)


def vpn_line(vpn: Mapping[str, Any]) -> str:
    """The state of the tunnel in one line."""
    if vpn["status"] == UP:
        return f"{UP}  {vpn['address']} through {vpn['gateway']} since {vpn['since']}"
    return f"{vpn['status']}  {vpn['message']}"


def vpn_of(host: Host) -> dict[str, Any]:
    """The state of the tunnel; while it is up, since when, with which address, by which gateway."""
    tunnel = tunnel_of(host)
    if tunnel is None:
        runs = unit_states(host, (VPN,))[VPN]["ActiveState"] in RUNNING
        message = f"{VPN} does not answer" if runs else f"{VPN} does not run: see journalctl -u {VPN}"
        return {"status": SILENT if runs else STOPPED, "message": message}
    if not tunnel.connected:
        return {"status": CONNECTING, "message": tunnel.reason}
    last = tunnel.last
    return {
        "status": UP,
        "since": iso(last.time),
        "address": last.address,
        "gateway": f"{last.gateway}:{last.port}",
        "device": VPN_DEVICE,
    }
