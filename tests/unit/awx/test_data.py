# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of awx/: templates, surveys and credential types fit the playbooks and their variables."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import (
    OTHER_SECRETS,
    SECRETS,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import VARIABLES
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.every import IDS
from scripts.docs.awx import awx_data
from scripts.docs.roles import roles

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "awx" / "project"
PLAYBOOKS = {path.stem for path in ROOT.glob("playbooks/*.yml")}
TEMPLATES: dict[str, dict[str, Any]] = {
    one["name"]: one for one in awx_data("job_templates")["awx_job_templates"]
}
TYPES: dict[str, dict[str, Any]] = {
    one["name"]: one for one in awx_data("credential_types")["awx_credential_types"]
}
WORKFLOWS: dict[str, dict[str, Any]] = {one["name"]: one for one in awx_data("workflows")["awx_workflows"]}
SCHEDULES = awx_data("schedules")["awx_schedules"]
DESTROYING = {"unbootstrap", "config_delete"}
# The types of questions that fit the type of a variable. AWX passes true and false as texts.
QUESTIONS = {
    "str": {"text", "multiplechoice"},
    "int": {"integer"},
    "bool": {"multiplechoice"},
    "list": {"multiselect"},
    "raw": {"text"},  # what reads it takes a text too
    "batches": {"text"},
}


def questions(template: str) -> list[dict[str, Any]]:
    return list(TEMPLATES[template].get("survey_spec", {}).get("spec", []))


EVERY_QUESTION = [
    pytest.param(question, id=f"{name}-{question['variable']}")
    for name in TEMPLATES
    for question in questions(name)
]


# --- templates and playbooks ------------------------------------------------------------------------------


def test_every_playbook_has_a_file_in_the_project_and_a_template() -> None:
    playbooks = set(PROJECT.glob("*.yml")) - {PROJECT / "ansible-navigator.yml"}
    files = {path.stem: yaml.safe_load(path.read_text()) for path in playbooks}
    assert set(files) == PLAYBOOKS
    for name, plays in files.items():
        assert [play["ansible.builtin.import_playbook"] for play in plays] == [f"aks.flexnode.{name}"]
    assert {Path(one["playbook"]).stem for one in TEMPLATES.values()} == PLAYBOOKS


def test_the_playbooks_that_destroy_are_those_that_need_named_machines() -> None:
    named = {
        path.stem
        for path in ROOT.glob("playbooks/*.yml")
        if "source_named: " in path.read_text(encoding="utf-8")
    }
    assert named == DESTROYING


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=lambda one: one["name"])
def test_what_destroys_has_no_machines_until_someone_types_them(template: dict[str, Any]) -> None:
    if Path(template["playbook"]).stem in DESTROYING:
        assert template["limit"] == ""
        assert template["ask_limit_on_launch"] is True
        assert "job_slice_count" not in template
    variables = {question["variable"] for question in questions(template["name"])}
    assert "flexnode_hosts" not in variables  # a name that does not exist would end in success


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=lambda one: one["name"])
def test_a_template_in_slices_asks_for_no_limit(template: dict[str, Any]) -> None:
    """A limit can leave a slice without machines, which then fails."""
    assert not (template.get("job_slice_count", 1) > 1 and template["ask_limit_on_launch"])
    # A second job for the same machines would wait for the lock of each.
    assert "allow_simultaneous" not in template


# --- surveys ----------------------------------------------------------------------------------------------


def used_by(playbook: str) -> set[str]:
    """The variables that a playbook and the roles in it use."""
    text = (ROOT / "playbooks" / f"{playbook}.yml").read_text()
    used = set(re.findall(r"\bflexnode_\w+", text))
    if "aks.flexnode.node" in text:
        text += "aks.flexnode.source aks.flexnode.preflight"
    for role in set(re.findall(r"aks\.flexnode\.(\w+)", text)):
        specs = ROOT / "roles" / role / "meta/argument_specs.yml"
        if specs.exists():
            for entry in yaml.safe_load(specs.read_text())["argument_specs"].values():
                used |= set(entry.get("options") or {})
    return used


@pytest.mark.parametrize("template", TEMPLATES, ids=str)
def test_a_survey_asks_only_for_variables_of_its_playbook(template: str) -> None:
    asked = [question["variable"] for question in questions(template)]
    assert len(asked) == len(set(asked))
    assert set(asked) <= set(VARIABLES)
    assert set(asked) <= used_by(Path(TEMPLATES[template]["playbook"]).stem)
    assert bool(asked) == TEMPLATES[template].get("survey_enabled", False)


@pytest.mark.parametrize("question", EVERY_QUESTION)
def test_a_question_has_the_type_of_its_variable(question: dict[str, Any]) -> None:
    variable = VARIABLES[question["variable"]]
    assert question["type"] in QUESTIONS[variable.type]
    if variable.choices:
        assert tuple(question["choices"]) == variable.choices
    elif variable.type == "bool":
        assert question["choices"] == ["false", "true"]
    elif variable.type == "list":
        assert question["variable"] == "flexnode_preflight_skip"
        assert set(question["choices"]) <= set(IDS)


@pytest.mark.parametrize("question", EVERY_QUESTION)
def test_a_question_needs_no_answer_of_a_workflow_or_a_schedule(question: dict[str, Any]) -> None:
    """A blank text means the default of the playbook; a blank number or choice would be an error there."""
    variable, default = VARIABLES[question["variable"]], question["default"]
    if question["variable"] == "flexnode_cluster_id":
        assert question["required"]
        assert default == ""  # a person starts it
    elif variable.type == "int":
        assert question["required"]
        assert question["min"] <= default <= question["max"]
    elif question["type"] == "multiplechoice":
        assert question["required"]
        assert default in question["choices"]


