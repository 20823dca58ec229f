# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine behind NAT joins a private cluster: the API server answers through the VPN, and in no other way.

The gateway is a real OpenVPN server: with a profile in the inventory, and as what the playbooks make in the
emulated Azure. Seen from outside: the route of the kernel, the Node at the API server, logs and exec of a
pod, the processes of the machine, and whom the server lets in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from scripts import build_agent
from testbed import Testbed, arc
from testbed.vpn.provisioned import following
from testbed.vpn.settings import Settings
from tests.e2e import fleet, private, updating
from tests.e2e.photograph import differences, photograph
from tests.e2e.private import DEVICE, PROFILE, UNIT, Private
from tests.e2e.provisioned import Provisioned, provisioned

NAME = "far"
CUT_SECONDS = 120
PROGRAM = "/srv/aks-flex-node.pyz"
# What dpkg, apt and ldconfig keep about themselves after a package has come and gone.
RECORDS = ("/var/lib/dpkg", "/var/lib/apt", "/etc/ld.so.cache", "/etc/openvpn")


@dataclass
class Site:
    """The machine, and the profile that it has now."""

    private: Private
    before: dict[str, Any]
    profile: str
    phases: list[str]


@pytest.fixture(scope="module")
def outside(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    """A machine that has not joined; its gateway runs."""
    found = private.at_a_site(bed, NAME, tmp_path_factory.mktemp("vpn") / "hosts.yml")
    yield found
    found.machine.remove()
    bed.cluster.kubectl("delete", "node", "--ignore-not-found", NAME)
    found.gateway.down()


@pytest.fixture(scope="module")
def site(outside: Private) -> Site:
    """The same machine as a node."""
    before, profile = photograph(outside.machine), outside.gateway.profile(NAME)
    with outside.phases() as phases:
        fleet.succeeded(outside.play("bootstrap", outside.with_vpn(profile)))
    return Site(outside, before, profile, phases)


def test_without_a_vpn_preflight_names_it(outside: Private) -> None:
    assert not outside.reaches_api_server()
    run = outside.play("preflight", outside.document)
    assert run.status != 0
    assert "api-tcp" in run.output
    assert "azure.vpn" in run.output


def test_a_machine_behind_nat_joins_through_the_tunnel(site: Site) -> None:
    here = site.private
    assert here.is_ready()
    assert here.device() == DEVICE
    status = here.status()
    assert (status["reason"], status["vpn"]["status"]) == ("NodeJoined", "Connected")
    assert status["vpn"]["address"] == here.address() == "192.168.100.2"
    assert status["vpn"]["gateway"] == f"{here.gateway.address}:443"
    here.machine.run(["systemctl", "stop", UNIT])
    assert not here.reaches_api_server(), "there must be no other way"
    here.machine.run(["systemctl", "start", UNIT])
    fleet.eventually("the tunnel", here.reaches_api_server, 30)


def test_every_phase_was_seen(site: Site) -> None:
    wanted = ["VPNBootstrapping", "VPNConnected", "NodeBootstrapping", "NodeJoined"]
    assert [phase for phase in site.phases if phase in wanted] == wanted


def test_a_second_run_changes_nothing(site: Site) -> None:
    here = site.private
    before = here.machine.run(["systemctl", "show", "--property=MainPID", UNIT, "kubelet"]).stdout
    run = fleet.succeeded(here.play("bootstrap", here.with_vpn(site.profile)))
    assert run.changed(NAME) == 0
    assert here.machine.run(["systemctl", "show", "--property=MainPID", UNIT, "kubelet"]).stdout == before


def test_logs_and_exec_of_a_pod_go_through_the_tunnel(site: Site) -> None:
    bed = site.private.bed
    updating.run_pods(bed, updating.pod(bed, "faraway", NAME))
    assert bed.cluster.kubectl("exec", "faraway", "--", "/bin/sh", "-c", "echo through").strip() == "through"
    assert bed.cluster.kubectl("logs", "faraway") == ""
    assert updating.containers(bed, "faraway")


def test_the_key_is_for_root_only_and_nowhere_else(site: Site) -> None:
    machine = site.private.machine
    assert machine.run(["stat", "-c", "%a %U", PROFILE]).stdout.split() == ["600", "root"]
    key = site.profile.partition("<key>\n")[2].splitlines()[1]
    for argv in (
        ["ps", "-eo", "args"],
        ["journalctl", "--no-pager"],
        ["cat", "/var/log/aks-flex-node/agent.log", "/var/lib/aks-flex-node/status.json"],
        ["aks-flex-node", "status", "--json"],
        ["sh", "-c", "cat /proc/[0-9]*/environ"],
    ):
        assert key not in machine.run(argv, check=False).stdout, argv
    readable = ["find", "/", "-xdev", "-type", "f", "-perm", "/077", "-not", "-path", "/proc/*"]
    assert machine.run([*readable, "-exec", "grep", "-lF", key, "{}", "+"], check=False).stdout == ""


def test_a_rotated_certificate_reaches_the_node(site: Site) -> None:
    here, pods = site.private, updating.containers(site.private.bed, "faraway")
    kubelet = fleet.main_pids(here.machine)
    renewed = here.gateway.profile(NAME)
    run = fleet.succeeded(here.play("update", here.with_vpn(renewed)))
    assert "profile" in run.result(NAME, "flexnode_reconcile")["summary"]
    old = here.gateway.thumbprint_in(site.profile)
    here.gateway.apply(Settings((here.gateway.root_certificate,), (old,)))
    site.profile = renewed
    fleet.eventually("the tunnel with the new certificate", here.is_connected, 60)
    fleet.eventually("Node Ready", here.is_ready, 60)
    assert fleet.main_pids(here.machine) == kubelet
    assert updating.containers(here.bed, "faraway") == pods


@pytest.mark.parametrize("how", ["a stranger's certificate", "nobody there"])
def test_a_wrong_profile_is_rolled_back_with_its_reason(site: Site, how: str) -> None:
    here = site.private
    if how == "nobody there":
        wrong = here.gateway.profile(NAME, host=here.bed.site.plan.node(250))
    else:
        wrong = here.gateway.profile(NAME, authority=here.gateway.stranger())
    before = here.machine.run(["sha256sum", PROFILE]).stdout
    run = here.play("update", here.with_vpn(wrong))
    code, message = updating.failure(run, NAME)
    assert code == "FLEX-1535", message
    assert ("FLEX-1532" if how == "nobody there" else "FLEX-1531") in message
    assert here.machine.run(["sha256sum", PROFILE]).stdout == before
    assert here.is_ready()
    status = here.status()
    assert (status["reason"], status["vpn"]["status"]) == ("FLEX-1535", "Connected")
    fleet.succeeded(here.play("update", here.with_vpn(site.profile)))
    assert here.status()["reason"] == "NodeJoined"


def tasks(here: Private) -> list[list[str]]:
    """Id, process and state of every container; containerd lists them in any order."""
    shown = here.machine.run(["ctr", "-n", "k8s.io", "tasks", "ls"]).stdout.splitlines()
    return sorted(line.split() for line in shown[1:])


def test_a_tunnel_that_is_cut_for_two_minutes(site: Site) -> None:
    survives_a_cut(site.private)


def survives_a_cut(here: Private) -> None:
    """Two minutes without a gateway: the same processes, and Ready again after it."""
    pods = updating.containers(here.bed, "faraway")
    running, services = tasks(here), fleet.main_pids(here.machine)
    here.gateway.cut()
    try:
        time.sleep(CUT_SECONDS)
        assert here.status()["reason"] == "FLEX-1534"
        assert tasks(here) == running
        assert fleet.main_pids(here.machine) == services
    finally:
        here.gateway.mend()
    fleet.eventually("the tunnel again", here.is_connected, 90)
    fleet.eventually("Node Ready again", here.is_ready, 60)
    fleet.eventually("the same pod", lambda: updating.containers(here.bed, "faraway") == pods, 60)


def test_a_gateway_that_is_away_during_an_update(site: Site) -> None:
    here = site.private
    update = here.with_vpn(site.profile, node={**here.document["node"], "maxPods": 42})
    here.gateway.cut()
    try:
        code, message = updating.failure(here.play("update", update), NAME)
    finally:
        here.gateway.mend()
    assert code == "FLEX-1504", message
    assert "change stays in place; the next run completes it, or rolls it back" in message
    assert '"maxPods": 42' in here.machine.read("/etc/default/kubeletconfig.json")
    fleet.eventually("the tunnel again", here.is_connected, 90)
    fleet.succeeded(here.play("update", update))
    assert fleet.node(here.bed, NAME)["status"]["capacity"]["pods"] == "42"
    fleet.succeeded(here.play("update", here.with_vpn(site.profile)))


def test_another_address_of_the_gateways_pool_reaches_the_node(site: Site) -> None:
    here = site.private
    pool = IPv4Network("192.168.101.0/24")
    here.gateway.apply(Settings((here.gateway.root_certificate,), address_pool=pool))
    try:
        fleet.eventually("the tunnel", lambda: here.status()["vpn"].get("address") == "192.168.101.2", 60)
        fleet.succeeded(here.play("bootstrap", here.with_vpn(site.profile)))
        assert here.address() == "192.168.101.2"
        bed = here.bed
        assert bed.cluster.kubectl("exec", "faraway", "--", "/bin/echo", "still").strip() == "still"
    finally:
        here.gateway.apply(Settings((here.gateway.root_certificate,)))
    fleet.succeeded(here.play("bootstrap", here.with_vpn(site.profile)))
    assert here.address() == "192.168.100.2"


def test_a_reboot(site: Site) -> None:
    survives_a_reboot(site.private)


def survives_a_reboot(here: Private) -> None:
    """Ready after a boot, by a kubelet of that boot, at the address of the tunnel."""
    here.machine.reboot()
    fleet.eventually("the tunnel after a boot", here.is_connected, 60)
    fleet.eventually("Node Ready", lambda: updating.freshly_ready(here.bed, here.machine), 120)
    assert here.address() == here.status()["vpn"]["address"]


def test_uninstall_leaves_the_machine_as_it_was(site: Site) -> None:
    here = site.private
    here.bed.cluster.kubectl("delete", "pod", "faraway", "--force", "--grace-period=0", "--ignore-not-found")
    fleet.succeeded(here.play("unbootstrap", here.with_vpn(site.profile)))
    assert NAME not in fleet.node_names(here.bed)
    assert here.machine.run(["ls", "/usr/sbin/openvpn"], check=False).returncode != 0
    assert here.machine.run(["ip", "link", "show", DEVICE], check=False).returncode != 0
    assert not here.reaches_api_server()
    changes = differences(site.before, photograph(here.machine))
    assert [line for line in changes if not any(word in line for word in RECORDS)] == []


def test_the_command_at_the_edge_does_the_same(site: Site, tmp_path: Path) -> None:
    here = site.private
    document = here.with_vpn(here.gateway.profile(NAME))
    document["azure"]["bootstrapToken"] = {"token": here.bed.cluster.bootstrap_token()}
    document["cni"]["podCIDR"] = here.machine.pod_cidr
    here.machine.copy_to(build_agent.build(tmp_path), PROGRAM)
    here.machine.run(["sh", "-c", "umask 077; cat > /srv/node.json"], input=json.dumps(document))
    done = here.machine.run(
        ["python3", PROGRAM, "join", "--config", "/srv/node.json"], check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert here.is_ready()
    assert here.status()["vpn"]["status"] == "Connected"
    done = here.machine.run(["aks-flex-node", "unbootstrap"], check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not here.reaches_api_server()


# -- a gateway that the playbooks make ----------------------------------------------------------------------

PHASES = (
    ["ArcRegistering", "ArcFailed"],
    ["ArcRegistering", "ArcRegistered", "VPNBootstrapping", "VPNFailed"],
    ["VPNBootstrapping", "VPNConnected", "NodeBootstrapping", "NodeFailed"],
    ["NodeBootstrapping", "NodeJoined"],
)
NO_KUBELET = {"configOverrides": {"evictionHard": {"memory.available": "nonsense"}}}


@pytest.fixture(scope="module")
def made(outside: Private, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    """A machine that fails in each phase, one after the other, and joins then."""
    directory = tmp_path_factory.mktemp("provisioned")
    directory.chmod(0o755)  # pytest's own would hide from others what the runs leave there
    with provisioned(outside, directory) as life:
        arc.fail(outside.machine, "azcmagent", connect={"seconds": 2, "code": 42, "message": "Forbidden"})
        outside.gateway.stop()
        with outside.phases() as life.phases:
            life.play("arc fails", "bootstrap")
            arc.heal(outside.machine)
            life.play("gateway does not answer", "bootstrap")
        with following(outside.gateway, outside.bed.azure):
            fleet.eventually("the gateway", outside.gateway.answers, 60)
            with outside.phases() as phases:
                life.play("kubelet exits", "bootstrap", kubelet=NO_KUBELET)
                life.play("joined", "bootstrap")
            life.phases += phases
            yield life


class TestAutoProvision:
    """The gateway, its certificates and the machine's profile: all made from the inventory."""

    def test_every_phase_was_seen(self, made: Provisioned) -> None:
        assert [run.status != 0 for run in made.runs.values()] == [True, True, True, False]
        seen = iter(made.phases)
        for phases in PHASES:
            assert all(phase in seen for phase in phases), str(made.phases)

    def test_each_failure_says_what_it_is(self, made: Provisioned) -> None:
        failed = {
            name: [event["result"]["error"]["code"] for event in run.events if "error" in event["result"]]
            for name, run in made.runs.items()
        }
        assert failed == {
            "arc fails": ["FLEX-1814"],
            "gateway does not answer": ["FLEX-1532"],
            "kubelet exits": ["FLEX-1501"],
            "joined": [],
        }

    def test_the_machine_joined_and_the_gateway_was_made_once(self, made: Provisioned) -> None:
        here = made.site
        assert here.is_ready()
        assert here.device() == DEVICE
        assert here.status()["vpn"]["gateway"] == f"{here.gateway.address}:443"
        gateway = [one for one in made.writes() if "virtualNetworkGateways/flexnode-vpn" in one]
        assert gateway == ["PUT virtualNetworkGateways/flexnode-vpn"]

    def test_logs_and_exec(self, made: Provisioned) -> None:
        bed = made.site.bed
        updating.run_pods(bed, updating.pod(bed, "faraway", NAME))
        assert bed.cluster.kubectl("exec", "faraway", "--", "/bin/echo", "through").strip() == "through"
        assert bed.cluster.kubectl("logs", "faraway") == ""

    def test_a_second_run_changes_nothing(self, made: Provisioned) -> None:
        made.site.bed.azure.forget_requests()
        run = fleet.succeeded(made.play("again", "bootstrap"))
        assert sum(event["changed"] for event in run.events) == 0
        assert made.writes() == []

    def test_a_renewed_certificate_replaces_the_old_one_at_the_gateway(self, made: Provisioned) -> None:
        here, pods = made.site, updating.containers(made.site.bed, "faraway")
        old, gateway = made.profiles[-1], here.gateway
        fleet.succeeded(made.play("renewed", "update", "-e", json.dumps({"flexnode_vpn_renew": True})))
        assert made.profiles[-1] != old
        revoked = gateway.thumbprint_in(old)
        fleet.eventually("the revocation", lambda: revoked in here.bed.azure.vpn()["revokedThumbprints"], 30)
        fleet.eventually("a server that refuses it", lambda: not gateway.lets_in(old), 60)
        assert gateway.lets_in(made.profiles[-1])
        fleet.eventually("the tunnel again", here.is_connected, 60)
        fleet.eventually("Node Ready", here.is_ready, 60)
        assert updating.containers(here.bed, "faraway") == pods

    def test_a_tunnel_that_is_cut_for_two_minutes(self, made: Provisioned) -> None:
        survives_a_cut(made.site)

    def test_a_gateway_that_is_away_during_an_update(self, made: Provisioned) -> None:
        here, node = made.site, {"maxPods": 42}
        here.gateway.cut()
        try:
            code, message = updating.failure(made.play("gateway away", "update", node=node), NAME)
        finally:
            here.gateway.mend()
        assert (code, "change stays in place; the next run completes it, or rolls it back" in message) == (
            "FLEX-1504",
            True,
        ), message
        fleet.eventually("the tunnel again", here.is_connected, 90)
        fleet.succeeded(made.play("gateway back", "update", node=node))
        assert fleet.node(here.bed, NAME)["status"]["capacity"]["pods"] == "42"

    def test_a_wrong_profile_is_rolled_back(self, made: Provisioned) -> None:
        """Azure generates one that leads to a place where nobody is."""
        here, refresh = made.site, ("-e", json.dumps({"flexnode_vpn_refresh_profile": True}))
        server, before = here.gateway.server, here.machine.run(["sha256sum", PROFILE]).stdout
        here.bed.azure.set_vpn_server(**{**server, "host": here.bed.site.plan.node(250)})
        try:
            code, message = updating.failure(made.play("wrong profile", "update", *refresh), NAME)
        finally:
            here.bed.azure.set_vpn_server(**server)
        assert (code, "FLEX-1532" in message) == ("FLEX-1535", True), message
        assert here.machine.run(["sha256sum", PROFILE]).stdout == before
        assert here.is_ready()
        fleet.succeeded(made.play("right profile", "update", *refresh))
        assert here.status()["reason"] == "NodeJoined"

    def test_a_reboot(self, made: Provisioned) -> None:
        survives_a_reboot(made.site)

    def test_uninstall_revokes_the_certificate_and_keeps_the_gateway(self, made: Provisioned) -> None:
        here, gateway = made.site, made.site.gateway
        here.bed.cluster.kubectl("delete", "pod", "faraway", "--force", "--grace-period=0")
        with here.phases() as phases:
            fleet.succeeded(made.play("gone", "unbootstrap"))
        assert "Resetting" in phases
        assert NAME not in fleet.node_names(here.bed)
        assert not here.reaches_api_server()
        assert here.bed.azure.vpn()["gateway"]
        fleet.eventually("a server that refuses it", lambda: not gateway.lets_in(made.profiles[-1]), 60)
        assert gateway.answers()

    def test_the_gateway_goes_when_it_is_asked_to(self, made: Provisioned) -> None:
        options = ("-e", json.dumps({"flexnode_vpn_state": "absent"}))
        fleet.succeeded(made.play("no gateway", "vpn_gateway", *options))
        assert not made.site.bed.azure.vpn()["gateway"]
        fleet.eventually("no server", lambda: not made.site.gateway.answers(), 30)

    def test_no_secret_was_seen(self, made: Provisioned) -> None:
        """Of the root, of both client certificates, and the passphrase; in all runs above."""
        assert len(made.secrets) >= 4
        assert len(made.profiles) == 2
        assert made.hits() == []
