# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What proves a tunnel: a client that was started after the change is connected, and the API server answers.

That the unit is active proves nothing: it is so before the first connection. Nor does a connection to the
API server's address: it may go another way, and another server may answer. So the route must lead through
the device of the tunnel, and the answer must be signed by the CA of the cluster.
"""

from __future__ import annotations

import socket
import urllib.parse

from ...config.model import NodeConfig
from ...dataclass import dataclass, field
from ...errors import FlexNodeError, Forbidden
from ...machine.host import Host
from ...machine.layout import VPN, VPN_DEVICE
from ...net.kube import KubeClient
from ...net.tunnel import Tunnel, route_device, tunnel_of
from ...node_object.gates import JUST_BEFORE, TOO_MANY_STARTS, Pause
from ...node_object.kubelet_log import unit_failed
from ...resources.units import Process, processes
from .errors import VpnRefused, VpnUnreachable, VpnUnusable
from .profile import read_profile

ENOUGH_REFUSALS = 3  # one may be a gateway that restarts
EARLIER = 1.0  # seconds: a process and the change before it are timed by two clocks
RECONNECTS = 15.0  # seconds: one attempt of the client at a gateway that is starting, and the next one
PATIENCE = 5.0  # seconds for the API server's answer


@dataclass(frozen=True)
class TunnelUp:
    """The tunnel is up since the change, and leads to the API server."""

    config: NodeConfig
    seconds: float
    changed: list[float] = field(default_factory=list)  # when everything was in place

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "the VPN tunnel"

    def pass_(self, host: Host) -> None:
        """Wait for the tunnel; fail early when waiting can't help."""
        deadline = host.clock.monotonic() + self.seconds
        since, pause = host.clock.now() - JUST_BEFORE, Pause(host)
        first = processes(host, (VPN,))[VPN].restarts
        while True:
            process, tunnel = processes(host, (VPN,))[VPN], tunnel_of(host)
            if process.state == "failed" or process.restarts - first >= TOO_MANY_STARTS:
                raise self._ended(host, since)
            missing = self._missing(host, process, tunnel)
            if missing is None:
                return
            if tunnel and tunnel.refusals >= ENOUGH_REFUSALS and not tunnel.connected:
                raise VpnRefused(
                    "the VPN gateway refuses this machine", where=self._gateway, why=tunnel.reason
                )
            if host.clock.monotonic() >= deadline:
                raise missing
            pause.sleep(deadline - host.clock.monotonic())

    def _missing(self, host: Host, process: Process, tunnel: Tunnel | None) -> FlexNodeError | None:
        """What is not there yet; None: the tunnel works."""
        old = process.started + EARLIER < max(self.changed, default=0.0)
        if process.state != "active" or old or tunnel is None:
            state = "still runs with its old profile" if old else f"is {process.state} and does not answer"
            return VpnRefused(
                "the VPN client does not run",
                where=VPN,
                why=f"{VPN} {state}",
                fix=f"read `journalctl -u {VPN} -n 50`, fix the cause, then run this again",
            )
        if not tunnel.connected:
            waited = f"after {self.seconds:g} s the tunnel is not up"
            return VpnUnreachable(waited, where=self._gateway, why=tunnel.reason)
        return through_tunnel(host, self.config)

    @property
    def _gateway(self) -> str:
        profile = self.config.azure.vpn.profile
        remotes = read_profile(profile.reveal()).remotes if profile and not profile.redacted else ()
        return ", ".join(f"{remote.host}:{remote.port}" for remote in remotes)

    def _ended(self, host: Host, since: float) -> VpnRefused:
        ended = unit_failed(host, VPN, since)
        return VpnRefused("the VPN client ends after each start", where=VPN, why=ended.why)


@dataclass(frozen=True)
class DirectlyReached:
    """The API server answers without the tunnel that was removed."""

    config: NodeConfig
    seconds: float

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "the API server, without the VPN"

    def pass_(self, host: Host) -> None:
        """Wait until it answers."""
        deadline, pause = host.clock.monotonic() + self.seconds, Pause(host)
        while error := answer_of(self.config, host):
            if host.clock.monotonic() >= deadline:
                raise VpnUnusable(
                    "without the VPN the API server can't be reached",
                    where=self.config.api_server.url,
                    why=f"{error.what}: {error.why}",
                    fix="set azure.vpn.enabled: true again, or make the API server reachable from this site",
                )
            pause.sleep(deadline - host.clock.monotonic())


def await_reconnect(host: Host) -> None:
    """Give a client that is about to connect again a moment: it may get another address for the kubelet.

    A gateway that is away for longer is no error here: what follows needs the API server, or it does not.
    """
    deadline, pause = host.clock.monotonic() + RECONNECTS, Pause(host)
    while not ((tunnel := tunnel_of(host)) and tunnel.connected) and host.clock.monotonic() < deadline:
        pause.sleep(deadline - host.clock.monotonic())


def through_tunnel(host: Host, config: NodeConfig) -> VpnUnusable | None:
    """Why the API server is not reached through the tunnel; None: it is."""
    url = config.api_server.url
    name = urllib.parse.urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return VpnUnusable(
            "the name of the API server can't be resolved",
            where=name,
            why=str(error),
            fix="name servers of the gateway are used where systemd-resolved runs; elsewhere use a name that "
            "public DNS resolves, or an address, in node.kubelet.serverURL",
        )
    address = str(found[0][4][0])
    device = route_device(host, address)
    if device != VPN_DEVICE:
        return VpnUnusable(
            "the API server is not reached through the VPN",
            where=f"{name} ({address})" if name != address else name,
            why=f"its route leads through {device}" if device else "there is no route to it",
            fix="set network.vnetCIDRs to the ranges of its VNet, or let the gateway send their routes",
        )
    if silence := answer_of(config, host):
        return VpnUnusable(
            "the tunnel is up, and the API server does not answer through it",
            where=url,
            why=f"{silence.what}: {silence.why}",
            fix="check the network behind the gateway: routes, network security groups, the cluster itself",
        )
    return None


def answer_of(config: NodeConfig, host: Host) -> FlexNodeError | None:
    """Why the API server does not answer; None: it does. Who asks does not matter, who answers does."""
    server = config.api_server
    try:
        KubeClient(server.url, server.ca.pem, clock=host.clock, attempts=1, timeout=PATIENCE).version()
    except Forbidden:
        return None
    except FlexNodeError as error:
        return error
    return None
