# SPDX-License-Identifier: GPL-3.0-or-later
"""FlexNodes pools: machines join, by themselves and from the controller, with each kind of Azure identity."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from testbed import Testbed
from testbed.azure import Fault
from testbed.azure.pools.bootstrap import UNKNOWN_KEYS
from testbed.azure.sign_in.directory import Principal
from tests.e2e import cloud, fleet, following, pools
from tests.e2e.conftest import MachineMaker
from tests.e2e.identities import GRANTOR_ROLES, Method
from tests.e2e.pools import NEW, ROLE, PoolMember, Site

POOL = "edge"
SHORT = {"servicePrincipal": "sp", "managedIdentity": "mi", "arc": "arc"}
PLATFORMS = {"servicePrincipal": "debian12", "managedIdentity": "ubuntu2404", "arc": "debian13"}
DATA, LIST, ANY = "/listBootstrapData", "/machines", "/machines/[^/]+"
FOREIGN = "theirs"
ROLE_SECONDS = 60
LATENCY = 10


@pytest.fixture(scope="module")
def site(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """An empty pool with values of its own."""
    bed.azure.settings()
    found = Site.of(bed, POOL, tmp_path_factory.mktemp("pool"), cloud.ROLE, *GRANTOR_ROLES, offers=[NEW])
    found.create_pool(NEW, maxPods=60, nodeLabels={"site": "lab"})
    return found


@pytest.fixture(autouse=True)
def _usual(bed: Testbed) -> Iterator[None]:
    bed.azure.forget_requests()
    yield
    bed.azure.heal()
    bed.azure.settings()


def somebody(site: Site, machines: MachineMaker, kind: str, method: Method) -> PoolMember:
    """A new machine that is somebody in Azure."""
    (machine,) = machines((f"{kind}-{SHORT[method]}", PLATFORMS[method]))
    found = PoolMember(site, machine, method)
    found.exist()
    return found


def join(found: PoolMember, **settings: Any) -> str:
    """Join at the edge, which must work; what it said."""
    found.settings(**settings)
    status, said = found.join()
    assert status == 0, said
    return said


def joined(found: PoolMember) -> None:
    """Ready, with AKS's labels and the pool's values; the pool's token is not kept."""
    assert found.is_node()
    assert found.version() == NEW
    assert found.node()["metadata"]["labels"]["site"] == "lab"
    goal = found.goal()
    assert (goal["kubernetes"]["nodeName"], goal["kubernetes"]["maxPods"]) == (found.name, 60)
    assert found.status()["config"]["appliedVersion"] == goal["eTag"]
    stored = following.state(found.machine, "current-config.json")
    assert not (stored["azure"].get("bootstrapToken") or {}).get("token")


def follows(found: PoolMember) -> None:
    """It polls its machine with its own identity."""
    said = found.monitoring()
    assert (said["status"], said["kind"], said["pool"]) == ("Ok", "machine", POOL)


@pytest.fixture(scope="module")
def lonely(site: Site, machines: MachineMaker) -> PoolMember:
    """A machine that joins by itself."""
    found = somebody(site, machines, "edge", "servicePrincipal")
    found.prepare_edge(site.directory)
    return found


