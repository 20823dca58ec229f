# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation is true: generated parts are fresh, links lead somewhere, examples are accepted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.node.commands.options import names, parser
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import (
    UNSUPPORTED,
    check_available,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import loads, merge, unwrap
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import table
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NotAvailable
from scripts.docs.__main__ import main as write_docs
from scripts.docs.document import ONLY_WITH, is_listed
from scripts.docs.errors import every_error
from scripts.docs.machine import INSTEAD
from scripts.docs.roles import example, roles

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "roles/*/README.md", "testbed/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)
YAML_FENCE = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
MAKE = re.compile(r"(?:^|`|[\s(])make ([a-z][a-z0-9-]*)\b(?=[`\s,:;.)]|$)", re.MULTILINE)
# `make` as a verb of English, in prose.
NOT_TARGETS = frozenset({"machines", "a", "every", "it"})


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE):
        plain = re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return frozenset(found)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_generated_pages_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert write_docs(["--check"]) == 0, capsys.readouterr().out + capsys.readouterr().err


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(MAKE.findall(text_of(page))) - targets - NOT_TARGETS == set()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_playbooks_that_are_named_exist(page: Path) -> None:
    text = text_of(page)
    files = set(re.findall(r"\bplaybooks/([a-z_]+)\.yml", text))
    by_name = set(re.findall(r"ansible-playbook aks\.flexnode\.([a-z_]+)", text))
    assert files | by_name <= {path.stem for path in ROOT.glob("playbooks/*.yml")}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_error_codes_exist(page: Path) -> None:
    known = {cls.code for cls in every_error()}
    assert set(re.findall(r"FLEX-\d{4}", text_of(page))) <= known


def test_variables_of_the_page_are_those_of_the_roles_and_playbooks() -> None:
    in_specs = {
        name
        for role in roles()
        for entry in role.entry_points.values()
        for name in entry.get("options") or {}
        if name.startswith("flexnode_")
    }
    playbooks = "".join(path.read_text() for path in ROOT.glob("playbooks/*.yml"))
    names = "hosts|kubeconfig|proof|report|url_directory|serial|max_fail_percentage"
    in_playbooks = set(re.findall(rf"\bflexnode_(?:{names})\b", playbooks))
    page = text_of(ROOT / "docs" / "variables.md")
    on_page = set(re.findall(r"^\| `(flexnode_\w+)` \|", page, re.MULTILINE))
    assert on_page == in_specs | in_playbooks


def test_state_files_are_told() -> None:
    source = (ROOT / "plugins/module_utils/node/engine/records/state.py").read_text()
    names = set(re.findall(r'"([a-z-]+\.(?:json|txt))"', source))
    page = text_of(ROOT / "docs" / "files.md")
    assert names
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_every_command_has_a_section() -> None:
    sections = re.findall(r"^## (\S+)", text_of(ROOT / "docs" / "edge.md"), re.MULTILINE)
    assert set(names()) <= set(sections)


def test_every_option_of_the_command_is_told() -> None:
    page = text_of(ROOT / "docs" / "edge.md")
    commands = next(action for action in parser()._actions if isinstance(action.choices, dict))
    options = {
        name
        for command in commands.choices.values()
        for action in command._actions
        for name in action.option_strings
        if name.startswith("--")
    }
    # Of the timer and of cron's line: nobody types them.
    assert {name for name in options - {"--help", "--hand-over", "--delay"} if name not in page} == set()


def test_every_role_and_module_is_on_their_page() -> None:
    page = text_of(ROOT / "docs" / "roles.md")
    named = [f"../roles/{role.name}/README.md" for role in roles()]
    named += [f"`{path.stem}`" for path in ROOT.glob("plugins/modules/*.py") if path.stem != "__init__"]
    assert {name for name in named if name not in page} == set()


# --- what this version refuses ----------------------------------------------------------------------------

IDENTITY = {"clientId": "11111111-2222-3333-4444-555555555555"}
TENANT = "87654321-4321-4321-4321-cba987654321"
ASKING: dict[str, dict[str, Any]] = {
    "hooks.after": {"hooks": {"after": ["/srv/after.yml"]}},
    "hooks.before": {"hooks": {"before": ["/srv/before.yml"]}},
    "paths.configDir": {"paths": {"configDir": "/etc/flex"}},
}


def test_every_refused_field_is_tried() -> None:
    refused = {row.path for row in table(NodeConfig) if is_listed(row.path, UNSUPPORTED)}
    assert set(ASKING) == refused


@pytest.mark.parametrize("field", ASKING)
def test_refused_fields_are_refused(field: str) -> None:
    document = merge(node_document(), ASKING[field])
    with pytest.raises(NotAvailable) as caught:
        check_available(parse(document))
    assert field in caught.value.where.split(", ")


def test_fields_that_need_something_are_refused_without_it() -> None:
    assert set(ONLY_WITH) == {"continuousMonitoring"}
    asked = {
        "azure": {"tenantId": TENANT, "managedIdentity": IDENTITY},
        "kubernetesAuth": {"method": "bootstrapToken"},
        "continuousMonitoring": True,
    }
    config = parse(merge(node_document(), asked))
    check_available(config, pollable=True)
    with pytest.raises(NotAvailable) as caught:
        check_available(config)
    assert caught.value.where == "continuousMonitoring"


# --- examples ---------------------------------------------------------------------------------------------


def node_document() -> dict[str, Any]:
    return unwrap(loads((EXAMPLES / "node.json").read_text(), where="node.json"))[0]


