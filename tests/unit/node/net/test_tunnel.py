# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the VPN client reports: its answers are those of OpenVPN 2.6."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import VPN_DEVICE, VPN_SOCKET
from ansible_collections.aks.flexnode.plugins.module_utils.node.net import tunnel as tunnels
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.tunnel import (
    Tunnel,
    events,
    received_bytes,
    route_device,
    tunnel_of,
)
from tests.unit.node.fakes import Machine
from tests.unit.node.tunnels import GREETING

CONNECTED = (
    "1794849657,WAIT,,,,,,\r\n"
    "1794849657,AUTH,,,,,,\r\n"
    "1794849657,ASSIGN_IP,,192.168.100.2,,,,\r\n"
    "1794849657,CONNECTED,SUCCESS,192.168.100.2,10.99.0.1,443,10.99.0.2,42066\r\n"
)
CUT = CONNECTED + (
    "1794849658,RECONNECTING,connection-reset,,,,,\r\n"
    "1794849659,TCP_CONNECT,,,,,,\r\n"
    "1794849659,RECONNECTING,connection-failed,,,,,\r\n"
)
REFUSED = (
    "1794849671,WAIT,,,,,,\r\n1794849671,AUTH,,,,,,\r\n1794849671,RECONNECTING,connection-reset,,,,,\r\n"
) * 3


def test_a_tunnel_that_is_up() -> None:
    tunnel = Tunnel(events(f"{GREETING}{CONNECTED}END\r\n"))
    assert tunnel.connected
    assert (tunnel.address, tunnel.last.gateway, tunnel.last.port) == ("192.168.100.2", "10.99.0.1", "443")
    assert tunnel.refusals == 0


def test_a_connection_that_was_cut_is_no_refusal() -> None:
    tunnel = Tunnel(events(f"{GREETING}{CUT}END\r\n"))
    assert not tunnel.connected
    assert tunnel.address == ""
    assert tunnel.refusals == 0
    assert tunnel.reason == "the gateway can't be reached"


def test_refusals_are_counted_until_the_tunnel_is_up() -> None:
    assert Tunnel(events(REFUSED)).refusals == 3
    assert "does not accept the certificate" in Tunnel(events(REFUSED)).reason
    assert Tunnel(events(REFUSED + CONNECTED)).refusals == 0


def test_a_client_that_has_done_nothing_yet() -> None:
    tunnel = Tunnel(events(f"{GREETING}END\r\n"))
    assert (tunnel.connected, tunnel.reason) == (False, "it has not got an answer yet")


@contextmanager
def management(machine: Machine, *answers: bytes) -> Iterator[list[bytes]]:
    """A real socket that answers in these pieces."""
    machine.path(VPN_SOCKET).parent.mkdir(parents=True)
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(machine.path(VPN_SOCKET)))
        server.listen()

        def serve() -> None:
            client, _address = server.accept()
            with client:
                client.sendall(GREETING.encode())
                asked.append(client.recv(100))
                for answer in answers:
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join(5)


def test_the_client_is_asked_at_its_socket(machine: Machine) -> None:
    host = Host(root=str(machine.root))
    assert tunnel_of(host) is None, "it does not run"
    with management(machine, CONNECTED[:40].encode(), f"{CONNECTED[40:]}END\r\n".encode()) as asked:
        tunnel = tunnel_of(host)
    assert asked == [b"state all\n"]
    assert tunnel is not None
    assert tunnel.address == "192.168.100.2"


def test_a_client_that_hangs_up_or_hangs_has_no_answer(machine: Machine) -> None:
    with management(machine, b"1794849657,WAIT,,"):
        assert tunnel_of(Host(root=str(machine.root))) is None


def test_a_client_that_says_nothing_is_not_waited_for(machine: Machine) -> None:
    machine.path(VPN_SOCKET).parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(machine.path(VPN_SOCKET)))
        server.listen()
        tunnels.SECONDS, before = 0.05, tunnels.SECONDS
        try:
            assert tunnel_of(Host(root=str(machine.root))) is None
        finally:
            tunnels.SECONDS = before


def test_the_route_and_the_traffic(machine: Machine) -> None:
    vars(machine.commands)["_ip"] = lambda *_: '[{"dst":"10.77.0.9","dev":"aksvpn0"}]'
    assert route_device(machine.host, "10.77.0.9") == VPN_DEVICE
    vars(machine.commands)["_ip"] = lambda *_: "RTNETLINK answers: Network is unreachable"
    assert route_device(machine.host, "10.77.0.9") == ""
    assert received_bytes(machine.host) == 0
    machine.put(f"/sys/class/net/{VPN_DEVICE}/statistics/rx_bytes", "4242\n")
    assert received_bytes(machine.host) == 4242