class TestEdge:
    """aks-flex-node join --cluster ID --pool NAME --identity ..."""

    @pytest.mark.smoke
    def test_one_command_and_the_machine_is_a_node_of_the_pool(self, site: Site, lonely: PoolMember) -> None:
        assert f"create machine {lonely.name}" in join(lonely)
        joined(lonely)
        follows(lonely)
        own = partial(site.calls, by=lonely.principal.name)
        assert [len(own("POST", DATA)), len(own("PUT", ANY))] == [1, 1]

    def test_again_nothing_is_written(self, site: Site, lonely: PoolMember) -> None:
        before = fleet.main_pids(lonely.machine), lonely.goal()["eTag"]
        status, said = lonely.join(program="aks-flex-node")
        assert (status, "unchanged" in said) == (0, True), said
        assert site.calls("PUT", ANY) == []
        assert (fleet.main_pids(lonely.machine), lonely.goal()["eTag"]) == before

    @pytest.mark.parametrize("method", ["managedIdentity", "arc"])
    def test_other_identities(self, bed: Testbed, site: Site, machines: MachineMaker, method: Method) -> None:
        found = somebody(site, machines, "edge", method)
        if method == "arc":
            found.register_arc()
        found.prepare_edge(site.directory)
        bed.azure.forget_requests()
        join(found)
        joined(found)
        follows(found)
        assert [len(site.calls("POST", DATA)), len(site.calls("PUT", ANY))] == [1, 1]
        status, said = found.join(program="aks-flex-node")
        assert (status, "unchanged" in said) == (0, True), said
        assert len(site.calls("PUT", ANY)) == 1

    def test_azure_is_asked_every_5_to_10_minutes_and_when_the_node_changes(
        self, bed: Testbed, lonely: PoolMember
    ) -> None:
        following.scale(lonely.machine)  # the timer only
        try:
            time.sleep(5)
            bed.azure.forget_requests()
            time.sleep(20)
            assert lonely.reads() == []
            lonely.follows(lonely.set_goal(nodeLabels={"site": "moved"}))  # AKS patches the Node
        finally:
            following.unscale(lonely.machine)


