# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables, wherever they are set, and what a newcomer types wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.unit.controller.fleets import an_answer
from tests.unit.playbooks.stage import CLUSTER, Stage, hosts

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


def test_a_relative_configuration_file_is_found_beside_the_inventory(stage: Stage) -> None:
    (stage.directory / "node.yml").write_text("node: {maxPods: 17}\n")
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", {"a": {"flexnode_config_file": "node.yml"}})
    (params,) = [params for name, params in stage.calls if name == "flexnode_reconcile"]
    assert json.loads(params["document"]) == {"node": {"maxPods": 17}}


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


def test_an_inline_run_prints_only_what_it_does(stage: Stage) -> None:
    """No validation of arguments, no task of Azure Arc, no skipped error report."""
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play("aks.flexnode.bootstrap", {"a": {}})
    titles = re.findall(r"^TASK \[(.*?)\]", stage.output, re.MULTILINE)
    # With those that others need and this one skips: Azure, names that are taken, late tokens, taints.
    assert len(titles) <= 9, titles
    assert not any("Validating" in title or "aks.flexnode.arc" in title for title in titles)


def test_each_machine_has_its_own_settings_of_a_source(stage: Stage) -> None:
    """The value of the first machine once counted for all."""
    written = [
        {"name": name, "cluster_id": CLUSTER, "config_url": f"https://x/{name}"} for name in ("b", "c")
    ]
    stage.answer(flexnode_config={"nodes": written}, flexnode_cluster_info={"clusters": []})
    stage.answer(flexnode_bootstrap_token={"nodes": []})
    fleet = {
        "a": {},
        **hosts("b", "c", source="rp"),
        **hosts("d", "e", "f", source="cluster"),
    }
    fleet["b"]["flexnode_url_directory"] = "urls/plant"
    fleet["c"] |= {"flexnode_update_secret": "always", "flexnode_url_directory": "urls/depot"}
    fleet["d"]["flexnode_token_hours"] = "24"
    fleet["f"]["flexnode_token_hours"] = 2
    stage.play("aks.flexnode.config_put", fleet)
    assert stage.status == 0, stage.output
    assert {
        node["name"]: given["update_secret"]
        for given in of(stage, "flexnode_config")
        for node in given["nodes"]
    } == {"b": "on_create", "c": "always"}
    for name, place in (("b", "plant"), ("c", "depot")):
        assert (stage.directory / f"urls/{place}/{name}.url").read_text() == f"https://x/{name}\n"
    assert [path.name for path in sorted(stage.directory.glob("urls/*/*"))] == ["c.url", "b.url"]

    stage.play("aks.flexnode.bootstrap", {name: one for name, one in fleet.items() if name in "adef"})
    assert {
        node["name"]: given["ttl_hours"]
        for given in of(stage, "flexnode_bootstrap_token")
        for node in given["nodes"]
        if given.get("state") != "absent"
    } == {"d": 24, "e": 24, "f": 2}


def test_a_url_is_written_for_the_machine_that_it_is_for(stage: Stage) -> None:
    """Blobs are named after their Node alone: one of another cluster once replaced a machine's own URL."""
    fleet = {**hosts("a", source="rp"), **hosts("b", source="blob")}
    fleet["b"]["flexnode_cluster_id"] = CLUSTER.replace("plant", "depot")
    for host, one in fleet.items():
        one |= {"flexnode_url_directory": f"urls/{host}", "flexnode_config": {"agent": {"nodeName": "n"}}}
    stage.answer(
        flexnode_config={"nodes": [{"name": "n", "cluster_id": CLUSTER, "config_url": "https://x/of-a"}]},
        flexnode_config_blob={"nodes": [{"name": "n", "url": "https://x/of-b"}]},
        flexnode_cluster_info={"clusters": []},
        flexnode_bootstrap_token={"nodes": []},
    )
    stage.play("aks.flexnode.config_put", fleet)
    assert stage.status == 0, stage.output
    urls = {path.parent.name: path.read_text() for path in stage.directory.glob("urls/*/n.url")}
    assert urls == {"a": "https://x/of-a\n", "b": "https://x/of-b\n"}


def test_a_directory_of_urls_may_be_spelled_in_two_ways(stage: Stage) -> None:
    """The URLs of one of the two spellings were lost, after Azure had revoked the ones before."""
    fleet = hosts("a", "b", source="rp")
    fleet["a"]["flexnode_url_directory"], fleet["b"]["flexnode_url_directory"] = "urls", "./urls/"
    new = [{"name": name, "cluster_id": CLUSTER, "config_url": f"https://x/{name}"} for name in fleet]
    stage.answer(flexnode_token={"nodes": new})
    stage.play("aks.flexnode.config_tokens", fleet)
    assert stage.status == 0, stage.output
    assert sorted(path.name for path in stage.directory.glob("urls/*")) == ["a.url", "b.url"]
    fleet["b"]["flexnode_cluster_id"] = CLUSTER.replace("plant", "depot")
    for one in fleet.values():
        one["flexnode_config"] = {"agent": {"nodeName": "n"}}
    stage.play("aks.flexnode.config_tokens", fleet)
    assert "would share one URL file" in stage.output, stage.output


def two_kinds() -> dict[str, dict[str, Any]]:
    """Machines whose flexNodeConfigs take two calls: one gets a file with its URL."""
    fleet = hosts("a", "b", source="rp")
    fleet["a"]["flexnode_url_directory"] = "urls"
    return fleet


def test_all_documents_are_checked_before_the_first_one_is_written(stage: Stage) -> None:
    fleet = two_kinds()
    fleet["b"]["flexnode_config"] = {"node": {"labels": {"gpu": True}}}
    stage.play("aks.flexnode.config_put", fleet)
    assert stage.status != 0
    assert 'b.node.labels["gpu"] is true, but it must be in quotes' in stage.output, stage.output
    assert "This run changed nothing." in stage.output
    assert stage.calls == []


def test_a_new_url_is_kept_also_if_a_later_call_fails(stage: Stage) -> None:
    """Azure tells a URL once, and the one before it is no longer valid then."""
    a = {"name": "a", "cluster_id": CLUSTER, "config_url": "https://x/a"}
    fails = 'if given["nodes"][0]["name"] == "b": answer = {"failed": True, "msg": "FLEX-1703: gone"}'
    stage.answer_by_code("flexnode_config", fails, {"nodes": [a]})
    stage.play("aks.flexnode.config_put", two_kinds())
    assert "FLEX-1703: gone" in stage.output, stage.output
    assert (stage.directory / "urls/a.url").read_text() == "https://x/a\n"


def of(stage: Stage, module: str) -> list[dict[str, Any]]:
    """The arguments of each call of a module."""
    return [given for name, given in stage.calls if name == module]
