# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes of a private cluster: the tunnel comes first, and what cuts the machine off is taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.vpn.client import PROFILE
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import redact
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.check import check_drift
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.quick import looks_wrong
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Phase, Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    Blocked,
    ConfigInvalid,
    UnitFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow.repair import applied_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import UNIT_DIR, VPN
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import stored_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.vpn.errors import (
    VpnRefused,
    VpnRolledBack,
    VpnUnreachable,
    VpnUnusable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.package import PackageUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.sites import KUBELET, MORE, SHORT, Killed, Site, exits_from_now_on
from tests.unit.node.tunnels import SECRET_KEY, Gateway, a_gateway, a_profile, with_vpn

GOOD, OTHER, WRONG = a_profile(), a_profile("second.example"), a_profile("wrong.example")
REQUESTS = ("GET", "PATCH", "POST", "PUT", "DELETE")


@dataclass
class Private:
    """A site whose API server answers through the tunnel only."""

    site: Site
    gateway: Gateway
    open: bool = False  # the API server can be reached without the tunnel, too

    def join(self, *changes: dict[str, Any], **options: Any) -> Any:
        return self.site.join(SHORT, *changes, **options)

    @property
    def store(self) -> Store:
        return self.site.machine.store

    @property
    def phase(self) -> str:
        return str(self.store.state()["phase"])

    @property
    def is_up(self) -> bool:
        state = self.gateway.ask("") or ""
        return "CONNECTED,SUCCESS" in state

    def arrives(self, _request: object) -> None:
        """Nothing gets through while the tunnel is down."""
        reached = self.is_up or self.open
        self.site.api.refuse = {} if reached else dict.fromkeys(REQUESTS, 503)

    @contextmanager
    def phases(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        seen: list[str] = []
        enter = Store.enter

        def noting(store: Store, phase: Phase, **details: Any) -> None:
            seen.append(phase.value)
            enter(store, phase, **details)

        with monkeypatch.context() as patched:
            patched.setattr(Store, "enter", noting)
            yield seen


@pytest.fixture
def private(site: Site) -> Private:
    found = Private(site, a_gateway(site.machine))
    site.api.arrives = found.arrives
    return found


# -- join ---------------------------------------------------------------------------------------------------


def test_the_tunnel_is_up_before_the_api_server_is_asked(
    private: Private, monkeypatch: pytest.MonkeyPatch
) -> None:
    with private.phases(monkeypatch) as phases:
        run = private.join(with_vpn())
    assert phases == ["VPNBootstrapping", "VPNConnected", "NodeBootstrapping", "NodeJoined"]
    machine = private.site.machine
    assert run.summary == "joined"
    assert f"create {PROFILE}" in run.actions
    assert machine.path(PROFILE).stat().st_mode & 0o777 == 0o600
    assert ' --node-ip=192.168.100.2"' in machine.text("/etc/default/kubelet")
    assert f"After={VPN}" in machine.text(f"{UNIT_DIR}/{KUBELET}.d/20-vpn.conf")
    assert private.store.tunnel.transaction() is None
    again = private.join(with_vpn())
    assert (again.changed, again.summary) == (False, "unchanged")
    status = status_of(machine.host)
    assert status["vpn"] == {
        "status": "Connected",
        "since": status["vpn"]["since"],
        "address": "192.168.100.2",
        "gateway": "203.0.113.9:443",
        "device": "aksvpn0",
    }
    assert status["reason"] == "NodeJoined"


def test_a_node_ip_of_the_document_comes_before_that_of_the_tunnel(private: Private) -> None:
    private.join(with_vpn(), {"node": {"kubelet": {"nodeIP": "10.1.2.3"}}})
    assert "--node-ip=10.1.2.3" in private.site.machine.text("/etc/default/kubelet")


def test_no_secret_leaves_the_profile(private: Private) -> None:
    run = private.join(with_vpn())
    machine = private.site.machine
    shown = json.dumps([run.actions, run.plan.diff, status_of(machine.host), redact(private.site.document)])
    assert SECRET_KEY not in shown
    assert not any(SECRET_KEY in word for call in machine.commands.calls for word in call)
    readable = [
        place for place in machine.root.rglob("*")
        if place.is_file() and not place.is_symlink() and place.stat().st_mode & 0o077
        and SECRET_KEY.encode() in place.read_bytes()
    ]  # fmt: skip
    assert readable == []


def test_check_mode_plans_the_tunnel_and_starts_nothing(private: Private) -> None:
    obtained = private.site
    run = obtained.join(SHORT, with_vpn(), check=True)
    assert f"start {VPN}" in run.actions
    assert private.site.machine.commands.times("systemctl", "restart") == 0
    (shown,) = [step["after"] for step in run.plan.diff if PROFILE in step["after_header"]]
    assert shown.endswith("<secret>\n")


def test_a_first_join_that_gets_no_tunnel_stops_there_and_goes_on_later(private: Private) -> None:
    private.gateway.away = True
    with pytest.raises(VpnUnreachable, match="the tunnel is not up") as caught:
        private.join(with_vpn())
    assert "gateway.example:443" in caught.value.where
    assert private.phase == "VPNFailed"
    assert status_of(private.site.machine.host)["reason"] == "FLEX-1532"
    assert private.site.api.server.asked == [], "nothing else was tried"
    assert not private.site.machine.path("/usr/local/bin/kubelet").exists()
    private.gateway.away = False
    assert private.join(with_vpn()).summary == "joined"
    assert private.phase == "NodeJoined"


def test_a_gateway_that_refuses_the_certificate_is_not_waited_for(private: Private) -> None:
    private.gateway.refuses.add("gateway.example")
    began = private.site.machine.clock.time
    with pytest.raises(VpnRefused, match="refuses this machine") as caught:
        private.join(with_vpn(), {"upgrade": {"gateSeconds": 120}})
    assert "does not accept the certificate" in caught.value.why
    assert private.site.machine.clock.time - began < 30
    assert private.phase == "VPNFailed"


def test_a_tunnel_that_does_not_lead_to_the_api_server_is_none(private: Private) -> None:
    private.gateway.routed, private.open = False, True
    with pytest.raises(VpnUnusable, match="not reached through the VPN") as caught:
        private.join(with_vpn())
    assert "eth0" in caught.value.why
    assert "network.vnetCIDRs" in caught.value.fix


def test_a_machine_does_not_provision(private: Private) -> None:
    with pytest.raises(ConfigInvalid, match="done by the controller"):
        private.join({"azure": {"vpn": {"enabled": True, "autoProvision": True}}})


def test_the_component_alone(private: Private, monkeypatch: pytest.MonkeyPatch) -> None:
    run = private.join(with_vpn(), components=("vpn",))
    assert f"start {VPN}" in run.actions
    assert private.phase == "VPNConnected"
    assert private.is_up
    with private.phases(monkeypatch) as phases:
        assert private.join(with_vpn()).summary == "joined"
    assert phases == ["VPNConnected", "NodeBootstrapping", "NodeJoined"], "what is up does not begin again"


def test_a_tunnel_that_is_cut_before_the_join(private: Private, monkeypatch: pytest.MonkeyPatch) -> None:
    private.join(with_vpn(), components=("vpn",))
    private.gateway.away = True
    with private.phases(monkeypatch) as phases, pytest.raises(VpnUnreachable):
        private.join(with_vpn())
    assert phases == ["VPNFailed"]
    private.gateway.away = False
    with private.phases(monkeypatch) as phases:
        assert private.join(with_vpn()).summary == "joined"
    assert phases == ["VPNBootstrapping", "VPNConnected", "NodeBootstrapping", "NodeJoined"]


# -- updates ------------------------------------------------------------------------------------------------


def test_an_address_that_the_gateway_assigns_as_the_run_begins(private: Private) -> None:
    private.join(with_vpn())
    gateway, machine = private.gateway, private.site.machine
    gateway.away, gateway.address = True, "192.168.101.2"
    back = machine.clock.time + 8

    def reconnects(path: str) -> str | None:
        gateway.away = machine.clock.time < back
        return gateway.ask(path)

    def arrives(request: object) -> None:
        reconnects("")
        private.arrives(request)

    machine.commands.asked, private.site.api.arrives = reconnects, arrives
    private.join(with_vpn())
    assert ' --node-ip=192.168.101.2"' in machine.text("/etc/default/kubelet")
    assert not private.join(with_vpn()).changed


def test_a_new_profile_is_proven_and_kept(private: Private, monkeypatch: pytest.MonkeyPatch) -> None:
    private.join(with_vpn(GOOD))
    with private.phases(monkeypatch) as phases:
        run = private.join(with_vpn(OTHER))
    assert phases[:2] == ["VPNBootstrapping", "NodeJoined"]
    assert run.summary == "updated (profile)"
    assert private.gateway.running == "second.example"
    assert private.site.machine.commands.times("systemctl", "restart", KUBELET) == 0
    assert not private.join(with_vpn(OTHER)).changed


@pytest.mark.parametrize("how", ["refused", "nobody there", "not routed"])
def test_a_wrong_profile_is_rolled_back_with_its_reason_and_blocked(private: Private, how: str) -> None:
    private.join(with_vpn(GOOD))
    before = private.site.machine.snapshot("/etc", "/usr")
    gateway = private.gateway
    {"refused": gateway.refuses, "nobody there": gateway.unknown}.get(how, set()).add("wrong.example")
    if how == "not routed":
        starts = gateway.starts

        def starting() -> None:
            starts()
            gateway.routed = gateway.running != "wrong.example"

        private.site.machine.commands.on_start[VPN] = starting
    with pytest.raises(VpnRolledBack, match="rolled back; the Node is Ready with the earlier one") as caught:
        private.join(with_vpn(WRONG), MORE)
    codes = {"refused": "FLEX-1531", "nobody there": "FLEX-1532", "not routed": "FLEX-1533"}
    assert codes[how] in str(caught.value)
    assert (caught.value.rolled_back, caught.value.changed) == (True, False)
    assert private.site.machine.snapshot("/etc", "/usr") == before
    assert gateway.running == "gateway.example"
    assert private.phase == "NodeJoined"
    store = private.store
    assert store.current_config() == store.applied_config()
    assert store.refused()["blocks"]
    status = status_of(private.site.machine.host)
    assert (status["reason"], status["config"]["refused"]["code"]) == ("FLEX-1535", "FLEX-1535")
    assert status["node"]["ready"]
    with pytest.raises(Blocked, match="FLEX-1535"):
        private.join(with_vpn(WRONG), MORE)
    assert gateway.running == "gateway.example"
    assert private.join(with_vpn(GOOD)).summary == "unchanged"


def test_a_gateway_that_is_away_blames_no_profile(private: Private) -> None:
    """Neither the new nor the old profile works: nobody knows, and the next run tries again."""
    private.join(with_vpn(GOOD))
    private.gateway.away = True
    with pytest.raises(VpnUnreachable) as caught:
        private.join(with_vpn(OTHER))
    assert caught.value.rolled_back
    assert "not Ready with its earlier configuration either" in caught.value.outcome
    assert private.gateway.running == "gateway.example", "the last one that worked is there"
    assert private.phase == "VPNFailed"
    assert not private.store.refused().get("blocks")
    private.gateway.away = False
    assert private.join(with_vpn(OTHER)).summary == "updated (profile)"
    assert private.phase == "NodeJoined"


def without_a_route(private: Private, words: str) -> None:
    """Packets to the API server leave the tunnel as soon as the client reads a profile with these words."""
    gateway, machine = private.gateway, private.site.machine
    starts = gateway.starts

    def starting() -> None:
        starts()
        gateway.routed = words not in machine.text(PROFILE)

    machine.commands.on_start[VPN] = starting


def test_a_change_beside_the_profile_is_rolled_back_too(private: Private) -> None:
    """Other settings are in the client's file as well."""
    private.join(with_vpn())
    before = private.site.machine.snapshot("/etc", "/usr")
    without_a_route(private, "route 10.9.0.0")
    with pytest.raises(VpnRolledBack):
        private.join(with_vpn(), {"network": {"vnetCIDRs": ["10.9.0.0/16"]}})
    assert private.site.machine.snapshot("/etc", "/usr") == before
    assert private.phase == "NodeJoined"
    assert private.store.refused()["blocks"]


def test_a_repair_that_cuts_the_machine_off_is_undone_and_blocks_nothing(private: Private) -> None:
    """What someone changed by hand works, and the applied configuration does not any more."""
    private.join(with_vpn())
    machine = private.site.machine
    by_hand = machine.text(PROFILE).replace("remote gateway.example", "remote second.example")
    machine.put(PROFILE, by_hand, 0o600)
    private.gateway.refuses.add("gateway.example")
    private.gateway.starts()
    with pytest.raises(VpnRolledBack):
        private.join(with_vpn())
    assert machine.text(PROFILE) == by_hand
    assert not private.store.refused().get("blocks"), "it is the applied configuration"


def test_a_gateway_that_goes_away_during_an_update_rolls_nothing_back(private: Private) -> None:
    private.join(with_vpn())
    private.site.machine.commands.on_start[KUBELET] = lambda: setattr(private.gateway, "away", True)
    with pytest.raises(ApiUnreachable) as caught:
        private.join(with_vpn(), MORE)
    assert "The change stays in place" in caught.value.why
    asked = len(private.site.api.server.requests)
    status = status_of(private.site.machine.host)
    assert status["reason"] == "FLEX-1534", "not: the API server is away"
    assert (status["node"]["joined"], status["node"]["status"]) == (True, "Unknown")
    assert private.site.api.server.asked[asked:] == [], "every request would only time out"
    private.gateway.away = False
    private.join(with_vpn(), MORE)
    assert (private.store.applied_config() or {})["node"]["maxPods"] == 50
    assert private.phase == "NodeJoined"


def test_a_profile_that_works_stays_when_the_rest_is_rolled_back(private: Private) -> None:
    """The certificate before it may be revoked by now."""
    private.join(with_vpn(GOOD))
    exits_from_now_on(private.site)
    with pytest.raises(UnitFailed):
        private.join(with_vpn(OTHER), MORE)
    assert private.gateway.running == "second.example"
    applied = private.store.applied_config() or {}
    assert applied["azure"]["vpn"]["profile"] == OTHER
    assert "maxPods" not in applied["node"]
    assert not reconcile(stored_config(private.site.machine.host), EVERYTHING, machine="x86_64").changed


def test_a_package_that_can_not_be_installed_changes_nothing(private: Private) -> None:
    private.open = True
    private.join()
    private.site.machine.path("/usr/sbin/openvpn").unlink()
    private.site.machine.commands.statuses["env"] = 100
    before = private.site.machine.snapshot("/etc", "/usr")
    with pytest.raises(PackageUnusable, match="openvpn"):
        private.join(with_vpn())
    assert private.site.machine.snapshot("/etc", "/usr") == before
    assert private.phase == "NodeJoined"
    assert private.store.current_config() == private.store.applied_config()


def test_another_address_after_a_reconnect_reaches_the_kubelet(private: Private) -> None:
    private.join(with_vpn())
    machine, host = private.site.machine, private.site.machine.host
    assert looks_wrong(host, private.store) == ""
    private.gateway.address = "192.168.100.77"
    assert looks_wrong(host, private.store) == "the VPN has assigned 192.168.100.77 instead of 192.168.100.2"
    drift = check_drift(host, private.store, host.clock.now())
    assert drift.repairs == {"file:/etc/default/kubelet"}
    run = reconcile(applied_config(host, private.store), EVERYTHING, machine="x86_64", leave=frozenset())
    assert run.summary == "repaired (1 item)"
    assert "--node-ip=192.168.100.77" in machine.text("/etc/default/kubelet")
    assert machine.commands.calls.count(("systemctl", "restart", KUBELET)) == 1
    assert looks_wrong(host, private.store) == ""


def test_a_tunnel_that_is_down_is_no_drift(private: Private) -> None:
    private.join(with_vpn())
    private.gateway.away = True
    host = private.site.machine.host
    assert looks_wrong(host, private.store) == ""
    assert not check_drift(host, private.store, host.clock.now()).repairs


def test_a_client_that_was_stopped_is_started_though_the_gateway_is_away(private: Private) -> None:
    private.join(with_vpn())
    private.site.machine.commands.units[VPN] = "inactive"
    private.gateway.away = True
    host = private.site.machine.host
    assert looks_wrong(host, private.store) == f"{VPN} does not run"
    with pytest.raises(ApiUnreachable):
        reconcile(applied_config(host, private.store), EVERYTHING, machine="x86_64", leave=frozenset())
    assert private.site.machine.commands.units[VPN] == "active"


# -- without the tunnel again -------------------------------------------------------------------------------


def test_a_vpn_that_is_not_needed_any_more_goes(private: Private) -> None:
    private.join(with_vpn())
    private.open = True
    run = private.join()
    assert f"stop {VPN} (no longer in the configuration)" in run.actions
    machine = private.site.machine
    assert not machine.path(PROFILE).exists()
    assert machine.commands.units[VPN] == "inactive"
    assert "--node-ip" not in machine.text("/etc/default/kubelet")
    assert status_of(machine.host)["vpn"] == {"status": "NotConfigured"}
    assert not private.join().changed


def test_a_vpn_that_is_needed_comes_back(private: Private) -> None:
    private.join(with_vpn())
    with pytest.raises(VpnRolledBack, match="without the VPN the API server can't be reached"):
        private.join()
    assert private.is_up
    assert private.gateway.running == "gateway.example"
    assert private.phase == "NodeJoined"
    assert not private.join(with_vpn()).changed


def test_leaving_deletes_the_node_through_the_tunnel_and_then_the_tunnel(private: Private) -> None:
    before = private.site.machine.snapshot("/etc", "/usr", "/opt")
    private.join(with_vpn())
    report = leave(private.site.machine.host)
    assert report.complaints == []
    assert private.site.api.nodes == {}
    assert report.actions.index("delete Node edge-1") < report.actions.index(f"removed file:{PROFILE}")
    assert private.site.machine.commands.units[VPN] == "inactive"
    assert private.site.machine.snapshot("/etc", "/usr", "/opt") == before


# -- interrupted --------------------------------------------------------------------------------------------


def test_killed_while_the_old_profile_comes_back(private: Private, monkeypatch: pytest.MonkeyPatch) -> None:
    private.join(with_vpn(GOOD))
    private.gateway.refuses.add("wrong.example")

    def dies(*_arguments: Any, **_options: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Store, "returned", dies)
        with pytest.raises(Killed):
            private.join(with_vpn(WRONG))
    assert private.store.tunnel.transaction() is not None
    assert private.store.is_unfinished
    assert private.join(with_vpn(GOOD)).summary == "unchanged"
    assert private.gateway.running == "gateway.example"
    assert private.phase == "NodeJoined"
    assert not private.store.is_unfinished


def test_killed_before_the_tunnel_was_proven(private: Private, monkeypatch: pytest.MonkeyPatch) -> None:
    private.join(with_vpn(GOOD))

    def dies(_path: str) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(private.site.machine.commands, "asked", dies)
        with pytest.raises(Killed):
            private.join(with_vpn(OTHER))
    assert private.phase == "VPNBootstrapping"
    reconcile(stored_config(private.site.machine.host), EVERYTHING, machine="x86_64")
    applied = private.store.applied_config() or {}
    assert applied["azure"]["vpn"]["profile"] == OTHER
    assert private.phase == "NodeJoined"
    assert not private.store.is_unfinished
