# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of the tests is the one that users build; credentials become what AWX makes of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import (
    OTHER_SECRETS,
    SECRETS,
)
from scripts.checkout import ROOT
from testbed.execution import credentials, image, job, wheelhouse
from testbed.execution.credentials import Injected, Templates


@pytest.fixture
def injected(tmp_path: Path) -> Injected:
    (tmp_path / "env").mkdir()
    return Injected(tmp_path)


def outside(injected: Injected, path: str) -> Path:
    """A file of the job, by its path in the container."""
    assert path.startswith("/runner/")
    return injected.directory / path.removeprefix("/runner/")


def variables(injected: Injected) -> dict[str, Any]:
    """All extra variables of the command line, in their order."""
    found: dict[str, Any] = {}
    words = iter(injected.arguments)
    for option, value in zip(words, words, strict=True):
        assert option == "-e"
        file = outside(injected, value.removeprefix("@"))
        assert file.stat().st_mode & 0o777 == 0o400
        found.update(yaml.load(file.read_text(), Loader=Templates))  # noqa: S506 - a safe loader
    return found


def test_a_kubeconfig_becomes_a_file_that_a_variable_names(injected: Injected) -> None:
    injected.add("FlexNode cluster", kubeconfig="kind: Config\n")
    injected.add("FlexNode cluster administrator", kubeconfig="kind: Other\n")
    found = variables(injected)
    texts = {name: outside(injected, path).read_text() for name, path in found.items()}
    assert texts == {"flexnode_kubeconfig": "kind: Config\n", "flexnode_arc_kubeconfig": "kind: Other\n"}
    assert {outside(injected, path).stat().st_mode & 0o777 for path in found.values()} == {0o600}


def test_empty_fields_are_empty_variables(injected: Injected) -> None:
    injected.add("FlexNode node secrets", client_secret="{{ not evaluated }}", proxy_http="")
    found = variables(injected)
    assert found.pop("flexnode_client_secret") == "{{ not evaluated }}"
    assert set(found.values()) == {""}
    text = "".join(path.read_text() for path in (injected.directory / "env").iterdir())
    assert "!unsafe '{{ not evaluated }}'" in text


def test_every_secret_variable_can_be_injected(injected: Injected) -> None:
    for name, kind in credentials.types().items():
        injected.add(name, **{field["id"]: f"value of {field['id']}" for field in kind["inputs"]["fields"]})
    found = variables(injected)
    assert {*SECRETS, *OTHER_SECRETS} <= set(found)
    assert all(found[name].startswith("value of ") for name in SECRETS)


def test_questions_without_an_answer_set_what_awx_sets() -> None:
    assert job.survey_defaults(job.template("FlexNode bootstrap")) == {
        "flexnode_retry": "false",
        "flexnode_proof": "false",
        "flexnode_token_hours": 24,
    }
    assert job.survey_defaults(job.template("FlexNode status")) == {}


def test_the_image_is_the_one_that_users_build() -> None:
    """Another base image and another source of packages; what goes in, and the last check, stay."""
    users = yaml.safe_load((ROOT / "awx/execution-environment.yml").read_text())
    ours = image.definition("localhost/base:1", "aks-flexnode-0.1.0.tar.gz")
    for part in ("ansible_core", "ansible_runner", "system"):
        assert ours["dependencies"][part] == users["dependencies"][part]
    assert ours["additional_build_steps"]["append_final"] == users["additional_build_steps"]["append_final"]
    assert set(ours["dependencies"]) == set(users["dependencies"])


def test_the_lock_of_the_image_has_one_version_of_each_package() -> None:
    text = wheelhouse.LOCK.read_text()
    names = re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)
    assert len(names) == len(set(names)) > 40
    assert ";" not in text  # pip would evaluate a marker for the Python that downloads
    dealt = wheelhouse.parts(text, 6)
    assert sorted(re.findall(r"^([a-z0-9-]+)==", "".join(dealt), re.MULTILINE)) == sorted(names)
    assert len(dealt) == 6
    assert all(part.count("==") and part.startswith(tuple(names)) for part in dealt)
    assert sum(part.count("--hash=") for part in dealt) == text.count("--hash=")


def test_the_image_has_the_packages_of_the_controller() -> None:
    """The same versions as in .venv, where one of them serves both Pythons."""
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", wheelhouse.LOCK.read_text(), re.MULTILINE))
    tested = (ROOT / "requirements/test.txt").read_text()
    for name in ("ansible-core", "ansible-runner", "azure-identity", "kubernetes", "jinja2"):
        assert f"{name}=={locked[name]}" in tested