def test_every_example_is_linked_from_a_page() -> None:
    linked = {Path(link).name for page in PAGES for link in LINK.findall(text_of(page))}
    assert {path.name for path in EXAMPLES.iterdir()} - linked == set()


def test_inventory_gives_documents_that_are_accepted() -> None:
    inventory = yaml.safe_load((EXAMPLES / "edge_hosts").read_text())["aks_flexnode"]
    for host in inventory["hosts"].values():
        check_available(
            parse(merge(inventory["vars"]["flexnode_config"], host.get("flexnode_host_config", {})))
        )


def test_inventory_with_addresses_gives_documents_that_are_accepted() -> None:
    inventory = yaml.safe_load((EXAMPLES / "edge_hosts_url").read_text())["aks_flexnode"]
    assert inventory["vars"]["flexnode_config_source"] == "url"
    assert all(host["flexnode_config_url"].startswith("https://") for host in inventory["hosts"].values())
    parse(merge(node_document(), inventory["vars"]["flexnode_config"]))


FROM_AZURE = {"azure": {"targetCluster": {"location": "westeurope"}}}


@pytest.mark.parametrize("name", ["edge_hosts_azure", "edge_hosts_arc", "edge_hosts_follow"])
def test_inventory_for_azure_gives_documents_that_are_accepted(name: str) -> None:
    """What Azure adds is a whole document; this goes over it."""
    inventory = yaml.safe_load((EXAMPLES / name).read_text())["aks_flexnode"]
    source = inventory["vars"]["flexnode_config_source"]
    assert source == ("rp" if name == "edge_hosts_follow" else "cluster")
    assert inventory["vars"]["flexnode_cluster_id"].startswith("/subscriptions/")
    for host in inventory["hosts"].values():
        own = merge(inventory["vars"]["flexnode_config"], host["flexnode_host_config"])
        check_available(parse(merge(merge(node_document(), FROM_AZURE), own)), pollable=source == "rp")


@pytest.mark.parametrize("name", ["air_gapped.yml", "proxy.yml", "unknown_version.yml"])
def test_parts_of_documents_are_accepted(name: str) -> None:
    part = yaml.safe_load((EXAMPLES / name).read_text())
    check_available(parse(merge(node_document(), part)))


def test_document_with_everything_is_accepted() -> None:
    document = yaml.safe_load((EXAMPLES / "everything.yml").read_text())
    for instead in INSTEAD:
        check_available(parse(merge(document, instead), pollable=True), pollable=True)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("edge_hosts*")))
def test_example_inventories_have_the_group_and_the_source(name: str) -> None:
    """Playbooks act on the group aks_flexnode; nobody has to add the source to a command line."""
    shown = subprocess.run(
        [Path(sys.executable).parent / "ansible-inventory", "-i", EXAMPLES / name, "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer = json.loads(shown.stdout)
    hosts = answer["aks_flexnode"]["hosts"]
    assert hosts
    for host in hosts:
        assert answer["_meta"]["hostvars"][host]["flexnode_config_source"] in (
            "inline",
            "url",
            "cluster",
            "rp",
            "machines",
        )


@pytest.mark.parametrize(
    ("page", "examples"),
    [
        ("README.md", ["edge_hosts_azure", "edge_hosts_arc", "edge_hosts"]),
        ("docs/azure.md", ["edge_hosts_azure"]),
        ("docs/arc.md", ["edge_hosts_arc"]),
        ("docs/follow.md", ["edge_hosts_follow"]),
    ],
)
def test_inventories_of_pages_are_the_examples(page: str, examples: list[str]) -> None:
    """Same keys, so that a user who copies one or the other gets the same; values may be shortened."""
    blocks = [block for block in YAML_FENCE.findall(text_of(ROOT / page)) if "flexnode_config:" in block]
    for shown, name in zip(blocks, examples, strict=True):
        example = yaml.safe_load((EXAMPLES / name).read_text())["aks_flexnode"]["vars"]
        assert keys_of(yaml.safe_load(shown)["aks_flexnode"]["vars"]) == keys_of(example)


def keys_of(value: object, at: str = "") -> set[str]:
    if not isinstance(value, dict):
        return {at}
    return {path for key, inner in value.items() for path in keys_of(inner, f"{at}.{key}")}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_yaml_of_pages_parses(page: Path) -> None:
    for block in YAML_FENCE.findall(text_of(page)):
        yaml.safe_load(block)


@pytest.mark.parametrize("name", ["rbac.yaml", "rollout.yaml", "bootstrap_token.yaml"])
def test_kubernetes_objects_are_whole(name: str) -> None:
    document = yaml.safe_load((EXAMPLES / name).read_text())
    for found in document.get("items", [document]):
        assert {"apiVersion", "kind", "metadata"} <= set(found)


def test_rights_are_those_of_the_testbed() -> None:
    """What we tell users to grant is what the end-to-end tests run with."""
    from testbed.cluster import rbac

    granted = [item for _, item in rbac.OBJECTS]
    ours = yaml.safe_load((EXAMPLES / "rbac.yaml").read_text())["items"]
    assert [item["metadata"]["name"] for item in ours if item not in granted] == []


def test_example_playbooks_of_roles_are_playbooks(tmp_path: Path) -> None:
    plays = [play for role in roles() for play in yaml.safe_load(example(role))]
    playbook = tmp_path / "examples.yml"
    playbook.write_text(yaml.safe_dump(plays, sort_keys=False))
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "--syntax-check",
            "-i",
            "localhost,",
            playbook,
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