def test_no_survey_asks_for_a_secret() -> None:
    """Answers are stored with the job; secrets belong into credentials."""
    asked = {question["variable"] for name in TEMPLATES for question in questions(name)}
    assert asked & {*SECRETS, *OTHER_SECRETS} == set()


def test_defaults_of_surveys_are_those_of_the_roles() -> None:
    specs: dict[str, Any] = {}
    for role in roles():
        for entry in role.entry_points.values():
            specs.update(entry.get("options") or {})
    for name in TEMPLATES:
        for question in questions(name):
            if (
                (option := specs.get(question["variable"]))
                and "default" in option
                and option["type"] != "list"
            ):
                assert str(question["default"]).lower() == str(option["default"]).lower(), question[
                    "variable"
                ]


# --- workflows and schedules ------------------------------------------------------------------------------


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=lambda one: one["name"])
def test_workflows_refer_to_templates_and_to_their_own_nodes(workflow: dict[str, Any]) -> None:
    nodes = {node["identifier"]: node for node in workflow["workflow_nodes"]}
    assert len(nodes) == len(workflow["workflow_nodes"])
    for node in nodes.values():
        assert node["unified_job_template"]["name"] in TEMPLATES
        # A step after a failure would let a rollout go on, or make a failed one look successful.
        assert set(node.get("related", {})) <= {"success_nodes"}
        for after in node.get("related", {}).get("success_nodes", []):
            assert after["identifier"] in nodes


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=lambda one: one["name"])
def test_limits_of_workflow_nodes_have_an_effect(workflow: dict[str, Any]) -> None:
    """AWX drops the limit of a node if its template does not ask for one: it would act on all machines."""
    for node in workflow["workflow_nodes"]:
        template = TEMPLATES[node["unified_job_template"]["name"]]
        assert not node.get("limit") or template["ask_limit_on_launch"]
        assert Path(template["playbook"]).stem not in DESTROYING
    assert workflow["ask_limit_on_launch"] is False  # it would replace the limits of the nodes
    assert "limit" not in workflow


def test_schedules_start_templates_that_change_nothing() -> None:
    for schedule in SCHEDULES:
        assert Path(TEMPLATES[schedule["unified_job_template"]]["playbook"]).stem == "status"


# --- credential types -------------------------------------------------------------------------------------


def test_credential_types_inject_variables_that_exist_and_every_secret_once() -> None:
    injected = [name for one in TYPES.values() for name in one["injectors"]["extra_vars"]]
    assert len(injected) == len(set(injected))
    assert set(injected) <= set(VARIABLES)
    assert {*SECRETS, *OTHER_SECRETS} <= set(injected)
    assert set(TYPES["FlexNode node secrets"]["injectors"]["extra_vars"]) == set(SECRETS)
    for one in TYPES.values():
        assert set(one["injectors"]) <= {"extra_vars", "file"}
        for name in set(one["injectors"]["extra_vars"]) - {*SECRETS, *OTHER_SECRETS}:
            assert VARIABLES[name].type == "path"


@pytest.mark.parametrize("kind", TYPES.values(), ids=lambda one: one["name"])
def test_injectors_can_be_evaluated_as_awx_does_it(kind: dict[str, Any]) -> None:
    """With every field, and with those alone that a credential must have."""
    fields = {field["id"]: field for field in kind["inputs"]["fields"]}
    required = kind["inputs"].get("required", [])
    assert all(field["secret"] for field in fields.values())
    sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
    files = {key.removeprefix("template."): "/tmp/file" for key in kind["injectors"].get("file", {})}
    for filled in (list(fields), required):
        values = {name: f"value-of-{name}" for name in filled}
        for text in kind["injectors"].get("file", {}).values():
            assert sandbox.from_string(text).render(values) in values.values()
        for text in kind["injectors"]["extra_vars"].values():
            rendered = sandbox.from_string(text).render(**values, tower={"filename": files})
            assert rendered in (*values.values(), "", "/tmp/file")
            assert rendered or not required


# --- awx.awx ----------------------------------------------------------------------------------------------


class Recorded(Exception):
    pass


def argument_spec(module: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The argument spec of a module of awx.awx, which its main() passes to its base class."""
    found: dict[str, Any] = {}

    def record(argument_spec: dict[str, Any], **_options: Any) -> None:
        found.update(argument_spec)
        raise Recorded

    imported = importlib.import_module(f"ansible_collections.awx.awx.plugins.modules.{module}")
    monkeypatch.setattr(imported, "ControllerAPIModule", record)
    with pytest.raises(Recorded):
        imported.main()
    return found


def items() -> Iterator[Any]:
    base, inventory = awx_data("organization"), awx_data("inventory")
    owner = {"organization": "FlexNode"}
    yield "organization", base["awx_organization"]
    yield "project", base["awx_project"]
    yield "execution_environment", base["awx_execution_environment"]
    yield "inventory", {**inventory["awx_inventory"], **owner}
    for source in (*inventory["awx_inventory_sources"], inventory["awx_inventory_source_azure"]):
        yield "inventory_source", {**source, "inventory": "FlexNode machines"}
    yield from (("credential_type", one) for one in TYPES.values())
    yield from (("job_template", one) for one in TEMPLATES.values())
    yield from (("workflow_job_template", one) for one in WORKFLOWS.values())
    yield from (("schedule", one) for one in SCHEDULES)


@pytest.mark.parametrize(
    ("module", "item"), list(items()), ids=lambda one: one if isinstance(one, str) else one["name"]
)
def test_the_data_fits_the_argument_specs_of_awx_awx(
    module: str, item: dict[str, Any], collections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(collections))
    result = ArgumentSpecValidator(argument_spec(module, monkeypatch)).validate(item)
    assert result.error_messages == []
    assert result.unsupported_parameters == set()
