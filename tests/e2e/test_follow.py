# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that follow their configuration by themselves: from a flexNodeConfig, a blob, a durable URL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests

from testbed import Testbed
from testbed.azure import Fault
from testbed.azure.sign_in.directory import Principal
from testbed.document import SITE
from testbed.layout import versions
from testbed.machine import Machine
from tests.e2e import cloud, fleet, following, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.following import TIMER, Follower, journal, scale, status, unscale
from tests.e2e.identities import ARM, GRANTOR_ROLES, registrar, resource_group
from tests.e2e.photograph import photograph
from tests.e2e.test_arc import given_back

OLD, NEW = versions.KUBERNETES_RENUMBERED, versions.KUBERNETES
PRINCIPAL, VM, ARC, BLOB, URL, TIMED = (
    f"follow-{name}" for name in ("sp", "vm", "arc", "blob", "url", "timed")
)
CONFIG = "/etc/default/kubeletconfig.json"
CLUSTER_ONLY = r"/managedClusters/[^/]+$"
DELETES_ITSELF = ("Azure Connected Machine Resource Administrator", "Role Based Access Control Administrator")


@pytest.fixture(scope="module")
def operator(bed: Testbed) -> Principal:
    """Writes resources, registers machines, assigns roles."""
    return registrar(bed, "follow-operator", cloud.ROLE, *GRANTOR_ROLES)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("follow")


@pytest.fixture(scope="module")
def offered(bed: Testbed) -> dict[str, Any]:
    """The site's settings, with the digests of two patch versions."""
    document = updating.with_versions(bed, bed.node_document(), kubernetes=OLD)
    return {part: document[part] for part in SITE}


@pytest.fixture(autouse=True)
def _healthy(bed: Testbed) -> Iterator[None]:
    yield
    bed.azure.heal()


@pytest.fixture(scope="module")
def timed(bed: Testbed, machines: MachineMaker, operator: Principal, directory: Path) -> Follower:
    """A node with the timer as it is installed; the other tests take longer than ten of its polls."""
    (machine,) = machines((TIMED, "ubuntu2404"))
    follower = Follower(bed, machine, "servicePrincipal", operator, directory)
    follower.exist()
    follower.join_by_url()
    return follower


@pytest.fixture(scope="module")
def principal(
    bed: Testbed,
    machines: MachineMaker,
    operator: Principal,
    directory: Path,
    offered: dict[str, Any],
) -> Follower:
    """A service principal for the kubelet and for Azure, as the seeds write it."""
    (machine,) = machines((PRINCIPAL, "debian12"))
    return Follower(bed, machine, "servicePrincipal", operator, directory)


def follows_changes(follower: Follower) -> None:
    """A label, maxPods, a bad document, a good one: as PUT, and as the resource shows it."""
    machine = follower.machine
    follower.put(nodeConfig={"labels": {"site": "second"}})
    fleet.eventually("the label", lambda: follower.label("site") == "second", 40)
    follower.follows()
    shown = follower.get()["status"]
    assert shown["lastConfigApplied"]
    assert any(one["type"] == "Ready" and one["status"] == "True" for one in shown["conditions"])
    before = fleet.main_pids(machine)["kubelet.service"]
    follower.put(nodeConfig={"maxPods": 77})
    follower.follows()
    assert '"maxPods": 77' in machine.read(CONFIG)
    assert fleet.main_pids(machine)["kubelet.service"] != before
    refused(follower)


def refused(follower: Follower) -> None:
    """A bad document is refused and reported, the next good one is applied."""
    machine = follower.machine
    good = follower.get()["configVersion"]
    bad = follower.put(nodeConfig={"maxPods": 100_000})["configVersion"]
    fleet.eventually("the refusal", lambda: status(machine)["monitoring"]["status"] == "Blocked", 40)
    said = status(machine)
    assert (said["monitoring"]["blockedVersion"], said["reason"]) == (bad, "FLEX-1101")
    assert said["config"]["appliedVersion"] == good
    assert follower.get()["status"]["appliedConfigVersion"] == good
    assert f"configuration {bad} is not applied" in journal(machine)
    assert said["node"]["ready"]
    follower.put(nodeConfig={"maxPods": 78})
    follower.follows()
    said = status(machine)
    assert (said["monitoring"]["status"], said["drift"]) == ("Ok", [])


