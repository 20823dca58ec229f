# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A VPN for tests: profiles, and a gateway that the client of a machine talks to as the real one does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.vpn.client import PROFILE, PROGRAM
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.openvpn import read_profile
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import VPN, VPN_DEVICE
from testbed.vpn.profile import azure_profile, filled
from tests.unit.node.fakes import Machine

GREETING = ">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info\r\n"
SECRET_KEY = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQ"


def pem(kind: str, content: str) -> str:
    """A PEM block; nobody looks at what is in it."""
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----"


def a_profile(gateway: str = "gateway.example", key: str = SECRET_KEY, more: str = "") -> str:
    """A profile as Azure generates it, with the certificate and the key of a machine filled in."""
    text = azure_profile(
        gateway,
        443,
        gateway,
        pem("CERTIFICATE", "MIIDrzCCApegAwIBAgIQ"),
        pem("OpenVPN Static key V1", "0123456789abcdef0123456789abcdef"),
    )
    text = text.replace("verb 3\n", f"verb 3\n{more}\n")
    return filled(text, pem("CERTIFICATE", "MIIBszCCAVmgAwIBAgIU"), pem("PRIVATE KEY", key))


def with_vpn(profile: str | None = None, **more: Any) -> dict[str, Any]:
    """A document's part that uses a VPN."""
    return {"azure": {"vpn": {"enabled": True, "profile": profile or a_profile(), **more}}}


@dataclass
class Gateway:
    """What is at the other end of a machine's tunnel, and the client at this end."""

    machine: Machine
    address: str = "192.168.100.2"
    away: bool = False
    refuses: set[str] = field(default_factory=set)  # gateways, by name, that accept no certificate
    unknown: set[str] = field(default_factory=set)  # names at which nobody is
    routed: bool = True  # whether packets to the API server go through the tunnel
    silent: bool = False  # the client hangs
    running: str = ""  # the gateway of the profile with which the client was started
    since: float = 0.0

    def attach(self) -> Gateway:
        """Be the one of this machine."""
        commands = self.machine.commands
        commands.asked = self.ask
        commands.on_start[VPN] = self.starts
        vars(commands)["_ip"] = self.ip
        return self

    def starts(self) -> None:
        """The client reads its profile, once."""
        text = self.machine.text(PROFILE)
        self.running = text.split("\nremote ", 1)[1].split()[0]
        self.since = self.machine.clock.time

    def ip(self, *arguments: str) -> str:
        """The route to an address."""
        works = self.routed and self.running not in (self.refuses | self.unknown)
        return json.dumps([{"dst": arguments[-1], "dev": VPN_DEVICE if works else "eth0"}])

    def ask(self, _path: str) -> str | None:
        """What the client answers at its management socket."""
        if self.machine.commands.units.get(VPN) != "active" or self.silent:
            return None
        began = int(self.since)
        lines = [f"{began},CONNECTING,,,,,,", f"{began},TCP_CONNECT,,,,,,"]
        if self.away or self.running in self.unknown:
            lines.append(f"{began + 1},RECONNECTING,connection-failed,,,,,")
        elif self.running in self.refuses:
            for attempt in range(int(self.machine.clock.time - self.since)):
                at = began + attempt
                lines += [f"{at},WAIT,,,,,,", f"{at},AUTH,,,,,,", f"{at},RECONNECTING,connection-reset,,,,,"]
        else:
            lines += [f"{began},WAIT,,,,,,", f"{began},AUTH,,,,,,", f"{began},GET_CONFIG,,,,,,"]
            lines.append(f"{began},CONNECTED,SUCCESS,{self.address},203.0.113.9,443,10.0.2.15,40000")
        return GREETING + "".join(f"{line}\r\n" for line in lines) + "END\r\n"


def a_gateway(machine: Machine) -> Gateway:
    """A gateway, and a machine that has openvpn already."""
    machine.put(PROGRAM, "", 0o755)
    return Gateway(machine).attach()


assert read_profile(a_profile()).remotes[0].host == "gateway.example"
