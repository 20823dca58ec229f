# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Imports point one way. The layers are the table below: a row may import what it names, and nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
OURS = "ansible_collections.aks.flexnode.plugins"
NODE = f"{OURS}.module_utils.node"
ON_MACHINE = f"{OURS}.module_utils.on_machine"

# A room is a folder (or a file at the top) of node/. A row may import what it names, and its own siblings.
LAYERS = {
    "dataclass errors secret": "",
    "machine": "errors config",  # types of the configuration only
    "config": "errors secret",
    "net": "machine errors config",
    "catalogue": "errors config",
    "resources": "machine errors catalogue",
    "engine": "machine errors net catalogue resources",
    # What a node consists of: pure, so nothing that acts.
    "components": "config machine net catalogue resources",
    # Who the machine is in Azure; then this node at the API server; then what is not reversible local state.
    "identity": "errors secret config machine net",
    "node_object": "errors config machine net resources engine components identity",
    "sources": "errors config machine net catalogue engine",
    "rollout": "errors config machine net engine node_object",
    "procedures": "errors secret config machine net identity resources node_object engine sources",
    # What is known about a machine; then what can be done to it, and the ways in.
    "drift": "errors config machine net engine resources components node_object sources",
    "status": "errors config machine net resources engine node_object procedures sources drift rollout",
    "operations": "errors secret config machine net catalogue resources engine components node_object "
    "identity procedures sources drift status rollout",
    "preflight": "errors secret config machine net catalogue resources engine components node_object "
    "identity procedures sources drift operations",
    # ansible-pull: the team's repository, and what installs it.
    "pull": "errors config machine net engine components operations status",
    "follow": "errors secret config machine net identity engine components node_object procedures sources "
    "drift status operations rollout pull",
    "commands": "errors secret config machine net resources components engine identity node_object "
    "procedures sources status operations preflight drift follow pull",
    "cli": "commands engine errors machine",
}
ALLOWED = {name: set(may.split()) for names, may in LAYERS.items() for name in names.split()}


def python_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.py") if "__pycache__" not in path.parts)


def module_name(path: Path) -> str:
    """plugins/module_utils/node/cli.py -> ansible_collections....node.cli."""
    parts = path.relative_to(PLUGINS).with_suffix("").parts
    return ".".join((OURS, *(part for part in parts if part != "__init__")))