class TestServicePrincipal:
    """Source rp as the seeds write it: one PUT, one URL, one principal for both."""

    @pytest.mark.smoke
    def test_a_put_reaches_the_node_and_comes_back_as_its_status(
        self, bed: Testbed, principal: Follower, offered: dict[str, Any]
    ) -> None:
        principal.exist()
        principal.properties = {
            "continuousMonitoring": True,
            **principal.auth,
            "versions": {"kubernetes": OLD},
            "nodeConfig": {"maxPods": 50, "labels": {"environment": "prod"}},
        }
        url = principal.put()["configUrl"]
        inventory = principal.inventory(
            "seed", flexnode_config_source="url", flexnode_config_url=url, flexnode_config=offered
        )
        fleet.succeeded(principal.play("bootstrap", inventory))
        assert fleet.is_ready(fleet.node(bed, PRINCIPAL))
        scale(principal.machine)
        principal.polled(1)
        principal.put(nodeConfig={"labels": {"environment": "test"}})
        fleet.eventually("the label", lambda: principal.label("environment") == "test", 40)
        principal.follows()
        assert principal.get()["status"]["lastConfigApplied"]

    def test_it_polls_as_itself_with_one_token(self, bed: Testbed, principal: Follower) -> None:
        bed.azure.forget_requests()
        before = principal.written()
        principal.polled(5)
        assert {one.principal for one in principal.reads()} == {principal.principal.name}
        tokens = [
            one
            for one in bed.azure.requests()
            if one.path.endswith("/oauth2/v2.0/token") and one.client == principal.machine.ip
        ]
        assert tokens == []
        assert principal.written() == before

    def test_changes(self, principal: Follower) -> None:
        follows_changes(principal)

    def test_a_patch_version(self, bed: Testbed, principal: Follower) -> None:
        assert updating.running_version(principal.machine, "kubelet.service") == OLD
        principal.put(versions={"kubernetes": NEW})
        principal.follows(90)
        assert updating.running_version(principal.machine, "kubelet.service") == NEW
        assert updating.freshly_ready(bed, principal.machine)

    def test_a_new_secret_is_fetched_with_the_old_one(self, bed: Testbed, principal: Follower) -> None:
        bed.azure.grant(principal.principal, cloud.ROLE)
        old = principal.principal
        new = bed.azure.renew_secret(old)
        auth = principal.properties["azureAuth"]
        auth["servicePrincipal"]["clientSecret"] = new.secret
        principal.put()
        principal.follows()
        stored = following.state(principal.machine, "current-config.json")
        assert stored["azure"]["servicePrincipal"]["clientSecret"] == new.secret
        bed.azure.revoke(principal.principal, cloud.ROLE)
        principal.polled(2)
        assert status(principal.machine)["monitoring"]["status"] == "Ok"

    @pytest.mark.parametrize(
        ("fault", "code"),
        [
            (
                Fault(path=f"/flexNodeConfig/{PRINCIPAL}$", method="GET", status=404, code="NotFound"),
                "FLEX-1103",
            ),
            (Fault(path=f"/flexNodeConfig/{PRINCIPAL}$", method="GET", status=403), "FLEX-1103"),
            (Fault(path=f"/flexNodeConfig/{PRINCIPAL}$", method="GET", status=500), "FLEX-1103"),
            (Fault(path=f"/flexNodeConfig/{PRINCIPAL}$", method="GET", drop=True), "FLEX-1103"),
        ],
        ids=["another 404", "403", "500", "a cut line"],
    )
    def test_a_failing_poll_removes_and_disturbs_nothing(
        self, bed: Testbed, principal: Follower, fault: Fault, code: str
    ) -> None:
        pids = fleet.main_pids(principal.machine)
        bed.azure.fail(fault)
        principal.polled(3)
        said = status(principal.machine)["monitoring"]
        assert (said["status"], said["code"]) == ("Failing", code)
        bed.azure.heal()
        fleet.eventually(
            "an end of it", lambda: status(principal.machine)["monitoring"]["status"] == "Ok", 60
        )
        assert fleet.main_pids(principal.machine) == pids
        assert fleet.is_ready(fleet.node(bed, PRINCIPAL))

    def test_retry_after_is_obeyed(self, bed: Testbed, principal: Follower) -> None:
        bed.azure.forget_requests()
        path = f"/flexNodeConfig/{PRINCIPAL}$"
        bed.azure.fail(Fault(path=path, method="GET", status=429, retry_after=12, times=1))
        fleet.eventually("two polls", lambda: len(principal.polls()) >= 2, 60)
        first = next(one for one in principal.reads() if one.status == 429)
        later = min(moment for moment in principal.polls() if moment > first.time)
        assert later - first.time >= 12

    def test_many_polls_without_news_write_and_leave_nothing(self, bed: Testbed, principal: Follower) -> None:
        """An hour has 120 polls; here they come every 2 to 3 s."""
        machine = principal.machine
        principal.polled(1)
        before, since = principal.written(), machine.run(["date", "+%F %T"]).stdout.strip()
        bed.azure.forget_requests()
        running = machine.run(["sh", "-c", "ls /proc | grep -c '^[0-9]'"]).stdout
        principal.polled(120, seconds=900)
        assert principal.written() == before
        assert journal(machine, since).strip() == ""
        assert abs(int(machine.run(["sh", "-c", "ls /proc | grep -c '^[0-9]'"]).stdout) - int(running)) <= 5

    def test_a_deleted_resource_without_its_cluster_removes_nothing(
        self, bed: Testbed, principal: Follower
    ) -> None:
        principal.delete()
        bed.azure.fail(Fault(path=CLUSTER_ONLY, method="GET", status=404, code="ResourceNotFound"))
        time.sleep(20)  # longer than the two answers have to be apart
        principal.polled(3)
        assert status(principal.machine)["monitoring"]["code"] == "FLEX-1109"
        assert fleet.is_ready(fleet.node(bed, PRINCIPAL))
        assert following.state(principal.machine, "state.json")["phase"] == "NodeJoined"

    def test_with_its_cluster_the_node_leaves_through_a_reboot_and_can_join_again(
        self, bed: Testbed, principal: Follower, offered: dict[str, Any]
    ) -> None:
        machine = principal.machine
        fleet.eventually(
            "the leave begins",
            lambda: (
                '"Resetting"' in machine.run(["cat", f"{following.STATE}/state.json"], check=False).stdout
            ),
            90,
        )
        machine.reboot(grace=1)
        principal.gone()
        unscale(machine)
        assert machine.run(["ls", following.STATE], check=False).returncode != 0
        url = principal.put()["configUrl"]
        inventory = principal.inventory(
            "seed", flexnode_config_source="url", flexnode_config_url=url, flexnode_config=offered
        )
        fleet.succeeded(principal.play("bootstrap", inventory))
        assert fleet.is_ready(fleet.node(bed, PRINCIPAL))