class TestAnswers:
    """What Azure may answer during a join: each as documented (docs/pools.md, docs/edge.md)."""

    @pytest.fixture(autouse=True)
    def _left(self, bed: Testbed, lonely: PoolMember) -> None:
        """Not a node, and its machine deleted in Azure, by the command that `unbootstrap` shows."""
        done = lonely.machine.run(["python3", pools.PROGRAM, "unbootstrap"], check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if bed.azure.pools.machine(lonely.name, POOL):
            bed.azure.pools.delete_machines(lonely.name, pool=POOL)
        bed.azure.forget_requests()

    def test_too_many_requests(self, bed: Testbed, site: Site, lonely: PoolMember) -> None:
        bed.azure.fail(
            Fault(path=DATA, status=429, retry_after=6, times=2),
            Fault(path=f"{LIST}/", method="PUT", status=429, retry_after=3, times=1),
        )
        assert "Azure asks to wait" in join(lonely)
        assert lonely.is_node()
        for path, method, seconds, times in ((DATA, "POST", 6, 2), (ANY, "PUT", 3, 1)):
            asked = site.calls(method, path)
            refused = [one for one in asked if one.status == 429]
            assert len(refused) == times
            assert len(asked) == times + 1
            for one, later in zip(refused, asked[1:], strict=True):
                assert later.time - one.time >= seconds

    def test_a_role_that_is_not_effective_yet(self, bed: Testbed, site: Site, lonely: PoolMember) -> None:
        bed.azure.revoke(lonely.principal)
        bed.azure.settings(rbac_delay=ROLE_SECONDS)
        began = time.monotonic()
        bed.azure.grant(lonely.principal, ROLE, site.pool_id)
        said = join(lonely)
        assert time.monotonic() - began >= ROLE_SECONDS
        assert f"--scope {site.pool_id}" in said
        assert lonely.principal.object_id in said
        assert lonely.is_node()

    def test_unknown_keys(self, bed: Testbed, lonely: PoolMember) -> None:
        bed.azure.settings(bootstrap_data_patch=UNKNOWN_KEYS)
        said = join(lonely)
        assert "fields that are not used: bootstrap, node.kubelet.somethingNew, node.zone" in said
        assert lonely.is_node()

    def test_missing_fields(self, bed: Testbed, site: Site, lonely: PoolMember) -> None:
        """Those that nobody else knows are named, and nothing is created; without the others it joins."""
        needed = {"node": {"kubelet": {"caCertData": None}}, "components": None}
        bed.azure.settings(bootstrap_data_patch=needed)
        before = fleet.snapshot(lonely.machine)
        status, said = lonely.join()
        assert (status, "FLEX-1113" in said) == (1, True), said
        assert "components.kubernetes, node.kubelet.caCertData are missing" in said
        assert site.calls("PUT", ANY) == []
        assert fleet.snapshot(lonely.machine) == before
        optional = {"networking": None, "azure": {"targetCluster": None}, "node": {"maxPods": None}}
        bed.azure.settings(bootstrap_data_patch=optional)
        join(lonely)
        assert lonely.is_node()

    def test_another_changes_the_machine_at_the_same_time(
        self, bed: Testbed, site: Site, lonely: PoolMember
    ) -> None:
        """Twice: an error that says so. Once: it is read again, and the other's labels stay."""
        lonely.set_goal(orchestratorVersion=NEW, maxPods=60, nodeLabels={"theirs": "0"})
        lonely.settings(node={"taints": ["site=lab:NoSchedule"]})
        with ThreadPoolExecutor(1) as threads:
            run = threads.submit(lonely.join)
            meddle(lonely, lonely.principal, "1", "2")
            status, said = run.result()
        assert (status, "FLEX-1115" in said) == (1, True), said
        assert lonely.goal()["kubernetes"]["nodeLabels"]["theirs"] == "2"
        bed.azure.forget_requests()
        with ThreadPoolExecutor(1) as threads:
            run = threads.submit(lonely.join)
            meddle(lonely, lonely.principal, "3")
            status, said = run.result()
        assert status == 0, said
        assert [one.status for one in site.calls("PUT", ANY)] == [412, 200]
        assert lonely.goal()["kubernetes"]["nodeLabels"]["theirs"] == "3"
        assert lonely.node()["metadata"]["labels"]["theirs"] == "3"
        assert lonely.taints() == {"site=lab:NoSchedule"}


def meddle(found: PoolMember, writer: Principal, *values: str) -> None:
    """Change a machine after it was read, and before it is written: that PUT arrives late, once each time.

    writer: who reads and writes it; other nodes of the pool ask Azure too.
    """
    azure = found.bed.azure
    for times, value in enumerate(values, 1):
        azure.fail(Fault(path=f"{LIST}/{found.name}$", method="PUT", latency=LATENCY, times=1))
        fleet.eventually("a read", partial(has_read, found, writer, times), 120)
        time.sleep(3)  # it has been sent by now, and waits
        found.set_goal(nodeLabels={"theirs": value})


def has_read(found: PoolMember, reader: Principal, times: int) -> bool:
    """Whether somebody has read a machine so often, alone or in the list."""
    return len(found.site.calls("GET", f"/machines(/{found.name})?", by=reader.name)) >= times


@pytest.fixture(scope="module")
def ten(site: Site, machines: MachineMaker) -> Sequence[PoolMember]:
    """Three machines that are somebody in Azure, and seven that are not."""
    known: list[Method] = ["servicePrincipal", "managedIdentity", "arc"]
    names = [(f"push-{SHORT[method]}", PLATFORMS[method]) for method in known]
    plain = [(f"push-{number}", "debian12") for number in range(4, 11)]
    methods: list[Method] = [*known, *("bootstrapToken" for _ in plain)]  # type: ignore[list-item]
    made = machines(*names, *plain)
    found = [PoolMember(site, machine, method) for machine, method in zip(made, methods, strict=True)]
    for one in found[: len(known)]:
        one.exist()
    return found


class TestPush:
    """Source machines in an inventory, and the playbooks."""

    def test_preflight_creates_nothing(self, bed: Testbed, site: Site, ten: Sequence[PoolMember]) -> None:
        run = fleet.succeeded(site.play("preflight", site.inventory("three", ten[:2])))
        assert "FLEX-" not in run.output
        assert [*site.calls("PUT", ANY), *site.calls("POST", DATA)] == []

    def test_ten_hosts(self, bed: Testbed, site: Site, ten: Sequence[PoolMember]) -> None:
        """One request for bootstrap data, one list, ten PUTs; Arc's role at the pool takes a while."""
        bed.azure.settings(rbac_delay=10)
        run = fleet.succeeded(site.play("bootstrap", site.inventory("ten", ten)))
        print(f"10 hosts: {run.seconds:.0f} s")
        for one in ten:
            joined(one)
        for one in ten[:3]:
            follows(one)
        ours = partial(site.calls, by=site.operator.name)
        counts = [len(ours(*one)) for one in (("POST", DATA), ("GET", LIST), ("PUT", ANY))]
        assert counts == [1, 1, 10]
        assert set(bed.azure.pools.machines(POOL)) >= {one.name for one in ten}

    def test_a_second_run_changes_nothing(self, site: Site, ten: Sequence[PoolMember]) -> None:
        before = {one.name: (fleet.main_pids(one.machine), one.goal()["eTag"]) for one in ten}
        run = fleet.succeeded(site.play("bootstrap", site.inventory("ten", ten)))
        assert {one.name: run.changed(one.name) for one in ten} == {one.name: 0 for one in ten}, run.output
        assert [*site.calls("PUT", ANY), *site.calls("POST", DATA)] == []
        assert {one.name: (fleet.main_pids(one.machine), one.goal()["eTag"]) for one in ten} == before

    def test_the_list_shows_machines_and_nodes(
        self, bed: Testbed, site: Site, ten: Sequence[PoolMember]
    ) -> None:
        options = (f"flexnode_cluster_id={bed.azure.cluster_id}", f"flexnode_pool={POOL}")
        extra = [word for option in options for word in ("--extra-vars", option)]
        run = fleet.succeeded(site.play("config_list", site.inventory("ten", ten), *extra))
        (line,) = [line for line in run.output.splitlines() if f"{ten[9].name} " in line]
        assert line.count(NEW) == 2, line  # the goal, and the kubelet
        assert "Succeeded" in line

    def test_explicit_settings_are_written_once_and_reach_the_node(
        self, bed: Testbed, site: Site, ten: Sequence[PoolMember]
    ) -> None:
        """Although somebody else changes the machine at the same time."""
        one = ten[3]
        labels = {"node": {"labels": {"rack": "7"}}}
        inventory = site.inventory("rack", [one], flexnode_config=labels)
        with ThreadPoolExecutor(1) as threads:
            run = threads.submit(site.play, "bootstrap", inventory)
            meddle(one, site.operator, "1")
            fleet.succeeded(run.result())
        assert [put.status for put in site.calls("PUT", ANY)] == [412, 200]
        assert one.node()["metadata"]["labels"]["rack"] == "7"
        again = fleet.succeeded(site.play("bootstrap", inventory))
        assert again.changed(one.name) == 0, again.output

    def test_unbootstrap_removes_what_is_ours(
        self, bed: Testbed, site: Site, ten: Sequence[PoolMember]
    ) -> None:
        """Machine, Node, Arc's role at the pool. The pool, other machines and others' roles stay."""
        bed.azure.pools.set_goal(FOREIGN, POOL)
        pool, pids = bed.azure.pools.get(POOL), fleet.main_pids(ten[0].machine)
        arc, plain = ten[2], ten[4]
        own = arc.principal.object_id
        others = {name: who for name, who in site.assignments().items() if who != own}
        assert site.assignments() != others
        leaving = site.inventory("leaving", [arc, plain])
        fleet.succeeded(site.play("unbootstrap", leaving))
        left = bed.azure.pools.machines(POOL)
        assert not {arc.name, plain.name} & (set(left) | fleet.node_names(bed))
        assert {FOREIGN, ten[0].name, ten[1].name} <= set(left)
        assert site.assignments() == others
        assert bed.azure.pools.get(POOL) == pool
        assert fleet.main_pids(ten[0].machine) == pids
        assert ten[0].is_node()
        for one in (arc, plain):
            assert one.machine.run(["test", "-e", following.STATE], check=False).returncode != 0
        again = fleet.succeeded(site.play("unbootstrap", leaving))
        assert again.changed(plain.name) == 0, again.output
