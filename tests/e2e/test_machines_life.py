# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a FlexNodes pool follow what is changed in Azure: goals, versions, upgrades, deletion."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from testbed import Testbed
from testbed.azure import Fault
from tests.e2e import fleet, following, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.pools import BAD, DELETING, NEW, OLD, OLDEST, PoolMember, Site, scale, unscale
from tests.e2e.watch import Watch

POOL = "life"
PLATFORMS = ("debian12", "ubuntu2204", "debian13", "ubuntu2404")
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
MISSING_SECONDS = 20  # longer than the two answers have to be apart
TAINT = "rack=1:NoSchedule"


@pytest.fixture(scope="module")
def site(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Site:
    bed.azure.settings()
    found = Site.of(bed, POOL, tmp_path_factory.mktemp("life"))
    found.create_pool(OLDEST, nodeLabels={"site": "lab"}, upgradeSettings={"maxUnavailable": "1"})
    return found


@pytest.fixture(autouse=True)
def _usual(bed: Testbed) -> Iterator[None]:
    bed.azure.forget_requests()
    yield
    bed.azure.heal()
    bed.azure.settings()


@pytest.fixture(scope="module")
def first(site: Site, machines: MachineMaker) -> PoolMember:
    """One that joined by itself."""
    (machine,) = machines((f"{POOL}-1", PLATFORMS[0]))
    found = PoolMember(site, machine, "servicePrincipal")
    found.exist()
    found.prepare_edge(site.directory)
    status, said = found.join()
    assert status == 0, said
    scale(machine)
    return found


@pytest.fixture(scope="module")
def four(site: Site, machines: MachineMaker, first: PoolMember) -> Sequence[PoolMember]:
    """Three more, which a playbook joined; all as they were created in Azure."""
    made = machines(*((f"{POOL}-{number}", PLATFORMS[number - 1]) for number in (2, 3, 4)))
    others = [PoolMember(site, machine, "servicePrincipal") for machine in made]
    for one in others:
        one.exist()
    fleet.succeeded(site.play("bootstrap", site.inventory("others", others)))
    for one in others:
        scale(one.machine)
        assert one.is_node()
    return [first, *others]


def comes_back(found: PoolMember, uid: str, version: str, seconds: float = 240) -> None:
    """Wait for a new Node of the same machine, at a version."""

    def back() -> bool:
        return found.uid() not in ("", uid) and found.is_node() and found.version() == version

    fleet.eventually(f"{found.name} at {version}", back, seconds)


def for_versions(site: Site, found: PoolMember, apply: str) -> None:
    """Set azure.machines.apply of one machine."""
    config = {"azure": {"machines": {"apply": apply}}}
    inventory = site.inventory(apply, [found], flexnode_config=config)
    fleet.succeeded(site.play("bootstrap", inventory))
    assert following.state(found.machine, "current-config.json")["azure"]["machines"]["apply"] == apply


class TestGoals:
    """Labels and taints, which AKS puts onto the Node."""

    def test_labels_and_taints(self, first: PoolMember) -> None:
        before = fleet.main_pids(first.machine), first.uid()
        first.follows(first.set_goal(nodeLabels={"site": "lab", "rack": "1"}, nodeTaints=[TAINT]))
        assert first.node()["metadata"]["labels"]["rack"] == "1"
        assert first.taints() == {TAINT}
        stored = following.state(first.machine, "current-config.json")["node"]
        assert (stored["labels"], stored["taints"]) == ({"site": "lab", "rack": "1"}, [TAINT])
        assert (fleet.main_pids(first.machine), first.uid()) == before

    def test_they_are_removed(self, first: PoolMember) -> None:
        before = fleet.main_pids(first.machine)
        first.follows(first.set_goal(nodeLabels={"site": "lab"}, nodeTaints=None))
        assert "rack" not in first.node()["metadata"]["labels"]
        assert first.taints() == set()
        assert fleet.main_pids(first.machine) == before
        assert first.is_node()

    def test_where_aks_does_not_patch_nodes(self, bed: Testbed, first: PoolMember) -> None:
        """The node sets its labels; a taint it may not set: it says which one is missing."""
        bed.azure.settings(patch_nodes=False)
        first.follows(first.set_goal(nodeLabels={"site": "lab", "rack": "2"}, nodeTaints=[TAINT]))
        assert first.node()["metadata"]["labels"]["rack"] == "2"
        assert first.taints() == set()
        assert f"kubectl taint nodes {first.name} --overwrite {TAINT}" in first.journal()
        first.follows(first.set_goal(nodeLabels={"site": "lab"}, nodeTaints=None))
        fleet.eventually("no label", lambda: "rack" not in first.node()["metadata"]["labels"])


class TestVersions:
    """A version is installed when the Node was deleted, by whomever."""

    def test_of_one_machine(self, bed: Testbed, site: Site, four: Sequence[PoolMember]) -> None:
        one, other = four[1], four[2]
        updating.run_pods(bed, updating.pod(bed, "neighbour", other.name))
        pods, pids, uid = updating.containers(bed, "neighbour"), fleet.main_pids(other.machine), one.uid()
        etag = one.set_goal(orchestratorVersion=OLD)
        fleet.eventually("the wait", lambda: one.monitoring()["status"] == "Waiting", 60)
        assert f"Kubernetes {OLDEST} -> {OLD}" in one.monitoring()["waiting"]
        one.polled(3)
        assert (one.uid(), one.version()) == (uid, OLDEST)
        bed.azure.forget_requests()
        bed.cluster.kubectl("delete", "node", one.name)
        comes_back(one, uid, OLD)
        one.follows(etag)
        assert site.calls("POST", "/listBootstrapData") == []  # its certificate is enough
        assert updating.running_version(one.machine, updating.KUBELET) == OLD
        assert updating.containers(bed, "neighbour") == pods
        assert fleet.main_pids(other.machine) == pids
        bed.cluster.kubectl("delete", "pod", "neighbour", "--force", "--grace-period=0")

    def test_a_deleted_node_without_a_new_goal(self, bed: Testbed, four: Sequence[PoolMember]) -> None:
        one = four[2]
        uid, etag = one.uid(), one.goal()["eTag"]
        bed.cluster.kubectl("delete", "node", one.name)
        comes_back(one, uid, OLDEST)
        one.follows(etag)

    def test_at_once(self, site: Site, four: Sequence[PoolMember]) -> None:
        """A site that does not wait for AKS says so: the same Node, drained and updated in place."""
        one = four[3]
        uid = one.uid()
        for_versions(site, one, "at-once")
        one.follows(one.set_goal(orchestratorVersion=OLD), 240)
        assert (one.uid(), one.version(), one.is_node()) == (uid, OLD, True)
        for_versions(site, one, "node-deleted")

    def test_of_the_pool(self, bed: Testbed, site: Site, four: Sequence[PoolMember]) -> None:
        """Four machines, one at a time: never two that are not Ready."""
        before = {one.name: one.uid() for one in four}
        with Watch.of(bed, (one.name for one in four)) as watch:
            bed.azure.pools.upgrade(NEW, POOL, wait=False)
            ended = bed.azure.pools.settle(POOL)["properties"]
        print(f"{len(watch.down)} changes of Nodes")
        assert ended["provisioningState"] == "Succeeded", ended
        assert max(map(len, watch.down)) == 1, [names for names in watch.down if len(names) > 1]
        assert {name for names in watch.down for name in names} == set(before)  # each one was seen
        for one in four:
            one.follows(one.goal()["eTag"])
            assert (one.version(), one.is_node()) == (NEW, True)
            assert one.uid() != before[one.name]

    def test_a_bad_version(self, bed: Testbed, site: Site, four: Sequence[PoolMember]) -> None:
        """Rolled back; AKS goes no further; the reason is on the machine, and what AKS saw in Azure."""
        before = {one.name: one.uid() for one in four}
        bed.azure.settings(control_plane_version="1.34.99", upgrade_seconds=150)
        bed.azure.pools.upgrade(BAD, POOL, wait=False)
        ended = bed.azure.pools.settle(POOL)["properties"]
        assert ended["provisioningState"] == "Failed", ended
        assert f"its Node is Ready at version {NEW}" in ended["status"]["provisioningError"]["message"]
        tried = [one for one in four if one.goal()["kubernetes"]["orchestratorVersion"] == BAD]
        assert len(tried) == 1
        (one,) = tried
        said = one.monitoring()
        assert (said["status"], said["blockedVersion"]) == ("Blocked", one.goal()["eTag"])
        assert "this build" in said["message"]
        assert {"Blocked", said["code"]} <= set(updating.status(one.machine).split())
        assert "this build" in updating.status(one.machine)
        assert (one.version(), one.is_node()) == (NEW, True)
        assert updating.freshly_ready(bed, one.machine)
        assert {other.name: other.uid() for other in four if other is not one} == {
            name: uid for name, uid in before.items() if name != one.name
        }
        one.polled(3)
        assert one.uid() != before[one.name]  # registered again, and not tried again since
        one.follows(one.set_goal(orchestratorVersion=NEW))
        assert bed.azure.pools.upgrade(NEW, POOL)["properties"]["provisioningState"] == "Succeeded"


class TestCertificate:
    """The kubelet's own, which makes bootstrap data unnecessary, as long as it is there."""

    def test_a_lost_one(self, bed: Testbed, site: Site, four: Sequence[PoolMember]) -> None:
        one = four[3]
        one.machine.run(["sh", "-c", "rm -rf /var/lib/kubelet/pki && systemctl restart --no-block kubelet"])
        fleet.eventually("a certificate", lambda: exists(one, CERTIFICATE), 180)
        fleet.eventually("a Ready Node", lambda: updating.freshly_ready(bed, one.machine), 180)
        assert len(site.calls("POST", "/listBootstrapData", by=one.machine.ip)) == 1
        one.follows(one.goal()["eTag"])
        assert one.is_node()
        stored = following.state(one.machine, "current-config.json")
        assert not (stored["azure"].get("bootstrapToken") or {}).get("token")


def exists(found: PoolMember, path: str) -> bool:
    """Whether a file is there."""
    return found.machine.run(["test", "-s", path], check=False).returncode == 0


class TestDelete:
    """A node leaves when Azure says twice that its machine is gone, and AKS has tainted its Node."""

    def stays(self, found: PoolMember, code: str) -> None:
        """It polls on for longer than a leave needs, and is what it was."""
        pids = fleet.main_pids(found.machine)
        time.sleep(MISSING_SECONDS)
        found.polled(3)
        assert (found.monitoring().get("code") or "") == code
        assert fleet.is_ready(found.node())
        assert fleet.main_pids(found.machine) == pids
        assert following.state(found.machine, "state.json")["phase"] == "NodeJoined"

    def test_the_taint_alone(self, bed: Testbed, four: Sequence[PoolMember]) -> None:
        one = four[2]
        bed.cluster.kubectl("taint", "node", one.name, f"{DELETING}=true:NoSchedule")
        self.stays(one, "")
        bed.cluster.kubectl("taint", "node", one.name, f"{DELETING}:NoSchedule-")
        one.polled(2)

    def test_the_machine_alone(self, bed: Testbed, four: Sequence[PoolMember]) -> None:
        bed.azure.settings(service_stop_after="goal")
        bed.azure.pools.delete_machines(four[2].name, pool=POOL, wait=False)
        self.stays(four[2], "FLEX-1116")
        assert "not marked the Node" in four[2].monitoring()["message"]
        # AKS goes on, as far as the taint, while the list of machines does not answer.
        bed.azure.fail(Fault(path="/machines$", method="GET", status=403))
        bed.azure.settings(service_stop_after="taint", node_removal_seconds=600)
        fleet.eventually("the taint", lambda: f"{DELETING}=true:NoSchedule" in four[2].taints(), 60)
        self.stays(four[2], "FLEX-1116")
        bed.azure.fail(Fault(path="/machines$", method="GET", status=500))
        self.stays(four[2], "FLEX-1116")
        assert "HTTP 500" in four[2].monitoring()["message"]

    def test_both(self, bed: Testbed, site: Site, four: Sequence[PoolMember]) -> None:
        one, others = four[2], [four[0], four[1], four[3]]
        pids = {other.name: fleet.main_pids(other.machine) for other in others}
        fleet.eventually(f"{one.name} leaves", lambda: following.has_left(one.machine), 240)
        unscale(one.machine)
        assert one.name not in fleet.node_names(bed)
        assert "no longer a node" in one.journal()
        assert not exists(one, following.STATE)
        assert set(bed.azure.pools.machines(POOL)) == {other.name for other in others}
        assert {other.name: fleet.main_pids(other.machine) for other in others} == pids
        assert all(other.is_node() for other in others)
