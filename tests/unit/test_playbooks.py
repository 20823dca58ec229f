# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks and roles as Ansible runs them, with modules that only write down what they are asked for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import arc_request
from tests.unit.controller.fleets import an_answer
from tests.unit.node.tunnels import SECRET_KEY, a_profile

ROOT = Path(__file__).parents[2]
CLUSTER = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
NO_TAINTS = {"taints": {"set": [], "remove": []}}
STUB = """#!/usr/bin/python
# WANT_JSON
import json, os, sys
with open(sys.argv[1]) as file:
    given = json.load(file)
given.pop("node_code", None)
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(["{name}", given]) + "\\n")
print('''{answer}''')
"""


@dataclass
class Stage:
    """A collection with the roles and playbooks of this one, and no module that does anything."""

    directory: Path
    status: int = 0
    output: str = ""
    verbosity: int = 0

    def answer(self, **answers: Any) -> None:
        """What modules return; arc_info says the same as arc_register, unless it is named."""
        if "arc_register" in answers:
            answers.setdefault("arc_info", answers["arc_register"])
        if "flexnode_reconcile" in answers:
            answers["flexnode_reconcile"] = {**NO_TAINTS, **answers["flexnode_reconcile"]}
        for name, answer in answers.items():
            text = STUB.replace("{name}", name).replace("{answer}", json.dumps(answer))
            (self.collection / "plugins/modules" / f"{name}.py").write_text(text)

    @property
    def collection(self) -> Path:
        return self.directory / "ansible_collections/aks/flexnode"

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Each module that was run, with its arguments."""
        log = self.directory / "calls"
        return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    def asked(self, module: str) -> list[list[str]]:
        """The names of the nodes in each call of a module."""
        return [
            given.get("names") or [node["name"] for node in given["nodes"]]
            for name, given in self.calls
            if name == module
        ]

    def play(
        self, playbook: str, hosts: dict[str, dict[str, Any]], *arguments: str, **variables: Any
    ) -> None:
        """Run a playbook of the collection, or one in a file, with arguments of the command line."""
        groups = variables.pop("groups", {})
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = self.directory / "hosts.yml"
        always = {**local, "ansible_become": False, **variables}
        inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": always, "children": groups}}))
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory),
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_VERBOSITY": str(self.verbosity),
            "CALLS": str(self.directory / "calls"),
        }
        command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), playbook, *arguments]
        done = subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False
        )
        self.status, self.output = done.returncode, done.stdout + done.stderr


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path)
    (made.collection / "plugins/modules").mkdir(parents=True)
    for part in (
        "galaxy.yml",
        "meta",
        "roles",
        "playbooks",
        "plugins/action",
        "plugins/filter",
        "plugins/module_utils",
        "plugins/plugin_utils",
    ):
        (made.collection / part).symlink_to(ROOT / part)
    made.answer(**{module.stem: {} for module in (ROOT / "plugins/modules").glob("*.py")})
    made.answer(arc_register={"installed": False}, flexnode_preflight_info={"ok": True, "table": []})
    return made


NAMED = ("-e", "flexnode_hosts=all", "-e", "flexnode_serial=100%")


def hosts(*names: str, source: str) -> dict[str, dict[str, Any]]:
    return {name: {"flexnode_config_source": source, "flexnode_cluster_id": CLUSTER} for name in names}


def test_what_had_to_stay_keeps_nothing_from_being_cleaned_up(stage: Stage) -> None:
    left = {"remains": ["file:/etc/x: someone changed it"], "node_name": "gone", "node_remains": "refused"}
    stage.answer(
        flexnode_reconcile={"changed": True, **left},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b"]], stage.output
    assert stage.asked("flexnode_node") == [["gone"]] * 2
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(
            rf"fatal: \[{host}\].*has left the cluster, but this remains:.*changed it", stage.output
        )


def test_trouble_in_azure_arc_keeps_nothing_from_being_cleaned_up(stage: Stage) -> None:
    stage.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"},
        arc_register={"failed": True, "msg": "FLEX-1814: azcmagent show gives no answer"},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b"]], stage.output
    assert stage.asked("flexnode_node") == [["gone"]] * 2
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(rf"fatal: \[{host}\].*this remains:.*in Azure Arc: FLEX-1814", stage.output)


def test_nodes_that_nobody_could_delete_are_named(stage: Stage) -> None:
    left = {"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"}
    stage.answer(flexnode_reconcile=left)
    stage.play("aks.flexnode.unbootstrap", hosts("a", source="inline"), *NAMED)
    assert stage.status != 0
    assert "set flexnode_kubeconfig, or type: kubectl delete node gone" in " ".join(stage.output.split())
    assert "Node gone" in stage.output


def test_machines_that_left_nothing_behind_are_fine(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": True, "remains": [], "node_name": "a", "node_remains": ""})
    stage.play("aks.flexnode.unbootstrap", hosts("a", source="inline"), *NAMED)
    assert stage.status == 0, stage.output


def test_only_machines_with_a_flexnodeconfig_get_new_tokens(stage: Stage) -> None:
    stage.answer(flexnode_token={"nodes": []})
    fleet = {name: hosts(name, source=name)[name] for name in ("rp", "url", "cluster", "blob", "inline")}
    stage.play("aks.flexnode.config_tokens", fleet)
    assert stage.asked("flexnode_token") == [["rp", "url"]], stage.output


@pytest.mark.parametrize("entry", ["joined", "delete"])
def test_why_storage_failed_is_told_though_its_addresses_are_not(stage: Stage, entry: str) -> None:
    stage.answer(
        flexnode_bootstrap_token={"nodes": []},
        flexnode_config_blob={"failed": True, "msg": "FLEX-1708: the storage account refuses this"},
    )
    book = stage.directory / "book.yml"
    role = {"name": "aks.flexnode.source", "tasks_from": entry}
    task = {"name": "Run it", "ansible.builtin.import_role": role}
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    stage.play(str(book), hosts("a", source="blob"))
    assert stage.status != 0
    assert re.search("fatal: .*FLEX-1708", stage.output)


def test_a_batch_resolves_its_own_machines(stage: Stage) -> None:
    stage.answer(flexnode_config={"nodes": []})
    book = stage.directory / "book.yml"
    play = {"hosts": "all", "gather_facts": False, "serial": 1, "roles": ["aks.flexnode.source"]}
    book.write_text(yaml.safe_dump([play]))
    stage.play(str(book), hosts("a", "b", source="rp"))
    assert stage.asked("flexnode_config") == [["a"], ["b"]], stage.output


def test_the_vpn_of_a_machine_comes_before_its_join(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    vpn = {"azure": {"vpn": {"enabled": True, "profile": a_profile()}}}
    stage.play("aks.flexnode.bootstrap", {"a": {"flexnode_config": vpn}, "b": {}})
    calls = [given for name, given in stage.calls if name == "flexnode_reconcile"]
    assert [given.get("components") for given in calls] == [["vpn"], None, None], stage.output
    assert calls[0]["preflight"] is True
    assert SECRET_KEY not in stage.output


GROUP = CLUSTER.partition("/providers/")[0].replace("/s/", "/12345678-1234-1234-1234-123456789abc/")
IN_ARC = {
    "changed": False,
    "installed": True,
    "resource_id": f"{GROUP}/providers/Microsoft.HybridCompute/machines/edge",
    "principal_id": "",
    "registered_by_us": True,
    "vm_id": "v1",
    "missing_roles": [{"kind": "kubernetes", "role": "system:node-bootstrapper", "command": "kubectl ..."}],
}
AKS = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/plant"


def arc_hosts(*names: str, source: str = "inline", **of_arc: Any) -> dict[str, dict[str, Any]]:
    azure = {"arc": {"enabled": True, **of_arc}, "targetCluster": {"location": "westeurope"}}
    return {
        name: {
            "flexnode_config_source": source,
            "flexnode_cluster_id": AKS,
            "flexnode_config_url": "https://example.com/bundle",
            "flexnode_config": {"azure": azure},
        }
        for name in names
    }


REFUSED = {"failed": True, "msg": "FLEX-1701: nobody is signed in", "error": {"code": "FLEX-1701"}}


@pytest.mark.parametrize("module", ["flexnode_role_assignment", "flexnode_arc_machine"])
def test_what_is_refused_once_is_told_of_each_machine_and_stops_none(stage: Stage, module: str) -> None:
    stage.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"},
        arc_register=IN_ARC,
        flexnode_role_assignment={"assignments": []},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.answer(**{module: REFUSED})
    fleet = arc_hosts("a", "b", "c", source="blob", autoRoleAssignment=True)
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b", "c"]], stage.output
    assert stage.asked("flexnode_node") == [["gone"]] * 3
    for host in ("a", "b", "c"):
        assert re.search(rf"fatal: \[{host}\].*this remains:.*in Azure Arc: FLEX-1701", stage.output)
    assert stage.status != 0


@pytest.mark.parametrize("module", ["flexnode_role_assignment", "flexnode_arc_machine"])
def test_role_arc_alone_fails_with_the_reason(stage: Stage, module: str) -> None:
    stage.answer(**{"arc_register": IN_ARC, "flexnode_role_assignment": {"assignments": []}, module: REFUSED})
    book = stage.directory / "book.yml"
    task = {"ansible.builtin.import_role": {"name": "aks.flexnode.arc", "tasks_from": "absent"}}
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    stage.play(str(book), arc_hosts("a", "b"))
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(rf"fatal: \[{host}\].*FLEX-1701", stage.output), stage.output
    gave_back = [
        given for name, given in stage.calls if name == "arc_register" and given["state"] == "absent"
    ]
    assert gave_back == []


def joins(stage: Stage, fleet: dict[str, dict[str, Any]], **variables: Any) -> None:
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0, **variables)
    assert stage.status == 0, stage.output


LIE = {
    "azure": {
        "arc": {
            "enabled": True,
            "autoRoleAssignment": True,
            "resourceGroup": "other",
            "machineName": "other",
        },
        "targetCluster": {"resourceId": f"{AKS}-2", "location": "westeurope"},
        "tenantId": "t",
    },
    "kubernetesAuth": {"profile": "token"},
}


@pytest.mark.parametrize("source", ["inline", "url"])
def test_what_a_machine_returns_gives_it_no_rights(stage: Stage, source: str) -> None:
    other = IN_ARC["resource_id"].replace("/rg/", "/other/").replace("edge", "other")
    stage.answer(
        arc_register={**IN_ARC, "resource_id": other},
        flexnode_config_fetch={"config": LIE, "arc": arc_request(LIE)},
    )
    joins(stage, arc_hosts("a", source=source))
    names = [name for name, _given in stage.calls]
    assert "arc_register" in names
    assert not {"flexnode_role_assignment", "flexnode_identity_binding"} & set(names)
    (registered,) = [given for name, given in stage.calls if name == "arc_register" and "cloud" in given]
    assert registered["resource_group"] == ("other" if source == "url" else "rg")


def test_a_configuration_url_gives_what_the_inventory_says(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": LIE, "arc": arc_request(LIE)})
    joins(stage, arc_hosts("a", source="url", autoRoleAssignment=True))
    bound = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    assert [(one.get("state", ""), one["nodes"][0]["cluster_id"]) for one in bound] == [
        ("", AKS),
        ("absent", AKS),
    ]
    roles = [given["nodes"] for name, given in stage.calls if name == "flexnode_role_assignment"]
    assert all(set(node["roles"]) and node["cluster_id"] == AKS for nodes in roles for node in nodes)
    assert len(roles) == 1, "those of a kubelet with tokens are surplus, and were not given"


def test_a_configuration_is_not_stored_before_preflight(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    joins(stage, arc_hosts("a"))
    fetched = [given for name, given in stage.calls if name == "flexnode_config_fetch"]
    assert [given["_ansible_check_mode"] for given in fetched] == [True]


@pytest.mark.parametrize(("changed", "logins"), [(True, 1), (False, 0)])
def test_a_right_of_an_earlier_run_is_taken_back_by_the_join(
    stage: Stage, changed: bool, logins: int
) -> None:
    """The earlier run gave it and failed; this one finds it there. An unchanged one needs no login."""
    stage.answer(arc_register={**IN_ARC, "missing_roles": []}, flexnode_config_fetch={"config": {}})
    stage.answer(flexnode_reconcile={"changed": changed})
    joins(stage, arc_hosts("a", "b", autoRoleAssignment=True), flexnode_arc_kubeconfig="/admin")
    calls = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    assert [(given["state"], given["kubeconfig"]) for given in calls] == [("absent", "/admin")] * logins


def test_the_kubeconfig_that_deletes_nodes_binds_nobody(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    joins(stage, arc_hosts("a", autoRoleAssignment=True), flexnode_kubeconfig="/k")
    calls = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    assert len(calls) == 2
    assert all("kubeconfig" not in given for given in calls)


@pytest.mark.parametrize("source", ["inline", "url"])
def test_the_password_of_a_proxy_is_in_no_output(stage: Stage, source: str) -> None:
    shown = {"azure": LIE["azure"], "proxy": {"https": "<minted at apply>"}}
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": shown, "arc": arc_request(shown)})
    fleet = arc_hosts("a", source=source)
    if source == "inline":
        fleet["a"]["flexnode_config"]["proxy"] = {"https": "http://user:pw-very-secret@proxy:3128"}
    stage.verbosity = 2
    joins(stage, fleet)
    assert "pw-very-secret" not in stage.output
    told = [given.get("proxy") for name, given in stage.calls if name == "arc_register" and "cloud" in given]
    assert told == (["http://user:pw-very-secret@proxy:3128"] if source == "inline" else [None])


def test_who_reads_a_cluster_need_not_be_its_administrator_where_nobody_wants_a_token(stage: Stage) -> None:
    stage.answer(
        arc_register=IN_ARC,
        flexnode_cluster_info={"clusters": []},
        flexnode_bootstrap_token={"failed": True, "msg": "FLEX-1702: not allowed"},
        flexnode_config_fetch={"config": {}},
    )
    joins(stage, arc_hosts("a", source="cluster"))
    assert re.search(r"were not\s+checked: FLEX-1702", stage.output)
    stage.play("aks.flexnode.bootstrap", {**arc_hosts("a", source="cluster"), **hosts("b", source="cluster")})
    assert stage.status != 0
    assert re.search("fatal: .*FLEX-1702", stage.output)
    (nodes,) = [given["nodes"] for name, given in stage.calls if name == "flexnode_bootstrap_token"][1:]
    assert [(node["name"], node["token"]) for node in nodes] == [("a", False), ("b", True)]


# --- which machines a playbook acts on --------------------------------------------------------------------

LEFT = {"changed": True, "remains": [], "node_name": "x", "node_remains": ""}
FLEET = {"edge-1": {}, "edge-2": {}, "other-1": {}}
GROUPED = {"aks_flexnode": {"hosts": {"edge-1": {}, "edge-2": {}}}}


def touched(stage: Stage) -> int:
    return len([name for name, _params in stage.calls if name == "flexnode_reconcile"])


BLANK: list[tuple[str, ...]] = [(), ("--limit", ""), ("-e", "flexnode_hosts=")]


@pytest.mark.parametrize("named", BLANK, ids=["nothing", "empty-limit", "empty-variable"])
@pytest.mark.parametrize("playbook", ["unbootstrap", "config_delete"])
def test_what_destroys_stops_without_named_machines_and_shows_the_line_to_type(
    stage: Stage, playbook: str, named: tuple[str, ...]
) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.play(f"aks.flexnode.{playbook}", FLEET, *named)
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    assert f"ansible-playbook -i INVENTORY aks.flexnode.{playbook} --limit HOST" in said
    assert (
        f"aks.flexnode.{playbook} -e flexnode_hosts=HOST1,GROUP1 in AWX: set Limit in the job template"
        in said
    )
    assert "This run changed nothing. fix: name the machines" in said
    assert "FLEX-1108" in said
    configs = playbook == "config_delete"
    act = "delete the configuration of 3 machines" if configs else "remove 3 machines from the cluster"
    assert f"this run would {act}: edge-1, edge-2, other-1" in said


@pytest.mark.parametrize("named", [("--limit", "!edge-1"), ("-e", "flexnode_hosts=!edge-1:!edge-2")])
def test_a_pattern_that_only_leaves_machines_out_names_none(stage: Stage, named: tuple[str, str]) -> None:
    """Ansible takes it as all the others, which nobody typed."""
    stage.answer(flexnode_reconcile=LEFT)
    stage.play("aks.flexnode.unbootstrap", FLEET, *named)
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    assert "FLEX-1108" in said
    assert "only leaves machines out: with it this run would remove" in said


@pytest.mark.parametrize(
    ("playbook", "pattern"),
    [
        ("unbootstrap", "aks_flexnode:!ring_canry"),
        ("unbootstrap", "all:!~egde-[0-9]+"),
        ("bootstrap", "all:!edge-1:!edge-9"),
    ],
)
def test_a_name_typed_wrong_after_an_exclamation_mark_reaches_no_machine(
    stage: Stage, playbook: str, pattern: str
) -> None:
    """Ansible only warns, and acts on the machine that was meant to be left out."""
    stage.answer(flexnode_reconcile=LEFT)
    stage.play(f"aks.flexnode.{playbook}", FLEET, "--limit", pattern, groups=GROUPED)
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    wrong = pattern.rpartition("!")[2]
    assert f"!{wrong} leaves out nothing: the inventory has no machine or group {wrong}" in said
    assert "FLEX-1106" in said


def test_machines_are_left_out_where_the_name_is_right(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.play("aks.flexnode.unbootstrap", FLEET, "-e", "flexnode_hosts=all:!edge*", "--limit", "all:!edge-1")
    assert stage.status == 0, stage.output
    assert touched(stage) == 1


@pytest.mark.parametrize("named", [("--limit", "edge-1"), ("-e", "flexnode_hosts=edge-1")])
def test_what_destroys_touches_only_the_named_machine(stage: Stage, named: tuple[str, str]) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.play("aks.flexnode.unbootstrap", FLEET, *named)
    assert stage.status == 0, stage.output
    assert touched(stage) == 1
    assert "other-1" not in stage.output


@pytest.mark.parametrize("playbook", ["unbootstrap", "bootstrap"])
@pytest.mark.parametrize("name", ["edge-1", "all"])
def test_a_name_in_the_inventory_is_no_name_on_the_command_line(
    stage: Stage, playbook: str, name: str
) -> None:
    """A play can't see a variable of its hosts: it would act on all of them."""
    stage.answer(flexnode_reconcile=LEFT)
    stage.play(f"aks.flexnode.{playbook}", FLEET, flexnode_hosts=name)
    assert stage.status != 0
    assert stage.calls == []


