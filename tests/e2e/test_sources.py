# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration from Azure: host names and a cluster's resource id are enough for a Ready node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import Testbed
from testbed.azure import Fault
from testbed.machine import Machine
from tests.e2e import cloud, fleet
from tests.e2e.cloud import Operator
from tests.e2e.conftest import MachineMaker

STATE = "/var/lib/aks-flex-node"
CONTAINER = "flexnode-blob-1"


@pytest.fixture(scope="module")
def operator(bed: Testbed) -> Operator:
    return cloud.operator(bed, "operator", cloud.ROLE)


@pytest.fixture(autouse=True)
def _quiet(bed: Testbed) -> None:
    bed.azure.heal()
    bed.azure.forget_requests()


def on_node(machine: Machine, name: str) -> dict[str, Any]:
    """A file of the node's own state."""
    found: dict[str, Any] = json.loads(machine.read(f"{STATE}/{name}"))
    return found


def ready(bed: Testbed, name: str) -> bool:
    return fleet.is_ready(fleet.node(bed, name))


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, machines: MachineMaker) -> Machine:
    """The machine of a class of tests."""
    return machines((request.param, "debian12"))[0]


@pytest.fixture(scope="module")
def inventory(operator: Operator, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rp") / "hosts.yml"
    return operator.inventory(path, "rp", [machine], node={"labels": {"site": "rp"}})


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blob")


@pytest.mark.parametrize("machine", ["rp-1"], indirect=True)
class TestResourceProvider:
    """Source rp: a flexNodeConfig for each machine."""

    def test_check_mode_asks_and_writes_nothing(self, operator: Operator, inventory: Path) -> None:
        run = fleet.succeeded(operator.play("bootstrap", inventory, "--check", "--diff"))
        assert operator.calls("PUT", "/flexNodeConfig/rp-1") == 0
        assert operator.calls("POST", "/regenerateToken") == 0
        assert "This run would create the configuration of this machine" in run.output

    def test_one_command_and_the_node_is_ready(
        self, bed: Testbed, operator: Operator, machine: Machine, inventory: Path
    ) -> None:
        fleet.succeeded(operator.play("bootstrap", inventory))
        seen = fleet.node(bed, "rp-1")
        assert fleet.is_ready(seen)
        assert seen["metadata"]["labels"]["site"] == "rp"
        assert operator.calls("PUT", "/flexNodeConfig/rp-1") == 1

    def test_the_provider_ends_url_and_token(self, bed: Testbed, machine: Machine) -> None:
        token = on_node(machine, "current-config.json")["azure"]["bootstrapToken"]["token"]
        name = f"secret/bootstrap-token-{token.split('.')[0]}"
        fleet.eventually("end of the token", lambda: name not in cloud.token_names(bed))

    def test_nothing_differs_no_further_put(
        self, bed: Testbed, operator: Operator, machine: Machine, inventory: Path
    ) -> None:
        before = fleet.main_pids(machine)
        run = fleet.succeeded(operator.play("bootstrap", inventory))
        assert run.changed("rp-1") == 0, run.output
        assert operator.calls("PUT", "/flexNodeConfig/rp-1") == 0
        assert operator.calls("POST", "/regenerateToken") == 0
        assert fleet.main_pids(machine) == before

    def test_a_change_is_one_put_and_reaches_the_node(
        self, bed: Testbed, operator: Operator, machine: Machine, tmp_path: Path
    ) -> None:
        inventory = operator.inventory(
            tmp_path / "hosts.yml", "rp", [machine], node={"labels": {"site": "other"}}
        )
        fleet.succeeded(operator.play("bootstrap", inventory))
        assert operator.calls("PUT", "/flexNodeConfig/rp-1") == 1
        assert fleet.node(bed, "rp-1")["metadata"]["labels"]["site"] == "other"

    def test_the_list_shows_its_status(self, operator: Operator, inventory: Path) -> None:
        run = fleet.succeeded(
            operator.play("config_list", inventory, "-e", f"flexnode_cluster_id={self.cluster(inventory)}")
        )
        (line,) = [line for line in run.output.splitlines() if "rp-1" in line]
        assert "Succeeded" in line
        assert "yes" in line

    def cluster(self, inventory: Path) -> str:
        found: str = yaml.safe_load(inventory.read_text())["all"]["vars"]["flexnode_cluster_id"]
        return found

    def test_a_busy_azure_is_waited_for(
        self, bed: Testbed, operator: Operator, machine: Machine, tmp_path: Path
    ) -> None:
        """429 with Retry-After, a burst of 503, a connection that drops: the run finishes."""
        path = "/flexNodeConfig"
        bed.azure.fail(
            Fault(path=path, status=429, retry_after=2, times=2),
            Fault(path=path, status=503, times=2),
            Fault(path=path, drop=True, times=1),
        )
        inventory = operator.inventory(
            tmp_path / "hosts.yml", "rp", [machine], node={"labels": {"site": "busy"}}
        )
        fleet.succeeded(operator.play("bootstrap", inventory))
        assert ready(bed, "rp-1")
        asked = [request for request in bed.azure.requests() if path.lower() in request.path.lower()]
        refused = [request for request in asked if request.status == 429]
        assert len(refused) == 2
        for request in refused:
            following = min(other.time for other in asked if other.time > request.time)
            assert following - request.time >= 2, "Retry-After was not obeyed"

    def test_unbootstrap_and_delete(
        self, bed: Testbed, operator: Operator, machine: Machine, inventory: Path
    ) -> None:
        fleet.succeeded(operator.play("unbootstrap", inventory))
        assert "rp-1" not in fleet.node_names(bed)
        fleet.succeeded(operator.play("config_delete", inventory))
        run = fleet.succeeded(operator.play("config_delete", inventory))
        assert run.changed("localhost") == 0
        assert machine.run(["test", "-e", STATE], check=False).returncode != 0


def test_ten_hosts_cost_one_login_and_one_list(bed: Testbed, operator: Operator, tmp_path: Path) -> None:
    """The resources are made before any machine is touched, so ten names are enough."""
    names = [f"many-{number}" for number in range(10)]
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump(
            {
                "all": {
                    "hosts": {name: {"ansible_host": "192.0.2.1"} for name in names},
                    "vars": {"flexnode_config_source": "rp", "flexnode_cluster_id": bed.azure.cluster_id},
                }
            }
        )
    )
    fleet.succeeded(operator.play("config_put", inventory))
    requests = bed.azure.requests()
    logins = [request for request in requests if request.path.endswith("/oauth2/v2.0/token")]
    puts = [request for request in requests if request.method == "PUT"]
    print(f"10 hosts: {len(logins)} login, {len(requests)} calls, {len(puts)} of them PUT")
    assert len(logins) == 1
    assert len(puts) == 10
    assert len(requests) <= 10 + 5, [f"{request.method} {request.path}" for request in requests]

    bed.azure.forget_requests()
    run = fleet.succeeded(operator.play("config_put", inventory))
    requests = bed.azure.requests()
    assert run.changed("localhost") == 0
    assert [request.method for request in requests].count("PUT") == 0
    assert len(requests) <= 10 + 5  # the list shows no configuration: each is asked for
    fleet.succeeded(operator.play("config_delete", inventory))