@pytest.fixture(scope="module")
def vm(bed: Testbed, machines: MachineMaker, operator: Principal, directory: Path) -> Follower:
    """An Azure VM."""
    (machine,) = machines((VM, "ubuntu2204"))
    follower = Follower(bed, machine, "managedIdentity", operator, directory)
    follower.exist()
    return follower


class TestManagedIdentity:
    """A bootstrap token for the join, the identity of the VM for polling; written by the playbooks."""

    def inventory(self, vm: Follower, offered: dict[str, Any], **node: Any) -> Path:
        azure: dict[str, Any] = {"managedIdentity": {}}
        auth = {"method": "bootstrapToken"}
        config = {
            **offered,
            "continuousMonitoring": True,
            "azure": azure,
            "kubernetesAuth": auth,
            "node": node,
        }
        return vm.inventory("rp", flexnode_config_source="rp", flexnode_config=config)

    def test_join_and_changes(self, bed: Testbed, vm: Follower, offered: dict[str, Any]) -> None:
        inventory = self.inventory(vm, offered, labels={"site": "first"})
        fleet.succeeded(vm.play("bootstrap", inventory))
        scale(vm.machine)
        vm.polled(2)
        source = following.state(vm.machine, "source.json")
        assert source["resource"].endswith(f"/flexNodeConfig/{VM}")
        assert "labels" not in source["over"].get("node", {})
        vm.properties = {
            part: value
            for part, value in vm.get().items()
            if part in ("continuousMonitoring", "azureAuth", "kubernetesAuth", "versions", "nodeConfig")
        }
        follows_changes(vm)

    def test_the_playbook_writes_and_the_node_follows(
        self, bed: Testbed, vm: Follower, offered: dict[str, Any]
    ) -> None:
        inventory = self.inventory(vm, offered, labels={"site": "third"}, maxPods=78)
        fleet.succeeded(vm.play("config_put", inventory))
        fleet.eventually("the label", lambda: vm.label("site") == "third", 40)
        vm.follows()
        again = fleet.succeeded(vm.play("bootstrap", inventory))
        assert again.changed(VM) == 0, again.output

    def test_the_playbook_deletes_and_the_node_leaves(
        self, bed: Testbed, vm: Follower, offered: dict[str, Any]
    ) -> None:
        fleet.succeeded(vm.play("config_delete", self.inventory(vm, offered)))
        vm.gone()
        assert "no longer a node" in journal(vm.machine)