def test_machines_may_be_named_where_the_playbook_is_imported(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    book = stage.directory / "book.yml"
    imported = {"import_playbook": "aks.flexnode.unbootstrap", "vars": {"flexnode_hosts": "edge-2"}}
    book.write_text(yaml.safe_dump([imported]))
    stage.play(str(book), FLEET)
    assert stage.status == 0, stage.output
    assert touched(stage) == 1


def test_the_group_aks_flexnode_is_the_default_target(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", FLEET, groups=GROUPED)
    assert stage.status == 0, stage.output
    assert touched(stage) == 2
    assert "other-1" not in stage.output


STAYS = {"changed": True, "remains": [], "node_name": "x", "node_remains": "refused"}
# Answers by machine: the document that it gets says which one it is.
FAILS_ON_B = """#!/usr/bin/python
# WANT_JSON
import json, os, sys
given = json.load(open(sys.argv[1]))
given.pop("node_code", None)
host = given["_ansible_remote_tmp"].rpartition("/")[2]
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(["flexnode_reconcile", {"host": host, **given}]) + "\\n")
fine = {"changed": True, "remains": [], "node_name": host, "node_remains": "refused"}
print(json.dumps({"failed": True, "msg": "FLEX-1309: in use"} if host == "b" else fine))
"""


def failing_on_b(stage: Stage) -> dict[str, dict[str, Any]]:
    (stage.collection / "plugins/modules/flexnode_reconcile.py").write_text(FAILS_ON_B)
    return {
        name: {"ansible_remote_tmp": str(stage.directory / "tmp" / name)} for name in ("a", "b", "c", "d")
    }


def test_a_machine_that_fails_lets_its_batch_finish_and_stops_the_next(stage: Stage) -> None:
    """The others of the batch have left: their Nodes must go, and what remains must be said."""
    fleet = failing_on_b(stage)
    stage.answer(flexnode_node={"changed": True})
    options = ("-e", "flexnode_hosts=all", "-e", "flexnode_serial=3")
    stage.play("aks.flexnode.unbootstrap", fleet, *options, flexnode_kubeconfig="/k")
    assert stage.status != 0
    assert touched(stage) == 3, stage.output
    assert sorted(names for (names,) in stage.asked("flexnode_node")) == ["a", "c"]
    assert re.search(r"fatal: \[b\].*could not leave the cluster:.*FLEX-1309", stage.output)
    assert "a  removed from the cluster: Node deleted, 0 changes on the machine undone" in stage.output


@pytest.mark.parametrize(
    ("left", "arguments", "sentence"),
    [
        (
            {"changed": True, "node_name": "x", "actions": ["stop kubelet", "delete Node x"]},
            (),
            "x  removed from the cluster: Node deleted, all 2 changes on the machine undone",
        ),
        (  # a second run, after the first was interrupted: the Node may have been deleted then
            {"changed": True, "node_name": "x", "actions": ["stop kubelet"]},
            (),
            "x  no Node to delete, 1 change on the machine undone",
        ),
        (
            {"changed": True, "node_name": "", "actions": ["restored file:/etc/x"]},
            (),
            "edge-1  was not joined: 1 change on the machine undone",
        ),
        (
            {"changed": True, "node_name": "", "actions": ["leave the cluster"]},
            ("--check",),
            "edge-1  would leave the cluster and undo 1 change on the machine",
        ),
        ({"changed": False}, (), "edge-1  not a node of a cluster, nothing to do"),
    ],
    ids=["done", "again", "never joined", "check mode", "nothing to do"],
)
def test_the_result_of_leaving_says_only_what_is_true(
    stage: Stage, left: dict[str, Any], arguments: tuple[str, ...], sentence: str
) -> None:
    stage.answer(flexnode_reconcile={"remains": [], "node_remains": "", **left})
    stage.play("aks.flexnode.unbootstrap", {"edge-1": {}}, "--limit", "edge-1", *arguments)
    assert stage.status == 0, stage.output
    assert sentence in stage.output
    assert "Check the inventory and get each machine's configuration]" in stage.output


def test_what_can_not_be_deleted_is_told_with_everything_else(stage: Stage) -> None:
    stage.answer(
        flexnode_reconcile={**STAYS, "remains": ["file:/etc/x: changed"]},
        flexnode_config_blob={"failed": True, "msg": "FLEX-1705: no answer of storage"},
        flexnode_node={"failed": True, "msg": "FLEX-1504: no answer of the API server"},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.status != 0
    for host in ("a", "b"):
        said = re.search(rf"fatal: \[{host}\].*this remains:.*", stage.output)
        assert said, stage.output
        for part in ("file:/etc/x: changed", "FLEX-1705", "FLEX-1504"):
            assert part in said[0]


def test_each_machine_has_the_kubeconfig_of_its_cluster(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=STAYS, flexnode_node={"changed": True})
    fleet = {"east": {"flexnode_kubeconfig": "/east"}, "west": {}, "north": {"flexnode_kubeconfig": "/north"}}
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    used = sorted(params["kubeconfig"] for name, params in stage.calls if name == "flexnode_node")
    assert used == ["/east", "/north"]
    assert re.search(r"fatal: \[west\].*set flexnode_kubeconfig", stage.output)


# --- who gets the token of the controller -------------------------------------------------------------------


def test_a_url_that_asks_for_arc_gets_no_token_of_the_controller(stage: Stage) -> None:
    unregistered = {**IN_ARC, "resource_id": "", "registered_by_us": False}
    document = {"azure": {"arc": {"enabled": True}}}
    stage.answer(
        arc_info=unregistered,
        flexnode_config_fetch={"config": document, "arc": arc_request(document)},
        flexnode_access_token={"access_token": "controllers-own"},
    )
    fleet = {"a": {"flexnode_config_source": "url", "flexnode_config_url": "https://x"}}
    stage.play("aks.flexnode.bootstrap", fleet)
    assert stage.status != 0
    assert "Set azure.arc in flexnode_config" in stage.output
    assert not {"flexnode_access_token", "arc_register"} & {name for name, _params in stage.calls}


UNREGISTERED = {**IN_ARC, "resource_id": "", "registered_by_us": False}
ONBOARDING = {
    "flexnode_arc_onboarding_client_id": "0nb0arding",
    "flexnode_arc_onboarding_client_secret": "s3cret-of-onboarding",
}


def registers(stage: Stage, fleet: dict[str, dict[str, Any]], *options: str, **variables: Any) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    stage.answer(arc_info=UNREGISTERED, flexnode_access_token={"access_token": "an-access-token"})
    stage.play("aks.flexnode.bootstrap", fleet, *options, flexnode_arc_wait_seconds=0, **variables)


def logins(stage: Stage) -> list[tuple[str, str]]:
    asked = [given for name, given in stage.calls if name == "flexnode_access_token"]
    return [(given.get("auth_source", ""), given.get("client_id", "")) for given in asked]


def given_tokens(stage: Stage) -> list[str]:
    found = [given for name, given in stage.calls if name == "arc_register"]
    return [given.get("access_token", "") for given in found]


def test_a_machine_registers_with_a_service_principal_that_can_do_only_that(stage: Stage) -> None:
    stage.verbosity = 3
    registers(stage, arc_hosts("a", "b"), **ONBOARDING)
    assert stage.status == 0, stage.output
    assert logins(stage) == [("module", "0nb0arding")] * 2
    assert given_tokens(stage) == ["an-access-token"] * 2
    for secret in ("s3cret-of-onboarding", "an-access-token"):
        assert secret not in stage.output


def test_the_controllers_own_token_is_lent_only_if_the_user_says_so(stage: Stage) -> None:
    registers(stage, arc_hosts("a"))
    assert stage.status != 0
    assert "flexnode_arc_onboarding_client_id" in stage.output
    assert "flexnode_arc_lend_token" in stage.output
    assert (logins(stage), given_tokens(stage)) == ([], [])


def test_it_is_lent_where_the_user_says_so(stage: Stage) -> None:
    """Obtained once; a machine of the same run with a service principal of its own gets that one's."""
    fleet = arc_hosts("a", "b", "c")
    fleet["a"].update(ONBOARDING)
    fleet["b"]["flexnode_arc_lend_token"] = fleet["c"]["flexnode_arc_lend_token"] = True
    registers(stage, fleet)
    assert stage.status == 0, stage.output
    assert logins(stage) == [("module", "0nb0arding"), ("", "")]


def test_it_is_lent_to_nobody_else(stage: Stage) -> None:
    fleet = arc_hosts("a", "b")
    fleet["a"]["flexnode_arc_lend_token"] = True
    registers(stage, fleet)
    assert re.search(r"fatal: \[b\].*flexnode_arc_lend_token", stage.output)
    assert given_tokens(stage) == ["an-access-token"]


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"flexnode_arc_onboarding_client_id": "c"}, "secret or certificate is missing"),
        ({"flexnode_arc_onboarding_client_secret": "s3cret"}, "client_id is missing"),
        ({**ONBOARDING, "flexnode_arc_onboarding_certificate": "/c.pem"}, "is set too"),
        ({**ONBOARDING, "flexnode_arc_lend_token": "yes"}, "is set too"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_asked(
    stage: Stage, variables: dict[str, Any], what: str
) -> None:
    registers(stage, arc_hosts("a"), **variables)
    assert stage.status != 0
    assert what in stage.output
    assert "s3cret" not in stage.output
    assert stage.calls == []


def test_check_mode_signs_in_nowhere(stage: Stage) -> None:
    registers(stage, arc_hosts("a"), "--check", **ONBOARDING)
    assert (stage.status, logins(stage)) == (0, []), stage.output


def test_a_registered_machine_needs_no_login(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    joins(stage, arc_hosts("a"))
    assert (logins(stage), given_tokens(stage)) == ([], [""])


def deleted(*hosts_: str, action: str = "deleted") -> dict[str, Any]:
    return {
        "machines": [{"name": host, "machine_id": "/m", "action": action, "reason": "r"} for host in hosts_]
    }


def test_the_controller_deletes_a_registration_and_the_machine_gets_no_token(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_register={**IN_ARC, "remains": ["/m: delete it in Azure"]})
    stage.answer(flexnode_arc_machine=deleted("a", "b"))
    stage.play("aks.flexnode.unbootstrap", arc_hosts("a", "b"), *NAMED)
    assert stage.status == 0, stage.output
    (asked,) = [given["machines"] for name, given in stage.calls if name == "flexnode_arc_machine"]
    assert asked == [{"name": host, "machine_id": IN_ARC["resource_id"], "vm_id": "v1"} for host in "ab"]
    gone = [given for name, given in stage.calls if name == "arc_register"]
    assert [(given["local_only"], given.get("access_token")) for given in gone] == [(True, None)] * 2
    assert "delete it in Azure" not in stage.output


@pytest.mark.parametrize("action", ["kept", "failed"])
def test_a_registration_that_stays_is_told_of_its_machine_alone(stage: Stage, action: str) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_register=IN_ARC)
    answers = [*deleted("a")["machines"], *deleted("b", action=action)["machines"]]
    stage.answer(flexnode_arc_machine={"failed": action == "failed", "msg": "all", "machines": answers})
    stage.play("aks.flexnode.unbootstrap", arc_hosts("a", "b"), *NAMED)
    assert re.search(r"fatal: \[b\].*registration /m was not deleted: r", stage.output), stage.output
    assert not re.search(r"fatal: \[a\]", stage.output)


def test_a_leaving_machine_deletes_nothing_by_its_own_word(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_info=IN_ARC)
    stage.play("aks.flexnode.unbootstrap", {"a": {}}, *NAMED)
    assert not [params for name, params in stage.calls if name == "flexnode_arc_machine"]
    (left,) = [params for name, params in stage.calls if name == "arc_register"]
    assert left["local_only"] is True


def test_one_machine_that_names_another_stops_no_other(stage: Stage) -> None:
    stage.answer(arc_info=IN_ARC, arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    fleet = arc_hosts("a", autoRoleAssignment=True)
    fleet["b"] = arc_hosts("b", autoRoleAssignment=True, machineName="another")["b"]
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0)
    assert re.search(r"fatal: \[b\].*not the machine of the inventory", stage.output), stage.output
    assert [params for name, params in stage.calls if name == "flexnode_reconcile"], "a joins"


# --- variables, wherever they are set ----------------------------------------------------------------------


def test_variables_of_a_play_count(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    book = stage.directory / "book.yml"
    variables = {"flexnode_config": {"node": {"maxPods": 17}}}
    play = {"hosts": "all", "gather_facts": False, "vars": variables, "roles": ["aks.flexnode.node"]}
    book.write_text(yaml.safe_dump([play]))
    stage.play(str(book), {"a": {}})
    (params,) = [params for name, params in stage.calls if name == "flexnode_reconcile"]
    assert json.loads(params["document"]) == {"node": {"maxPods": 17}}, stage.output


def test_a_template_that_lacks_something_names_its_host(stage: Stage) -> None:
    labels = {"flexnode_config": {"node": {"labels": {"site": "{{ site }}"}}}}
    stage.play("aks.flexnode.bootstrap", {"a": {**labels, "site": "lab"}, "b": labels})
    assert stage.status != 0
    assert stage.calls == []
    said = " ".join(stage.output.replace("\\n", " ").split())
    assert " b: flexnode_config can't be evaluated: 'site' is undefined" in said


def test_a_broken_file_is_named_by_line_and_not_quoted(stage: Stage) -> None:
    (stage.directory / "node.yml").write_text(
        "azure:\n  servicePrincipal:\n    clientSecret: hunter2: TOPSECRET\n"
    )
    stage.play("aks.flexnode.bootstrap", {"a": {"flexnode_config_file": "node.yml"}})
    assert stage.status != 0
    assert "line 3, column 26" in stage.output
    assert "TOPSECRET" not in stage.output


def test_sources_are_not_asked_once_per_machine(stage: Stage) -> None:
    book = stage.directory / "book.yml"
    play = {"hosts": "all", "gather_facts": False, "strategy": "free", "roles": ["aks.flexnode.node"]}
    book.write_text(yaml.safe_dump([play]))
    stage.play(str(book), hosts("a", "b", source="rp"))
    assert stage.status != 0
    assert "strategy free would ask the sources again" in stage.output
    assert stage.calls == []


def test_each_blob_goes_to_the_account_of_its_machine(stage: Stage) -> None:
    stage.answer(flexnode_config_blob={"nodes": []})
    fleet = hosts("a", "b", source="blob")
    fleet["a"] |= {"flexnode_blob_account_url": "https://one", "flexnode_cluster_id": ""}
    fleet["b"] |= {"flexnode_blob_account_url": "https://two", "flexnode_cluster_id": ""}
    stage.play("aks.flexnode.config_put", fleet)
    used = [
        (p["account_url"], [n["name"] for n in p["nodes"]])
        for m, p in stage.calls
        if m == "flexnode_config_blob"
    ]
    assert used == [("https://one", ["a"]), ("https://two", ["b"])], stage.output


# --- what a newcomer types wrong ----------------------------------------------------------------------------


def test_an_unknown_source_is_named_with_the_known_ones(stage: Stage) -> None:
    stage.play("aks.flexnode.bootstrap", hosts("a", source="clutser"))
    assert stage.status != 0
    said = " ".join(stage.output.split())
    assert "is not one of inline, url, rp, cluster, blob, machines" in said
    assert "use flexnode_config_source: cluster" in said
    assert "Error while evaluating" not in stage.output


def test_a_mistyped_variable_is_warned_about(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", {"a": {}}, flexnode_confg={"node": {}})
    assert stage.status == 0, stage.output
    assert "did you mean flexnode_config?" in " ".join(stage.output.split())


@pytest.mark.parametrize(
    "inventory",
    [{"flexnode_config": {"node": {"maxPods": 30, "labels": {"site": "x"}}, "cni": {"mode": "none"}}}, {}],
)
def test_an_extra_variable_that_replaces_a_value_of_the_inventory_is_warned_about(
    stage: Stage, inventory: dict[str, Any]
) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    extra = ("-e", json.dumps({"flexnode_config": {"node": {"maxPods": 50}}}))
    stage.play("aks.flexnode.bootstrap", {"a": {}, "b": inventory}, *extra)
    assert stage.status == 0, stage.output
    output = " ".join(stage.output.split())
    warned = "b: -e flexnode_config replaces flexnode_config of the inventory completely" in output
    assert warned == bool(inventory), stage.output
    ignored = "so these settings are ignored in this run: cni, node.labels. To change" in output
    assert ignored == bool(inventory), stage.output


def test_a_cluster_that_can_not_be_read_says_that_nothing_was_changed(stage: Stage) -> None:
    stage.answer(flexnode_cluster_info={"failed": True, "msg": "FLEX-1703: not found"})
    stage.play("aks.flexnode.bootstrap", hosts("a", source="cluster"))
    assert stage.status != 0
    assert re.search(r"FLEX-1703: not found(\n|\\n)\s*This run changed nothing\.", stage.output)
    assert "Check the inventory and get each machine's configuration]" in stage.output


@pytest.mark.parametrize("playbook", ["config_put", "config_tokens"])
def test_a_run_without_a_usable_source_is_an_error(stage: Stage, playbook: str) -> None:
    stage.play(f"aks.flexnode.{playbook}", {"a": {}})
    assert stage.status != 0
    assert "FLEX-1107: this needs machines with flexnode_config_source rp" in " ".join(stage.output.split())


def test_a_relative_url_directory_is_created_before_azure_is_asked(stage: Stage) -> None:
    written = [{"name": "a", "config_url": "https://x/1?sig=s3cret", "action": "created"}]
    stage.answer(flexnode_config={"changed": True, "nodes": written, "actions": ["create a"]})
    stage.play("aks.flexnode.config_put", hosts("a", source="rp"), flexnode_url_directory="urls/new")
    assert stage.status == 0, stage.output
    file = stage.directory / "urls/new/a.url"
    assert file.read_text() == "https://x/1?sig=s3cret\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in stage.output


def test_a_url_directory_that_cannot_be_made_costs_nothing_in_azure(stage: Stage) -> None:
    (stage.directory / "file").write_text("")
    stage.play("aks.flexnode.config_put", hosts("a", source="rp"), flexnode_url_directory="file/urls")
    assert stage.status != 0
    assert stage.calls == []
    assert "flexnode_url_directory can't be created" in stage.output


def test_a_relative_configuration_file_is_found_beside_the_inventory(stage: Stage) -> None:
    (stage.directory / "node.yml").write_text("node: {maxPods: 17}\n")
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", {"a": {"flexnode_config_file": "node.yml"}})
    (params,) = [params for name, params in stage.calls if name == "flexnode_reconcile"]
    assert json.loads(params["document"]) == {"node": {"maxPods": 17}}


OWN = {
    "config_file": "/theirs",
    "config_source": "theirs",
    "source": {"a": 1},
    "node": "theirs",
    "arc_order": {"enabled": True},
    "proof_nodes": ["theirs"],
    "preflight_source": "theirs",
    "config_documents": [],
}


@pytest.mark.parametrize("playbook", ["bootstrap", "preflight", "prepare", "status", "unbootstrap"])
def test_variables_of_the_users_own_harm_nothing(stage: Stage, playbook: str) -> None:
    checked = {"name": "a", "node_name": "a", "cluster_id": "", "summary": "fine"}
    stage.answer(
        flexnode_reconcile={"changed": False, "remains": [], "node_name": "a", "node_remains": ""},
        flexnode_config_fetch={"config": {}, "operation": "o"},
        flexnode_preflight_info={"ok": True, "table": [], **checked},
        flexnode_status_info=an_answer("a"),
    )
    stage.play(f"aks.flexnode.{playbook}", {"a": OWN}, "--limit", "a")
    assert stage.status == 0, stage.output
    assert "theirs" not in json.dumps(stage.calls)


# A host name, which the check of the inventory does not know: all of them would be Node edge-1.
HOST_NAME = """
target = json.loads(given["document"])["azure"]["targetCluster"]["resourceId"]
known = {"name": given["name"], "node_name": "edge-1", "cluster_id": target.lower()}
print(json.dumps({"ok": True, "summary": "ok", "table": [given["name"] + "  ok"], **known}))
"""


@pytest.mark.parametrize(
    ("clusters", "failing"),
    [
        pytest.param({"a": "oslo", "b": "bergen"}, [], id="two-clusters-may-have-nodes-of-one-name"),
        pytest.param({"a": "oslo", "b": "Oslo", "c": "bergen"}, ["a", "b"], id="one-cluster-may-not"),
    ],
)
def test_preflight_tells_nodes_apart_by_name_and_cluster(
    stage: Stage, clusters: dict[str, str], failing: list[str]
) -> None:
    stage.answer(flexnode_preflight_info={})
    stub = stage.collection / "plugins/modules/flexnode_preflight_info.py"
    stub.write_text(stub.read_text().replace("print('''{}''')", HOST_NAME))
    targets = {host: {"resourceId": CLUSTER.replace("plant", name)} for host, name in clusters.items()}
    stage.play(
        "aks.flexnode.preflight",
        {host: {"flexnode_config": {"azure": {"targetCluster": one}}} for host, one in targets.items()},
        flexnode_config_source="inline",
    )
    same = re.findall(r"fatal: \[(\w)\].*another machine would be Node edge-1 too", stage.output)
    assert (sorted(same), stage.status != 0) == (failing, bool(failing)), stage.output
    assert stage.output.count("more than one machine would be Node edge-1") == bool(failing)


def test_an_inline_run_prints_only_what_it_does(stage: Stage) -> None:
    """No validation of arguments, no task of Azure Arc, no skipped error report."""
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", {"a": {}})
    titles = re.findall(r"^TASK \[(.*?)\]", stage.output, re.MULTILINE)
    assert len(titles) <= 8, titles
    assert not any("Validating" in title or "aks.flexnode.arc" in title for title in titles)


def test_secrets_of_variables_reach_the_machine_and_no_output(stage: Stage) -> None:
    """As AWX passes them: extra variables in a file, and blank ones for fields that were left empty."""
    secrets = {"flexnode_bootstrap_token": "abcdef.0123456789s3cret", "flexnode_client_secret": ""}
    secrets["flexnode_proxy_https"] = "http://user:s3cret@proxy.example.com:3128"
    file = stage.directory / "injected.json"
    file.write_text(json.dumps({**secrets, "flexnode_preflight_skip": ""}))
    stage.verbosity = 3
    node = {"kubeletVersion": "1.34.4", "containerRuntime": "containerd 2.3.4"}
    stage.answer(flexnode_reconcile={"changed": False, "summary": "unchanged", "node": node})
    stage.play("aks.flexnode.bootstrap", {"a": OWN}, "-e", f"@{file}")
    assert stage.status == 0, stage.output
    (asked,) = (params for name, params in stage.calls if name == "flexnode_reconcile")
    document = asked["document"] if isinstance(asked["document"], dict) else json.loads(asked["document"])
    assert document["azure"]["bootstrapToken"]["token"] == secrets["flexnode_bootstrap_token"]
    assert document["proxy"]["https"] == secrets["flexnode_proxy_https"]
    assert "servicePrincipal" not in document["azure"]
    assert asked["preflight_skip"] == []
    assert "s3cret" not in stage.output