def test_a_missing_permission_names_who_what_where_and_the_command(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    reader = cloud.operator(bed, "reader", "Reader")
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump(
            {
                "all": {
                    "hosts": {"nobody": {"ansible_host": "192.0.2.1"}},
                    "vars": {"flexnode_config_source": "rp", "flexnode_cluster_id": bed.azure.cluster_id},
                }
            }
        )
    )
    run = reader.play("bootstrap", inventory)
    assert run.status != 0
    assert reader.environment["AZURE_CLIENT_ID"] in run.output
    assert "Microsoft.ContainerService/managedClusters/flexNodeConfig/write" in run.output
    assert "az role assignment create" in run.output
    assert bed.azure.cluster_id.split("/")[-1] in run.output


class TestCluster:
    """Source cluster: today's AKS, a token minted for each join."""

    def mints(self, bed: Testbed, who: Operator, machine: Machine, directory: Path) -> None:
        """A machine joins with a token that is gone afterwards, and a second run changes nothing."""
        before = cloud.minted_tokens(bed)
        inventory = who.inventory(directory / f"{machine.name}.yml", "cluster", [machine])
        fleet.succeeded(who.play("bootstrap", inventory))
        assert ready(bed, machine.name)
        assert not cloud.minted_tokens(bed) - before, "the token outlived its join"
        pids = fleet.main_pids(machine)
        again = fleet.succeeded(who.play("bootstrap", inventory))
        assert again.changed(machine.name) == 0, again.output
        assert fleet.main_pids(machine) == pids

    @pytest.mark.smoke
    def test_by_the_admin_credential(
        self, bed: Testbed, operator: Operator, machines: MachineMaker, tmp_path: Path
    ) -> None:
        (machine,) = machines(("plain-1", "debian12"))
        self.mints(bed, operator, machine, tmp_path)

    def test_by_an_entra_token_where_local_accounts_are_disabled(
        self, bed: Testbed, machines: MachineMaker, tmp_path: Path
    ) -> None:
        entra = cloud.operator(bed, "entra", *cloud.ENTRA_ROLES)
        (machine,) = machines(("entra-1", "debian13"))
        bed.azure.settings(disable_local_accounts=True)
        try:
            self.mints(bed, entra, machine, tmp_path)
        finally:
            bed.azure.settings(disable_local_accounts=False)

    def test_bindings_that_are_missing_are_made_and_grant_little(self, bed: Testbed) -> None:
        roles = {
            (item["roleRef"]["name"], subject["name"])
            for item in json.loads(bed.cluster.kubectl("get", "clusterrolebindings", "--output=json"))[
                "items"
            ]
            for subject in item.get("subjects", ())
            if subject["name"] == "system:bootstrappers"
        }
        approve = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
        assert {role for role, _group in roles} == {"system:node-bootstrapper", approve}