@pytest.fixture(scope="module")
def edge(bed: Testbed, machines: MachineMaker, operator: Principal, directory: Path) -> Follower:
    """A machine that is to be registered with Azure Arc."""
    (machine,) = machines((ARC, "debian13"))
    follower = Follower(bed, machine, "arc", operator, directory)
    follower.exist()
    return follower


class TestArc:
    """Azure Arc for both, registered by the playbook; DELETE removes it all, here and in Azure."""

    def assignments(self, edge: Follower) -> set[str]:
        """Everyone's on the cluster."""
        path = f"{edge.bed.azure.cluster_id}/providers/Microsoft.Authorization/roleAssignments"
        token = edge.bed.azure.token(edge.operator, ARM)
        answer = requests.get(
            f"{edge.bed.azure.url}{path}",
            params={"api-version": "2022-04-01"},
            headers={"Authorization": f"Bearer {token}"},
            verify=str(edge.bed.ca_file),
            timeout=20,
        )
        answer.raise_for_status()
        return {one["id"] for one in answer.json()["value"]}

    def test_the_whole_life(self, bed: Testbed, edge: Follower, offered: dict[str, Any]) -> None:
        before, assigned = photograph(edge.machine), self.assignments(edge)
        arc = {"arc": {"enabled": True, "autoRoleAssignment": True}, "tenantId": bed.azure.tenant_id}
        config = {
            **offered,
            "continuousMonitoring": True,
            "azure": arc,
            "kubernetesAuth": {"useAzureAuth": True},
            "node": {"labels": {"site": "first"}},
        }
        inventory = edge.inventory("rp", flexnode_config_source="rp", flexnode_config=config)
        fleet.succeeded(edge.play("bootstrap", inventory))
        scale(edge.machine)
        edge.polled(3)
        assert status(edge.machine)["monitoring"]["status"] == "Ok", journal(edge.machine)
        edge.properties = {
            part: value
            for part, value in edge.get().items()
            if part in ("continuousMonitoring", "azureAuth", "kubernetesAuth", "versions", "nodeConfig")
        }
        follows_changes(edge)
        assert self.assignments(edge) != assigned
        # What the machine's identity needs to remove itself.
        own = Principal(name="", object_id=edge.member.object_id, client_id="", secret="")
        for role in DELETES_ITSELF:
            bed.azure.grant(own, role, resource_group(bed))
        edge.delete()
        edge.gone()
        bed.azure.revoke(own)
        said = journal(edge.machine)
        assert "left:" not in said, said
        assert edge.member.arc_resource() == {}
        assert self.assignments(edge) == assigned
        unscale(edge.machine)
        assert given_back(before, edge.machine) == []


