# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VPN tunnel as its client reports it: state, since when, which address, which gateway.

systemd knows only that the client runs. It calls it active before the first connection, and its status text
still reports "completed" when the gateway is gone. So the client itself is asked, at its management socket.
"""

from __future__ import annotations

import contextlib
import json
import socket

from ..config.model import NodeConfig
from ..dataclass import dataclass, replace
from ..machine.facts import Facts
from ..machine.host import Host
from ..machine.layout import VPN_DEVICE, VPN_SOCKET

CONNECTED = "CONNECTED"
# The gateway answered, and ended the handshake: a certificate or key that it does not accept, or the reverse.
REFUSALS = frozenset(("connection-reset", "tls-error", "auth-failure", "exit-with-notification"))
SECONDS = 3.0
MOST = 64 << 10
QUESTION, END = b"state all\n", b"END"


@dataclass(frozen=True)
class Event:
    """One line of the client's history."""

    time: int  # whole seconds
    state: str
    detail: str = ""
    address: str = ""
    gateway: str = ""
    port: str = ""


@dataclass(frozen=True)
class Tunnel:
    """What the running client has done since its start."""

    history: tuple[Event, ...] = ()

    @property
    def last(self) -> Event:
        """What it does now."""
        return self.history[-1] if self.history else Event(0, "STARTING")

    @property
    def connected(self) -> bool:
        """Whether the tunnel is up."""
        return self.last.state == CONNECTED

    @property
    def address(self) -> str:
        """The address of this machine in the tunnel; empty: the tunnel is not up."""
        return self.last.address if self.connected else ""

    @property
    def refusals(self) -> int:
        """How often the gateway has ended a handshake since the tunnel was up last, or since the start."""
        count = 0
        for before, event in zip(self.history, self.history[1:], strict=False):
            if event.state == CONNECTED:
                count = 0
            # Without a handshake before it, the connection that was up was cut.
            count += event.detail in REFUSALS and before.state != CONNECTED
        return count

    @property
    def reason(self) -> str:
        """Why it is not connected, in words."""
        detail = next((event.detail for event in reversed(self.history) if event.detail), "")
        return REASONS.get(detail, detail) or "it has not got an answer yet"


REASONS = {
    "connection-reset": "the gateway ended the handshake: it does not accept the certificate of this machine",
    "tls-error": "the TLS handshake failed: certificates or the tls-auth key do not match the gateway's",
    "auth-failure": "the gateway refused the login",
    "connection-failed": "the gateway can't be reached",
    "connect-retry": "the gateway can't be reached",
    "init_instance": "the gateway can't be reached",
    "server_poll": "the gateway does not answer",
    "ping-restart": "the gateway stopped answering",
    "dns-resolve": "the name of the gateway can't be resolved",
}


def tunnel_of(host: Host) -> Tunnel | None:
    """Ask the client; None: it does not run, or does not answer."""
    answer = ask(host, VPN_SOCKET)
    return None if answer is None else Tunnel(events(answer))


def events(answer: str) -> tuple[Event, ...]:
    """The history in an answer; lines that begin with `>` are news that nobody asked for."""
    found = []
    for line in answer.splitlines():
        time, *fields = line.strip().split(",")
        if time.isdecimal() and fields:
            state, detail, address, gateway, port = (*fields, "", "", "", "")[:5]
            found.append(Event(int(time), state, detail, address, gateway, port))
    return tuple(found)


def ask(host: Host, path: str) -> str | None:
    """The answer of the management socket to our question; None: there is none."""
    if host.asker is not None:
        return host.asker(path)
    received = b""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS)
            client.connect(host.path(path))
            client.sendall(QUESTION)
            while not any(line.strip() == END for line in received.splitlines()):
                part = client.recv(MOST)
                if not part or len(received) > MOST:
                    return None
                received += part
    except OSError:
        return None
    return received.decode(errors="replace")


def with_tunnel(facts: Facts, host: Host, config: NodeConfig) -> Facts:
    """The facts with the present address in the tunnel; while it is down, with the one of the last join."""
    if not config.azure.vpn.enabled:
        return replace(facts, tunnel_address="")
    tunnel = tunnel_of(host)
    return replace(facts, tunnel_address=(tunnel.address if tunnel else "") or facts.tunnel_address)


def route_device(host: Host, address: str) -> str:
    """The device through which the kernel sends packets to an address; empty: it has no route."""
    shown = host.run(["ip", "-json", "route", "get", address], check=False)
    with contextlib.suppress(ValueError, LookupError, TypeError):
        return str(json.loads(shown.stdout)[0]["dev"])
    return ""


def received_bytes(host: Host) -> int:
    """How much came out of the tunnel; 0: there is no device."""
    text = host.text(f"/sys/class/net/{VPN_DEVICE}/statistics/rx_bytes").strip()
    return int(text) if text.isdecimal() else 0
