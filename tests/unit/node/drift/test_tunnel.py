# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ticks look at the tunnel: what is reported, what is restarted, and what is left to the client."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import (
    new_client,
    new_root,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.vpn.client import PROFILE
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.others import certificates
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.tunnel import (
    DEAD,
    HANGS,
    LONGEST,
    SEEN,
    Seen,
    Verdict,
    judge,
    watch_tunnel,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import UNIT_DIR, VPN
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.tunnel import Event, Tunnel
from tests.unit.node.fakes import Machine
from tests.unit.node.tunnels import a_gateway, a_profile

UP = Tunnel((Event(1, "CONNECTED", "SUCCESS", "192.168.100.2"),))
TICK = 30.0


def down(time: int) -> Tunnel:
    return Tunnel((Event(time, "RECONNECTING", "connection-failed"),))


def after(steps: list[tuple[Tunnel | None, int]], *, traffic: bool = True) -> list[Verdict]:
    """What is said at each tick, half a minute apart."""
    seen, verdicts = Seen(), []
    for number, (tunnel, received) in enumerate(steps):
        verdicts.append(judge(tunnel, received, seen, 1000 + number * TICK, traffic=traffic))
        seen = verdicts[-1].seen
    return verdicts


def test_a_tunnel_with_traffic_is_left_alone() -> None:
    verdicts = after([(UP, number) for number in range(20)])
    assert not any(verdict.restart or verdict.news for verdict in verdicts)


def test_a_gateway_that_is_away_is_reported_once_and_the_client_goes_on() -> None:
    verdicts = after([(UP, 1), *((down(number), 1) for number in range(20)), (UP, 1), (UP, 2)])
    assert [verdict.news for verdict in verdicts if verdict.news] == [
        "the VPN tunnel is down: the gateway can't be reached",
        "the VPN tunnel is up again",
    ]
    assert not any(verdict.restart for verdict in verdicts)


def test_a_tunnel_that_is_dead_without_knowing_it_is_restarted() -> None:
    verdicts = after([(UP, 1), (UP, 2), *((UP, 2) for _ in range(5))])
    restarts = [number for number, verdict in enumerate(verdicts) if verdict.restart]
    assert restarts == [1 + int(DEAD / TICK)]
    assert "nothing has come through" in verdicts[restarts[0]].restart


def test_a_node_without_a_kubelet_has_no_traffic_to_expect() -> None:
    assert not any(verdict.restart for verdict in after([(UP, 1)] * 20, traffic=False))


@pytest.mark.parametrize("tunnel", [None, down(5)], ids=["no answer", "no event"])
def test_a_client_that_hangs_is_restarted_ever_more_rarely(tunnel: Tunnel | None) -> None:
    verdicts = after([(UP, 1), *([(tunnel, 1)] * 400)])
    restarts = [number * TICK for number, verdict in enumerate(verdicts) if verdict.restart]
    assert restarts[0] == TICK + HANGS
    pauses = [later - earlier for earlier, later in pairwise(restarts)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST


def test_a_restart_that_helped_is_forgotten() -> None:
    verdicts = after([(UP, 1), (None, 1), (None, 1), (None, 1), (UP, 1), (UP, 2)])
    assert verdicts[3].restart
    assert verdicts[-1].seen.pause == 0


def test_a_machine_without_a_vpn_is_not_looked_at(debian: Machine) -> None:
    assert watch_tunnel(debian.host) is None
    assert debian.commands.calls == []


def test_a_clock_that_is_set_back_delays_no_restart(debian: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = a_gateway(debian)
    debian.put("/etc/aks-flex-node/vpn/client.conf", a_profile())
    debian.put(f"{UNIT_DIR}/{VPN}")
    debian.host.run(["systemctl", "start", VPN])
    gateway.silent = True
    watch_tunnel(debian.host)
    monkeypatch.setattr(debian.clock, "now", lambda: debian.clock.time - 86400)
    debian.clock.sleep(HANGS)
    verdict = watch_tunnel(debian.host)
    assert verdict is not None
    assert verdict.restart


def test_the_client_of_a_machine(debian: Machine) -> None:
    gateway = a_gateway(debian)
    debian.put("/etc/aks-flex-node/vpn/client.conf", a_profile())
    debian.put(f"{UNIT_DIR}/{VPN}")
    debian.host.run(["systemctl", "start", VPN])
    verdict = watch_tunnel(debian.host)
    assert verdict is not None
    assert (verdict.seen.state, verdict.news) == ("up", "")
    gateway.silent = True
    for _tick in range(4):
        debian.clock.sleep(TICK)
        verdict = watch_tunnel(debian.host)
    assert ("systemctl", "restart", "--no-block", VPN) in debian.commands.calls
    assert debian.path(SEEN).stat().st_mode & 0o777 == 0o600
    debian.put(SEEN, "[damaged")
    assert watch_tunnel(debian.host) is not None


def test_a_vpn_certificate_near_its_end_is_reported(debian: Machine) -> None:
    """The one of the client, not the CA's, which comes first in the profile."""
    now, day = debian.clock.time, 86400.0
    certificate = new_client(new_root("plant", now), "edge-1", now, 100).certificate
    begin, _block, end = a_profile().partition("<cert>")
    debian.put(PROFILE, f"{begin}<cert>\n{certificate}</cert>{end.partition('</cert>')[2]}", 0o600)

    def found(days: float, profile: str = PROFILE) -> list[str]:
        return [one.what for one in certificates(debian.host, "", "/none", profile, now + days * day)]

    assert found(89) == []
    (what,) = found(91)
    assert what.startswith("the VPN certificate expires at ")
    assert "run playbook aks.flexnode.update;" in what
    assert "expired at" in found(101)[0]
    assert found(91, profile="") == [], "a machine without a VPN"