class TestUrls:
    """A blob that the playbooks write, and a durable URL of one's own."""

    def test_blob(self, bed: Testbed, operator: Principal, machines: MachineMaker, directory: Path) -> None:
        (machine,) = machines((BLOB, "ubuntu2404"))
        user = cloud.Operator(bed, bed.azure.environment(operator))

        def inventory(**node: Any) -> Path:
            path = directory / "blob.yml"
            return user.inventory(path, "blob", [machine], continuousMonitoring=True, node=node)

        fleet.succeeded(user.play("bootstrap", inventory(labels={"site": "first"})))
        scale(machine)
        fleet.succeeded(user.play("config_put", inventory(labels={"site": "second"}, maxPods=66)))
        label = partial(self.label, bed, machine)
        fleet.eventually("the label", following.within(label, "second"), 60)
        fleet.eventually("maxPods", lambda: '"maxPods": 66' in machine.read(CONFIG), 60)
        fleet.succeeded(user.play("config_delete", inventory()))
        fleet.eventually("the leave", partial(following.has_left, machine), 120)
        assert BLOB not in fleet.node_names(bed)
        unscale(machine)

    @pytest.mark.smoke
    def test_url(self, bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
        (machine,) = machines((URL, "debian12"))
        document = fleet.join_document(bed)
        document["cni"]["podCIDR"] = machine.pod_cidr

        def publish(version: int, **node: Any) -> str:
            content = {**document, "continuousMonitoring": True}
            content["node"] = {**content["node"], **node}
            bundle = {"config": content, "configVersion": str(version)}
            return bed.publish(f"{URL}.json", json.dumps(bundle).encode())

        inventory = fleet.write_inventory(
            bed,
            [machine],
            tmp_path / "hosts.yml",
            flexnode_config_source="url",
            flexnode_config_url=publish(1, labels={"site": "first"}),
            flexnode_config_url_durable=True,
            flexnode_config_url_ca_cert=bed.ca_pem,
        )
        fleet.succeeded(fleet.play("bootstrap", inventory))
        scale(machine)
        publish(2, labels={"site": "second"}, maxPods=66)
        label = partial(self.label, bed, machine)
        fleet.eventually("the label", following.within(label, "second"), 60)
        fleet.eventually("maxPods", lambda: '"maxPods": 66' in machine.read(CONFIG), 60)
        publish(3, maxPods=-1)
        fleet.eventually("the refusal", lambda: status(machine)["monitoring"]["status"] == "Blocked", 60)
        publish(4, maxPods=67)
        fleet.eventually("maxPods", lambda: '"maxPods": 67' in machine.read(CONFIG), 60)
        bed.unpublish(f"{URL}.json")
        time.sleep(10)
        assert fleet.is_ready(fleet.node(bed, URL))
        bed.publish(f"{URL}.json", b'{"tombstone": true}')
        fleet.eventually("the leave", partial(following.has_left, machine), 120)
        unscale(machine)
        bed.unpublish(f"{URL}.json")

    def label(self, bed: Testbed, machine: Machine) -> str | None:
        labels = fleet.node(bed, machine.name)["metadata"]["labels"]
        return None if "site" not in labels else str(labels["site"])


class TestTimer:
    """The timer as it is installed: it ran while all other tests did."""

    def test_ten_polls_are_20_to_40_seconds_apart(self, bed: Testbed, timed: Follower) -> None:
        machine = timed.machine
        timed.polled(2, seconds=120)  # the first one records that the resource is there
        before, since = timed.written(), machine.run(["date", "+%F %T"]).stdout.strip()
        bed.azure.forget_requests()
        fleet.eventually("eleven polls", lambda: len(timed.polls()) >= 11, 480)
        assert apart(timed.polls()) == []
        assert timed.written() == before
        assert journal(machine, since).strip() == ""

    def test_after_a_reboot_too(self, bed: Testbed, timed: Follower) -> None:
        timed.machine.reboot()
        bed.azure.forget_requests()
        fleet.eventually("four polls", lambda: len(timed.polls()) >= 4, 240)
        assert apart(timed.polls()) == []
        enabled = timed.machine.run(["systemctl", "is-enabled", TIMER]).stdout.strip()
        assert enabled == "enabled"
        assert fleet.is_ready(fleet.node(bed, TIMED))


def apart(moments: Sequence[float]) -> list[float]:
    """Distances that are not those of the timer: 20 to 40 s, and what a busy machine adds to a poll."""
    distances = [round(later - earlier, 1) for earlier, later in pairwise(moments)]
    return [distance for distance in distances if not 19.5 <= distance <= 43]