@pytest.mark.parametrize("machine", ["blob-1"], indirect=True)
class TestBlob:
    """Source blob: the collection writes the bundle, the node follows it."""

    def bootstrap(self, operator: Operator, machine: Machine, directory: Path, site: str) -> None:
        inventory = operator.inventory(
            directory / "hosts.yml", "blob", [machine], node={"labels": {"site": site}}
        )
        fleet.succeeded(operator.play("bootstrap", inventory))

    def poll(self, machine: Machine, status: int = 0) -> str:
        done = machine.run(["aks-flex-node", "poll"], check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def test_ready_and_the_blob_keeps_no_token(
        self, bed: Testbed, operator: Operator, machine: Machine, directory: Path
    ) -> None:
        self.bootstrap(operator, machine, directory, "one")
        assert ready(bed, "blob-1")
        token = on_node(machine, "current-config.json")["azure"]["bootstrapToken"]["token"]
        assert token not in self.bundle(bed)
        assert f"secret/bootstrap-token-{token.split('.')[0]}" not in cloud.token_names(bed)

    def bundle(self, bed: Testbed) -> str:
        """What the blob holds."""
        return cloud.container(bed, CONTAINER).download_blob("config.json").readall().decode()

    def gets(self, bed: Testbed, machine: Machine) -> list[int]:
        """How the machine's requests for its blob ended."""
        return [
            request.status
            for request in bed.blob.requests()
            if request.client == machine.ip and request.path.endswith(f"{CONTAINER}/config.json")
        ]

    def test_a_changed_configuration_is_one_200_then_304s(
        self, bed: Testbed, operator: Operator, machine: Machine, directory: Path
    ) -> None:
        self.poll(machine)  # the bundle without its token
        before, written = len(self.gets(bed, machine)), self.written(machine)
        for _tick in range(3):
            assert self.poll(machine) == "nothing new\n"
        assert self.gets(bed, machine)[before:] == [304, 304, 304]
        assert self.written(machine) == written, "a tick without news wrote to the disk"
        self.write(operator, machine, directory, "two")
        for _tick in range(3):
            self.poll(machine)
        assert self.gets(bed, machine)[before + 3 :] == [200, 304, 304]
        assert fleet.node(bed, "blob-1")["metadata"]["labels"]["site"] == "two"

    def written(self, machine: Machine) -> str:
        """Time and inode of every file of the node's state."""
        return machine.run(["find", STATE, "-printf", "%p %T@ %i\\n"]).stdout

    def test_a_broken_document_is_refused_and_the_node_works_on(self, bed: Testbed, machine: Machine) -> None:
        bundle = json.loads(self.bundle(bed))
        bundle["config"]["node"]["maxPods"] = 0
        cloud.container(bed, CONTAINER).upload_blob("config.json", json.dumps(bundle), overwrite=True)
        assert "node.maxPods" in self.poll(machine, status=3)
        assert ready(bed, "blob-1")
        assert on_node(machine, "current-config.json")["node"]["labels"]["site"] == "two"

    def test_without_its_policy_the_address_is_refused_and_the_node_works_on(
        self, bed: Testbed, machine: Machine
    ) -> None:
        pids = fleet.main_pids(machine)
        cloud.container(bed, CONTAINER).set_container_access_policy(signed_identifiers={})
        assert "403" in self.poll(machine)
        assert ready(bed, "blob-1")
        assert fleet.main_pids(machine) == pids

    def test_a_tombstone_means_leave(
        self, bed: Testbed, operator: Operator, machine: Machine, directory: Path
    ) -> None:
        self.bootstrap(operator, machine, directory, "four")  # with an address that works again
        fleet.succeeded(operator.play("config_delete", directory / "hosts.yml"))
        self.poll(machine)
        fleet.eventually("end of the Node", lambda: "blob-1" not in fleet.node_names(bed), 120)
        fleet.eventually(
            "end of its state", lambda: machine.run(["test", "-e", STATE], check=False).returncode != 0
        )

    def write(self, operator: Operator, machine: Machine, directory: Path, site: str, **node: Any) -> None:
        """Only the blob: the node finds out by itself."""
        inventory = operator.inventory(
            directory / "hosts.yml", "blob", [machine], node={"labels": {"site": site}}
        )
        fleet.succeeded(operator.play("config_put", inventory))
