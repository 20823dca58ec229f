# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The life of a gateway against networks in memory: made once, continued after every crash, removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureUnavailable,
    NotInAzure,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn import certificates
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.asked import Done, Request
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import new_root
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.errors import (
    ClientsActive,
    GatewayUnusable,
    ProfileUnusable,
    RangesOverlap,
    RecordUnusable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.gateway import Gateways
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.plan import Wanted
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.ranges import ranges
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.record import Store
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.resources import (
    ADDRESSES,
    GATEWAYS,
    VNETS,
    Place,
    ResourceId,
    found_place,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.contract.recorded import network
from tests.unit.controller.fake_network import GATEWAY, VNET, Crash, FakeClock, FakeNetwork

PASSPHRASE = "Pl4nted-vpn-passphrase"
DAY = 86400
MAKING = ["put flexnode-vpn-ip", "put GatewaySubnet", "put flexnode-vpn", "profile flexnode-vpn"]
REMOVING = ["delete flexnode-vpn", "delete GatewaySubnet", "delete flexnode-vpn-ip"]


@pytest.fixture(autouse=True)
def small_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many are made here; how large they are is another test's business."""
    monkeypatch.setattr(certificates, "ROOT_BITS", 1024)
    monkeypatch.setattr(certificates, "CLIENT_BITS", 1024)


class Controller:
    """Somebody who runs the module again and again."""

    def __init__(self, directory: Path) -> None:
        self.network, self.clock, self.told = FakeNetwork(), FakeClock(), list[str]()
        self.network.add_vnet(("nodes", "10.224.0.0/24"))
        self.directory, self.passphrase = directory / "vpn", PASSPHRASE
        self.gateway_id: ResourceId | None = None

    @property
    def store(self) -> Store:
        return Store(str(self.directory), self.gateway_id or GATEWAY, self.passphrase)

    def place(self, *others: str) -> Place:
        known = list(ranges("another network", others))
        return found_place(self.network.get, vnet=VNET, gateway=self.gateway_id, cluster=None, others=known)

    def gateways(self, *, check: bool = False) -> Gateways:
        return Gateways(
            self.network, self.store, self.clock, self.told.append, self.network.fetch,
            check=check, pause=30, seconds=3600,
        )  # fmt: skip

    def present(self, *machines: str, check: bool = False, others: tuple[str, ...] = (), **more: Any) -> Done:
        sku, pool = more.pop("sku", "VpnGw2AZ"), more.pop("pool", "192.168.100.0/24")
        request = Request(Wanted(sku, pool, ("1",)), machines=machines, **more)
        self.network.asked.clear()
        return self.gateways(check=check).present(self.place(*others), request)

    def absent(self, *, check: bool = False, force: bool = False) -> Done:
        self.network.asked.clear()
        return self.gateways(check=check).absent(self.place(), force=force)

    def revoked(self) -> list[str]:
        return [
            one["properties"]["thumbprint"] for one in self.network.clients["vpnClientRevokedCertificates"]
        ]


@pytest.fixture
def me(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


def prints(done: Done) -> dict[str, str]:
    return {issue.client.node: issue.client.thumbprint for issue in done.issues}


def test_it_is_planned_made_once_and_then_left_alone(me: Controller) -> None:
    planned = me.present("edge-1", "edge-2", check=True)
    assert me.network.changes() == []
    assert not me.directory.exists()
    made = me.present("edge-1", "edge-2")
    assert me.network.changes() == MAKING
    assert [line.partition(" (")[0] for line in made.actions] == [
        *(line.partition(" (")[0] for line in made.actions[:1]),
        *(line.partition(" (")[0] for line in planned.actions[1:]),
        "fetch the client profile of VPN gateway flexnode-vpn",
    ]
    again = me.present("edge-1", "edge-2")
    assert (again.actions, me.network.changes(), again.profiles) == ([], [], made.profiles)
    assert len(set(made.profiles.values())) == 2
    assert all("PRIVATE KEY" in text for text in made.profiles.values())
    shown = str(made.actions) + str(made.diff) + str(made.gateway) + str(made.clients) + repr(made)
    assert "PRIVATE" not in shown
    assert "planted" not in shown


def test_a_second_run_returns_the_same_names(me: Controller) -> None:
    """In its subnet the id of a gateway has group and name in capital letters."""
    made, again = me.present("edge-1"), me.present("edge-1")
    assert (again.gateway["id"], again.gateway["name"]) == (str(GATEWAY), "flexnode-vpn")
    assert again.gateway == made.gateway
    gone = me.absent(force=True)
    assert not [line for line in gone.actions if "FLEXNODE" in line]


def test_a_subnet_in_small_letters_is_the_gateways(me: Controller) -> None:
    """Contradiction 7: Azure takes the name in any letters, and returns it as it was written."""
    small = network.SMALL_LETTERS.body["name"]
    me.network.add_vnet(("nodes", "10.224.0.0/24"), (small, "10.224.255.0/27"))
    me.present("edge-1")
    assert "put GatewaySubnet" not in me.network.changes()
    place = me.network.gateway["properties"]["ipConfigurations"][0]["properties"]
    assert place["subnet"]["id"] == f"{VNET}/subnets/{small}"
    assert me.present("edge-1").actions == []
    me.absent(force=True)
    assert me.network.subnets_deleted == [], "it was there before"


@pytest.mark.parametrize("step", MAKING)
def test_a_run_that_dies_at_any_step_is_continued(me: Controller, step: str) -> None:
    me.network.crash_at = step
    with pytest.raises(Crash):
        me.present("edge-1")
    first = me.store.read()
    assert first is not None
    assert first.active("edge-1"), "a certificate is recorded before the gateway trusts its root"
    done = me.present("edge-1")
    assert me.network.changes() == MAKING[MAKING.index(step) :]
    assert prints(done) == {"edge-1": first.active("edge-1").thumbprint}  # type: ignore[union-attr]
    assert me.absent(force=True).actions
    assert me.network.changes() == REMOVING, "whose subnet it is was not forgotten"


@pytest.mark.parametrize("step", REMOVING)
def test_a_removal_that_dies_at_any_step_is_continued(me: Controller, step: str) -> None:
    me.present()
    me.network.crash_at = step
    with pytest.raises(Crash):
        me.absent()
    me.absent()
    assert me.network.changes() == REMOVING[REMOVING.index(step) :]
    assert list(me.network.resources) == [str(VNET)]
    assert me.absent().actions == []


def test_an_operation_of_an_earlier_run_is_waited_for(me: Controller) -> None:
    me.present("edge-1")
    me.network.updating = 10
    done = me.present("edge-1")
    assert done.actions == []
    assert me.told[-1] == "flexnode-vpn: updating for 4 min"
    me.network.updating = 10_000
    with pytest.raises(AzureUnavailable, match="does not finish") as caught:
        me.present("edge-1")
    assert "run this again" in caught.value.fix


def test_of_two_controllers_that_make_it_at_once_the_second_overwrites_nothing(
    me: Controller, tmp_path: Path
) -> None:
    other = Controller(tmp_path / "other")
    other.network = me.network
    me.network.meanwhile.append(lambda: other.present("edge-1"))
    with pytest.raises(RecordUnusable, match="no record of it"):
        me.present("edge-2")
    theirs = other.store.read()
    assert theirs is not None
    (root,) = me.network.clients["vpnClientRootCertificates"]
    assert root["name"] == f"aks-flexnode-{theirs.root[:8].lower()}"
    assert other.present("edge-1").actions == []


def test_an_answer_that_was_lost_does_not_make_a_gateway_foreign(me: Controller) -> None:
    """The SDK repeats a request whose answer was lost, and meets what the first one made."""
    put = me.network.put

    def repeated(*arguments: Any, **more: Any) -> Any:
        put(*arguments, **more)
        return put(*arguments, **more)

    me.network.put = repeated  # type: ignore[method-assign]
    done = me.present("edge-1")
    assert done.profiles
    assert [line.partition(" (")[0] for line in done.actions[-2:]] == [
        "create VPN gateway flexnode-vpn",
        "fetch the client profile of VPN gateway flexnode-vpn",
    ]
    me.network.put = put  # type: ignore[method-assign]
    assert me.present("edge-1").actions == []


def test_ranges_are_compared_before_anything_is_made(me: Controller) -> None:
    with pytest.raises(RangesOverlap):
        me.present("edge-1", others=("192.168.0.0/16",))
    assert me.network.changes() == []
    assert me.store.read(secrets=False) is None
    me.present("edge-1")
    with pytest.raises(RangesOverlap):
        me.present("edge-1", pool="10.224.9.0/24")
    assert me.network.changes() == []
    me.present(gone=["edge-1"], others=("192.168.0.0/16",))
    assert me.revoked(), "what overlaps keeps no certificate from being revoked"


def test_the_new_subnet_keeps_away_from_everything_that_is_known(me: Controller) -> None:
    me.present(others=("10.224.128.0/17",))
    subnet = me.network.resources[str(VNET)]["properties"]["subnets"][1]
    assert subnet["properties"]["addressPrefix"] == "10.224.127.224/27"


def test_a_certificate_is_renewed_in_time_and_the_old_one_revoked_after_it(me: Controller) -> None:
    old = prints(me.present("edge-1", "edge-2"))
    me.clock.time += 200 * DAY
    assert prints(me.present("edge-1", "edge-2")) == old
    me.clock.time += 50 * DAY
    done = me.present("edge-1")
    new = prints(done)["edge-1"]
    assert done.issues[0].action == "renewed"
    assert "expires on" in done.actions[0]
    assert (me.network.changes(), me.revoked()) == ([], [])
    assert done.machines()[0]["replaced"]
    me.present(confirmed=["edge-1", "edge-2"])
    assert (me.network.changes(), me.revoked()) == (["put flexnode-vpn"], [old["edge-1"]])
    assert me.present(confirmed=["edge-1"]).actions == []
    assert prints(me.present("edge-1")) == {"edge-1": new}
    # What has expired need not be refused any more: the next change takes it from the list.
    me.clock.time += 120 * DAY
    me.present(gone=["edge-1"])
    assert me.revoked() == [new]


def test_the_entry_of_an_expired_certificate_goes_with_the_next_change_however_late(me: Controller) -> None:
    first = prints(me.present("edge-1"))["edge-1"]
    me.present(gone=["edge-1"])
    me.clock.time += 400 * DAY
    last = prints(me.present("edge-2"))["edge-2"]
    assert (me.network.changes(), me.revoked()) == ([], [first]), "no change of the gateway for this alone"
    me.present(gone=["edge-2"])
    assert me.revoked() == [last]
    me.present("edge-3")
    assert [one["node"] for one in me.present("edge-3").clients] == ["edge-2", "edge-3"]


def test_a_revocation_that_was_cut_off_is_noted_later(me: Controller) -> None:
    old = prints(me.present("edge-1"))["edge-1"]
    put = me.network.put

    def lost(*arguments: Any) -> Any:
        put(*arguments)
        raise Crash

    me.network.put = lost  # type: ignore[method-assign]
    with pytest.raises(Crash):
        me.present(gone=["edge-1"])
    me.network.put = put  # type: ignore[method-assign]
    assert me.present(gone=["edge-1"]).actions == []
    assert [one["state"] for one in me.present("edge-2").clients if one["thumbprint"] == old] == ["revoked"]
    assert me.absent(check=True, force=True).actions
    with pytest.raises(ClientsActive, match="edge-2"):
        me.absent()


def test_a_machine_that_comes_back_gets_another_certificate(me: Controller) -> None:
    first = prints(me.present("edge-1"))["edge-1"]
    me.present(gone=["edge-1"])
    again = me.present("edge-1")
    assert again.issues[0].action == "issued"
    assert prints(again)["edge-1"] != first
    assert me.revoked() == [first]
    record = me.store.read()
    assert record is not None
    assert first not in record.keys, "the key of a revoked certificate is kept nowhere"


def test_a_certificate_that_someone_else_revoked_is_told(me: Controller) -> None:
    thumb = prints(me.present("edge-1"))["edge-1"]
    me.network.clients["vpnClientRevokedCertificates"] = [{"name": "x", "properties": {"thumbprint": thumb}}]
    assert "edge-1 was revoked" in me.present("edge-1").warnings[0]
    assert me.present("edge-1", renew=["edge-1"]).warnings == []


def test_settings_are_changed_in_one_write(me: Controller) -> None:
    me.present("edge-1")
    done = me.present("edge-1", sku="VpnGw3AZ", pool="172.31.0.0/24")
    assert me.network.changes() == ["put flexnode-vpn"]
    assert "SKU VpnGw2AZ -> VpnGw3AZ" in done.actions[0]
    assert (done.diff["before"]["sku"], done.diff["after"]["sku"]) == ("VpnGw2AZ", "VpnGw3AZ")
    # Machines that leave do not change it: their inventory may be an old one.
    assert me.present(left=["edge-9"], sku="VpnGw5AZ").actions == []


def test_a_gateway_that_was_made_anew_gets_a_new_profile(me: Controller) -> None:
    me.present("edge-1")
    me.network.gateway["properties"]["resourceGuid"] = "another"
    me.network.profile = me.network.profile.replace("vpn.example.com", "new.example.com")
    done = me.present("edge-1")
    assert me.network.changes() == ["profile flexnode-vpn"]
    assert "remote new.example.com" in done.profiles["edge-1"]
    assert me.present("edge-1", refresh_profile=True).actions == []


def test_a_profile_that_machines_would_refuse_is_found_before_they_get_it(me: Controller) -> None:
    usual = me.network.profile
    me.network.profile = usual.replace("proto tcp", "proto tcp\nup /tmp/planted.sh")
    with pytest.raises(ProfileUnusable) as caught:
        me.present("edge-1")
    assert (caught.value.where, "line 4: up is refused" in caught.value.why) == (str(GATEWAY), True)
    assert "planted" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)
    me.network.profile = usual
    assert "PRIVATE" in me.present("edge-1").profiles["edge-1"]


def test_without_the_record_nothing_is_issued(me: Controller) -> None:
    me.present("edge-1")
    me.store.remove()
    for request in ({"gone": ["edge-1"]}, {"machines": ["edge-1"]}):
        with pytest.raises(RecordUnusable, match="no record of it"):
            me.present(*request.get("machines", ()), gone=request.get("gone", ()))
    me.present("edge-1", new_root=True)
    assert len(me.network.clients["vpnClientRootCertificates"]) == 1


def test_a_lost_passphrase_costs_new_certificates(me: Controller) -> None:
    old = prints(me.present("edge-1", "edge-2"))
    me.passphrase = "another long passphrase"
    with pytest.raises(RecordUnusable):
        me.present("edge-1")
    assert prints(me.present("edge-1", new_root=True))["edge-1"] != old["edge-1"]
    assert len(me.network.clients["vpnClientRootCertificates"]) == 2, "edge-2 has not got a new one yet"
    me.present("edge-2")
    me.present(confirmed=["edge-1", "edge-2"])
    assert len(me.network.clients["vpnClientRootCertificates"]) == 1


def test_revoking_in_the_run_that_made_a_new_root_makes_no_other(me: Controller) -> None:
    old = prints(me.present("edge-1"))["edge-1"]
    me.present("edge-1", new_root=True)
    made = me.store.read()
    done = me.present(confirmed=["edge-1"], new_root=True)
    found = me.store.read()
    assert made is not None
    assert found is not None
    assert (found.root, me.revoked()) == (made.root, [old])
    assert [line for line in done.actions if "create root" in line] == []
    assert me.present("edge-1").actions == []


def test_a_given_root_signs_and_is_not_stored(me: Controller) -> None:
    root = new_root("given", me.clock.now())
    me.present("edge-1", given_root=root)
    record = me.store.read()
    assert record is not None
    assert root.thumbprint not in record.keys
    assert me.present("edge-1").actions == [], "what is there needs no key of the root"
    with pytest.raises(RecordUnusable, match="key of the root"):
        me.present("edge-2")
    assert me.present("edge-2", given_root=root).actions


def test_a_root_certificate_that_ends_is_told_in_time_and_then_stops_the_run(me: Controller) -> None:
    assert me.present("edge-1").warnings == []
    me.clock.time += 3300 * DAY
    (warning,) = me.present("edge-1").warnings
    root = me.store.read()
    assert root is not None
    assert f"root certificate {root.root[:8].lower()} of the VPN ends on 2036-" in warning
    assert "flexnode_vpn_new_root: true" in warning
    me.clock.time += 400 * DAY
    for nodes in (["edge-1"], ["edge-2"]):
        with pytest.raises(RecordUnusable, match="has expired") as caught:
            me.present(*nodes)
        assert "flexnode_vpn_new_root: true" in caught.value.fix
    assert "expired on" in me.present().warnings[0]
    me.present(gone=["edge-1"])
    assert me.present("edge-1", new_root=True).warnings == []


def test_a_gateway_that_machines_use_is_not_deleted(me: Controller) -> None:
    me.present("edge-1")
    with pytest.raises(ClientsActive, match="edge-1"):
        me.absent()
    assert me.network.changes() == []
    me.clock.time += 400 * DAY
    me.absent()
    assert me.network.changes() == REMOVING


def test_what_others_made_stays(me: Controller) -> None:
    me.network.add_vnet(("nodes", "10.224.0.0/24"), ("GatewaySubnet", "10.224.9.0/27"))
    me.present("edge-1")
    me.network.gateway["tags"] = {"owner": "someone"}
    me.absent(force=True)
    assert me.network.changes() == ["put flexnode-vpn"]
    assert me.network.clients["vpnClientRootCertificates"] == []


def test_an_address_of_another_owner_is_not_taken(me: Controller) -> None:
    me.network.put(GATEWAY.beside(ADDRESSES, "flexnode-vpn-ip"), {"properties": {}})
    with pytest.raises(GatewayUnusable, match="another owner"):
        me.present("edge-1")


def test_a_mistyped_name_is_an_error_and_nothing_is_revoked(me: Controller) -> None:
    me.present("edge-1", "edge-2", "west")
    with pytest.raises(ConfigInvalid) as caught:
        me.present(gone=["edge-1", "egde-2", "x9"])
    assert (me.network.changes(), me.revoked()) == ([], [])
    first, second = map(str, caught.value.problems)
    assert "did you mean edge-2?" in first
    assert "edge-1, edge-2, west" in second
    done = me.present(left=["edge-1", "egde-2"])
    assert len(me.revoked()) == 1
    assert "to revoke: edge-1" in done.actions[0]
    assert me.present(gone=["edge-1"]).actions == [], "it is known, and revoked"


def test_without_a_gateway_there_is_nothing_to_revoke(me: Controller) -> None:
    assert me.present(gone=["edge-1"]).actions == []
    assert me.network.changes() == []


def test_a_gateway_that_is_named_by_its_id_is_never_made(me: Controller) -> None:
    """It takes most of an hour and is billed: a mistyped id must not begin that."""
    me.gateway_id = GATEWAY.beside(GATEWAYS, "flexnode-vnp")
    for check in (True, False):
        with pytest.raises(NotInAzure, match="gateway_id") as caught:
            me.present("edge-1", check=check)
        assert caught.value.where == str(me.gateway_id)
        assert "flexnode_vpn_gateway_id" in caught.value.fix
        assert me.network.changes() == []
    assert not list(me.directory.glob("*.json")), "no certificate was issued for it"
    me.gateway_id = None
    me.present("edge-1")
    me.gateway_id = GATEWAY
    assert me.present("edge-1").actions == []


def test_certificates_that_a_mistyped_id_keeps_from_being_revoked_are_told(me: Controller) -> None:
    me.present("edge-1")
    me.gateway_id = GATEWAY.beside(GATEWAYS, "flexnode-vnp")
    done = me.present(left=["edge-1"])
    assert done.actions == []
    (warning,) = done.warnings
    assert "flexnode-vnp" in warning
    assert "flexnode_vpn_gateway_id" in warning
    me.gateway_id = GATEWAY
    me.network.delete(GATEWAY)
    assert me.present(left=["edge-1"]).warnings == [], "it existed, so the id is right: nobody can connect"


def test_the_subnet_of_another_vnet_stays(me: Controller) -> None:
    """A gateway in a hub: the VNet of the cluster may have an empty GatewaySubnet that is someone else's."""
    me.network.add_vnet(("nodes", "10.224.0.0/24"))
    me.present()
    hub = VNET.beside(VNETS, "hub")
    me.network.resources[str(hub)] = {**me.network.resources[str(VNET)], "id": str(hub)}
    place = me.network.gateway["properties"]["ipConfigurations"][0]["properties"]
    place["subnet"]["id"] = f"{hub}/subnets/GatewaySubnet"
    me.gateway_id = GATEWAY
    me.absent()
    assert me.network.changes() == REMOVING
    assert me.network.subnets_deleted == [str(hub)]