def statements(body: Sequence[ast.AST], *, for_types: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement of a file, and whether only the type checker reads it.

    Imports are statements, and statements stand in these lists only: expressions are most of a file.
    """
    for node in body:
        below = for_types or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        yield node, for_types
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from statements(getattr(node, field, ()), for_types=below)


@cache
def import_statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    found = statements(ast.parse(path.read_text()).body)
    return [(node, types) for node, types in found if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path, *, types: bool = True) -> Iterator[str]:
    """Every module that a file imports, in full; `from . import x` names x."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node, for_types in import_statements(path):
        if for_types and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            full = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                below = f"{full}.{alias.name}"
                yield below if below in MODULES else full


MODULES = {module_name(path): path for path in python_files(PLUGINS)}
GRAPH = {name: set(imports(path)) for name, path in MODULES.items()}
EAGER = {name: set(imports(path, types=False)) & set(MODULES) for name, path in MODULES.items()}
NODE_MODULES = sorted(name for name in MODULES if name.startswith(f"{NODE}."))


def layer(module: str) -> str:
    """node.resources.paths -> resources."""
    return module.removeprefix(f"{NODE}.").split(".")[0]


@pytest.mark.parametrize("module", NODE_MODULES, ids=lambda name: name.removeprefix(f"{NODE}."))
def test_a_module_of_the_node_imports_only_what_its_layer_may(module: str) -> None:
    assert layer(module) in ALLOWED, "a new layer: give it a row in the table"
    ours = {name for name in GRAPH[module] if name.startswith(f"{OURS}.")}
    others = {name.split(".")[0] for name in GRAPH[module] - ours}
    others -= {"yaml"} if module == f"{NODE}.commands.yaml_file" else set()  # where the machine has it
    assert others <= sys.stdlib_module_names, "on the node there is only the standard library"
    assert all(name.startswith(f"{NODE}.") for name in ours), "the node's code stands alone"
    may = {*ALLOWED[layer(module)], layer(module), "dataclass"}
    assert {layer(name) for name in ours} <= may
    assert "dataclasses" not in others or layer(module) == "dataclass", "the node has a light one"


def test_the_table_names_exactly_the_layers_that_exist() -> None:
    existing = {layer(name) for name in NODE_MODULES}
    assert set(ALLOWED) == existing
    assert set().union(*ALLOWED.values()) <= existing


def test_imports_within_the_node_are_relative() -> None:
    for name in NODE_MODULES:
        text = MODULES[name].read_text()
        assert OURS not in text, f"{name}: the same files run as the plain command"


def test_there_are_no_cycles() -> None:
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"cycle: {' -> '.join((*above, name))}"
        if name not in done:
            for imported in sorted(EAGER[name]):
                visit(imported, (*above, name))
            done.add(name)

    for module in MODULES:
        visit(module, ())


def reached(start: str) -> set[str]:
    """All files of ours that a file imports, directly or not."""
    found: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += GRAPH[name] & set(MODULES)
            package = name.rpartition(".")[0]
            todo += [package] if package in MODULES else []
    return found


def test_the_command_uses_everything_of_the_node() -> None:
    """All of it is installed on every machine."""
    assert set(NODE_MODULES) - reached(f"{NODE}.cli") == set()


BODIES = {name.rpartition(".")[2]: name for name in MODULES if name.startswith(f"{ON_MACHINE}.")}
ON_MACHINES = sorted(set(BODIES) & {path.stem for path in python_files(PLUGINS / "modules")})


@pytest.mark.parametrize("body", sorted(BODIES))
def test_what_a_module_does_on_a_machine_imports_the_node_only(body: str) -> None:
    """It comes to the machine in the same archive, where the collection and Ansible have no names."""
    name = BODIES[body]
    assert OURS not in MODULES[name].read_text(), "its name differs in the archive"
    for imported in imports(MODULES[name], types=False):
        assert (
            imported.startswith((f"{NODE}.", f"{ON_MACHINE}."))
            or imported.split(".")[0] in sys.stdlib_module_names
        ), imported
    assert body not in ON_MACHINES or "def run(module: AnsibleModule) -> None:" in MODULES[name].read_text()


@pytest.mark.parametrize("module", sorted(set(ON_MACHINES) - {"flexnode_node"}))
def test_a_module_of_the_machine_does_not_import_the_node(module: str) -> None:
    """Ansible would pack it, which takes seconds. flexnode_node works from the controller as well."""
    found = reached(f"{OURS}.modules.{module}")
    assert not [name for name in found if f"{name}.".startswith((f"{NODE}.", f"{ON_MACHINE}."))]
    assert f"{OURS}.module_utils.node_code" in found


@pytest.mark.parametrize("path", python_files(PLUGINS / "modules"), ids=lambda path: path.stem)
def test_a_module_imports_ansible_basic_and_our_own_code_only(path: Path) -> None:
    allowed = {"ansible.module_utils.basic", "yaml"}
    for name in imports(path):
        assert (
            name in allowed
            or name.startswith(f"{OURS}.module_utils.")
            or name.split(".")[0] in sys.stdlib_module_names
        ), name


def test_nothing_that_is_shipped_imports_the_testbed_or_the_tests() -> None:
    for name, imported in GRAPH.items():
        assert not any(other.split(".")[0] in ("testbed", "tests", "scripts") for other in imported), name


def test_the_node_side_never_uses_ansible() -> None:
    for name in NODE_MODULES:
        assert not any(other.split(".")[0] == "ansible" for other in GRAPH[name]), name
