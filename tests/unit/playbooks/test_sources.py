# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks ask of Azure for a fleet: once, for the right machines, and not before they can use it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.unit.node.tunnels import SECRET_KEY, a_profile
from tests.unit.playbooks.stage import CLUSTER, READY, Stage, done, hosts


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


def test_a_url_replaces_a_link_and_does_not_follow_it(stage: Stage) -> None:
    """Nor is it stopped by it: Azure tells a URL only once."""
    written = [{"name": name, "config_url": f"https://x/{name}", "action": "created"} for name in "ab"]
    stage.answer(flexnode_config={"changed": True, "nodes": written, "actions": ["create a"]})
    (stage.directory / "other").write_text("kept\n")
    (stage.directory / "urls").mkdir()
    (stage.directory / "urls/a.url").symlink_to(stage.directory / "other")
    stage.play("aks.flexnode.config_put", hosts("a", "b", source="rp"), flexnode_url_directory="urls")
    assert stage.status == 0, stage.output
    files = {one.name: one.read_text() for one in (stage.directory / "urls").iterdir()}
    assert files == {"a.url": "https://x/a\n", "b.url": "https://x/b\n"}
    assert not (stage.directory / "urls/a.url").is_symlink()
    assert (stage.directory / "other").read_text() == "kept\n"


def test_a_url_directory_that_cannot_be_made_costs_nothing_in_azure(stage: Stage) -> None:
    (stage.directory / "file").write_text("")
    stage.play("aks.flexnode.config_put", hosts("a", source="rp"), flexnode_url_directory="file/urls")
    assert stage.status != 0
    assert stage.calls == []
    assert "flexnode_url_directory can't be created" in stage.output


# -- machines that have not joined, though their Nodes are Ready ---------------------------------------------

SAYS = {"ok": True, "table": [], "config_version": ""}
CLUSTERS = {"clusters": [{"id": CLUSTER, "document": {"kubernetes": {"version": "1.34.4"}}}]}


def asked_fleet(stage: Stage, source: str, **joined: bool | None) -> dict[str, dict[str, Any]]:
    """Machines, and what each says of itself."""
    stage.answer_by_host(
        "flexnode_preflight_info", **{host: {**SAYS, "joined": j} for host, j in joined.items()}
    )
    stage.answer(flexnode_reconcile=done("joined"), flexnode_cluster_info=CLUSTERS)
    return stage.machines(*joined, flexnode_config_source=source, flexnode_cluster_id=CLUSTER)


@pytest.mark.parametrize("source", ["cluster", "blob"])
def test_a_machine_whose_node_is_ready_elsewhere_is_refused_alone(stage: Stage, source: str) -> None:
    fleet = asked_fleet(stage, source, a=False, b=True, c=False, d=None)
    token = {"name": "c", "joined": False, "token": "abcdef.0123456789abcdef", "cluster_id": CLUSTER}
    ready = [{"name": name, "joined": True, "cluster_id": CLUSTER} for name in "abd"]
    stage.answer(flexnode_bootstrap_token={"nodes": [*ready, token]})
    stage.answer(
        flexnode_config_blob={"nodes": [{"name": name, "url": f"https://x/{name}"} for name in "bcd"]}
    )
    stage.play("aks.flexnode.bootstrap", fleet)
    assert re.search(r"fatal: \[a\].*Node a is Ready, and this machine has not joined", stage.output)
    assert "kubectl delete node a" in stage.output
    touched = sorted(given["host"] for name, given in stage.calls if name == "flexnode_reconcile")
    assert touched == ["b", "c", "d"], stage.output
    if source == "blob":
        assert stage.asked("flexnode_config_blob")[0] == ["b", "c", "d"], "it may be in use"


def test_a_provider_learns_what_the_machine_says(stage: Stage) -> None:
    fleet = asked_fleet(stage, "rp", a=False, b=True, c=False, d=None)
    answers = [
        {"name": name, "cluster_id": CLUSTER, "action": action, "config_url": f"https://x/{name}"}
        for name, action in (("a", "refused"), ("b", "unchanged"), ("c", "regenerated"), ("d", "unchanged"))
    ]
    stage.answer(flexnode_config={"nodes": answers})
    stage.play("aks.flexnode.bootstrap", fleet)
    (given,) = [given for name, given in stage.calls if name == "flexnode_config"]
    assert [one.get("joined") for one in given["nodes"]] == [False, None, False, None]
    assert re.search(r"fatal: \[a\].*Node a is Ready, and this machine has not joined", stage.output)
    touched = sorted(given["host"] for name, given in stage.calls if name == "flexnode_reconcile")
    assert touched == ["b", "c", "d"], stage.output


def test_a_machine_that_was_asked_before_its_join_is_not_refused_after_it(stage: Stage) -> None:
    """One run may import both playbooks."""
    fleet = asked_fleet(stage, "cluster", a=False)
    token = {"name": "a", "joined": False, "token": "abcdef.0123456789abcdef", "cluster_id": CLUSTER}
    again = f"""
import pathlib
mark = pathlib.Path(os.environ["CALLS"] + ".joined")
if mark.exists() and given.get("state", "present") == "present":
    answer = {{"nodes": [{{"name": "a", "joined": True, "cluster_id": "{CLUSTER}"}}]}}
mark.touch()
"""
    stage.answer_by_code("flexnode_bootstrap_token", again, {"nodes": [token]})
    status = {"status": {"phase": "NodeJoined", "node": {**READY, "name": "a"}}}
    stage.answer(flexnode_status_info=status)
    book = stage.directory / "book.yml"
    playbooks = ("aks.flexnode.bootstrap", "aks.flexnode.update")
    book.write_text(yaml.safe_dump([{"import_playbook": name} for name in playbooks]))
    stage.play(str(book), fleet)
    assert stage.status == 0, stage.output
    assert [name for name, _given in stage.calls].count("flexnode_reconcile") == 2
