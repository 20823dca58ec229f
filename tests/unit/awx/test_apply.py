# SPDX-License-Identifier: GPL-3.0-or-later
"""awx/apply.yml with the real modules of awx.awx, against an AWX that only remembers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.docs.awx import awx_data
from tests.unit.awx.fake_awx import TOKEN, FakeAwx, running

ROOT = Path(__file__).parents[3]
MINE = ("-e", "awx_project_url=https://git.mine.test/flexnode.git", "-e", "awx_image=registry.mine.test/ee:1")

CREDENTIALS = ("-e", '{"awx_credentials": ["SSH", "Azure"]}', "-e", "awx_azure_credential=Azure")


def apply(awx: FakeAwx, collections: Path, home: Path, *arguments: str) -> tuple[int, str]:
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "CONTROLLER_HOST": awx.address,
        "CONTROLLER_OAUTH_TOKEN": TOKEN,
        "HOME": str(home),
    }
    command = [sys.executable, "-m", "ansible", "playbook", str(ROOT / "awx/apply.yml"), *arguments]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def applied(collections: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeAwx, Path]]:
    """An AWX in which everything was created once, with credentials that existed before."""
    home = tmp_path_factory.mktemp("home")
    with running() as awx:
        for name in ("SSH", "Azure"):
            awx.add("credentials", {"name": name})
        status, output = apply(awx, collections, home, *MINE, *CREDENTIALS)
        assert status == 0, output
        yield awx, home


def test_everything_of_the_data_is_there(applied: tuple[FakeAwx, Path]) -> None:
    awx, _home = applied
    names = {kind: {item.get("name") for item in items.values()} for kind, items in awx.items.items()}
    assert names["organizations"] == {"FlexNode"}
    assert names["projects"] == {"FlexNode playbooks"}
    assert names["inventory_sources"] == {"FlexNode repository", "FlexNode Azure Arc"}
    for kind, file in (
        ("credential_types", "credential_types"),
        ("job_templates", "job_templates"),
        ("workflow_job_templates", "workflows"),
        ("schedules", "schedules"),
    ):
        (listed,) = awx_data(file).values()
        assert names[kind] == {one["name"] for one in listed}


def test_every_value_of_the_data_reached_awx(applied: tuple[FakeAwx, Path]) -> None:
    """A key that apply.yml does not pass on would have no effect."""
    awx, _home = applied
    for template in awx_data("job_templates")["awx_job_templates"]:
        item = awx.named("job_templates", template["name"])
        for key, value in template.items():
            assert (awx.survey(template["name"]) if key == "survey_spec" else item[key]) == value
        assert item["ask_variables_on_launch"] is False
    for file, kind in (("credential_types", "credential_types"), ("schedules", "schedules")):
        (listed,) = awx_data(file).values()
        for one in listed:
            item = awx.named(kind, one["name"])
            references = {"unified_job_template"}
            assert {key: item[key] for key in one if key not in references} == {
                key: value for key, value in one.items() if key not in references
            }
    for source in awx_data("inventory")["awx_inventory_sources"]:
        item = awx.named("inventory_sources", source["name"])
        assert {key: item[key] for key in source} == source
    for key, value in awx_data("organization")["awx_project"].items():
        if key != "scm_url":
            assert awx.named("projects", "FlexNode playbooks")[key] == value


def test_the_injectors_are_templates_of_awx_and_not_of_ansible(applied: tuple[FakeAwx, Path]) -> None:
    awx, _home = applied
    injectors = awx.named("credential_types", "FlexNode cluster")["injectors"]
    assert injectors["extra_vars"] == {"flexnode_kubeconfig": "{{ tower.filename.kubeconfig }}"}


def test_the_workflow_goes_from_canaries_to_the_rest(applied: tuple[FakeAwx, Path]) -> None:
    awx, _home = applied
    assert awx.following("FlexNode rollout") == [
        ("preflight", "FlexNode preflight", ""),
        ("bootstrap-canary", "FlexNode bootstrap", "ring_canary"),
        ("proof-canary", "FlexNode proof", "ring_canary"),
        ("bootstrap-rest", "FlexNode bootstrap", "aks_flexnode:!ring_canary"),
        ("status", "FlexNode status", ""),
    ]


def test_repository_and_image_are_those_of_the_user(applied: tuple[FakeAwx, Path]) -> None:
    awx, _home = applied
    assert awx.named("projects", "FlexNode playbooks")["scm_url"] == "https://git.mine.test/flexnode.git"
    assert awx.named("execution_environments", "FlexNode")["image"] == "registry.mine.test/ee:1"


def test_credentials_are_used_where_they_were_named(applied: tuple[FakeAwx, Path]) -> None:
    awx, _home = applied
    ids = sorted(item["id"] for item in awx.items["credentials"].values())
    source = awx.named("inventory_sources", "FlexNode Azure Arc")
    assert source["credential"] == awx.named("credentials", "Azure")["id"]
    for id_ in awx.items["job_templates"]:
        assert sorted(awx.associated[("job_templates", id_, "credentials")]) == ids


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [(MINE[2:], "awx_project_url"), (MINE[:2], "awx_image")],
    ids=["project", "image"],
)
def test_the_examples_of_the_data_are_not_applied(
    collections: Path, tmp_path: Path, arguments: tuple[str, ...], missing: str
) -> None:
    with running() as awx:
        status, output = apply(awx, collections, tmp_path, *arguments)
        assert status != 0
        assert f"set your own with -e {missing}=..." in " ".join(output.split())
        assert awx.writes == []


def test_a_second_run_changes_nothing_and_keeps_the_credentials_of_templates(
    applied: tuple[FakeAwx, Path], collections: Path
) -> None:
    """Without awx_credentials those that templates have, for example by hand, stay."""
    awx, home = applied
    awx.writes.clear()
    # One of each kind is enough: a module treats all items alike, and each takes a second.
    some = {
        "awx_credential_types": awx_data("credential_types")["awx_credential_types"][:1],
        "awx_job_templates": awx_data("job_templates")["awx_job_templates"][:1],
        "awx_workflows": awx_data("workflows")["awx_workflows"][:1],
    }
    file = home / "some.yml"
    file.write_text(json.dumps(some).replace('"{{', '!unsafe "{{'))
    status, output = apply(awx, collections, home, *MINE, "-e", f"@{file}")
    assert status == 0, output
    assert re.search(r"changed=0\b", output), output
    assert awx.writes == []
