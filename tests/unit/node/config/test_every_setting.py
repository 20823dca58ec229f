# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every setting has an effect or is refused: each is read by code outside of config/, or FLEX-1105 names it.

The code is read, not run: chains such as `config.node.kubelet.verbosity`, also through local names, through
parameters that are annotated with the type of a section, and through properties of the sections.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import UNSUPPORTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import Section, members

ROOT = Path(__file__).parents[4]
CONFIG = ROOT / "plugins/module_utils/node/config"
# Read in another way: the file, and the words in it that do so.
OTHERWISE = {
    "azure.servicePrincipal.clientCertificateFile": ("identity/choice.py", '"client_certificate_file"'),
    "azure.arc.autoRoleAssignment": ("../on_machine/arc_request.py", "autoRoleAssignment"),
    "agent.logDir": ("config/parse.py", "agent.log_dir or"),  # it becomes paths.logDir
    "azure.machines.apply": ("follow/machine.py", 'AT_ONCE = "at-once"'),  # a poll does not parse
    "azure.vpn.gatewaySKU": ("../controller/needs/vpn.py", 'vpn.get("gatewaySKU")'),
    "kubernetesAuth.useAzureAuth": ("config/choices.py", "use_azure_auth"),
}


def sections(model: type[Any], path: str = "", names: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """(path as documents spell it, attribute names, type of the section) of every setting."""
    for attribute, spec in members(model):
        here = f"{path}{spec.key}"
        if isinstance(spec, Section):
            yield from sections(spec.model, f"{here}.", (*names, attribute))
        else:
            yield here, (*names, attribute), model


SETTINGS = list(sections(NodeConfig))
NAMES = {path: names for path, names, _model in SETTINGS}
TYPES = {model.__name__: names[:-1] for _path, names, model in SETTINGS}


class Reads(ast.NodeVisitor):
    """The chains of attributes that a file reads, with local names replaced by what they stand for."""

    def __init__(self) -> None:
        self.found: set[tuple[str, ...]] = set()
        self.local: dict[str, tuple[str, ...]] = {}

    def chain(self, node: ast.AST) -> tuple[str, ...]:
        if isinstance(node, ast.Attribute):
            return (*self.chain(node.value), node.attr)
        if isinstance(node, ast.Name):
            return self.local.get(node.id, (node.id,))
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            return self.chain(node.values[0] if isinstance(node, ast.BoolOp) else node.body)
        return ()

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.found.add(self.chain(node))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self.local = self.local, dict(self.local)
        for parameter in (*node.args.args, *node.args.kwonlyargs):
            name = ast.unparse(parameter.annotation).split(" ")[0] if parameter.annotation else ""
            if name in TYPES:
                self.local[parameter.arg] = TYPES[name]
        self.generic_visit(node)
        self.local = before

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            pairs = (
                zip(target.elts, node.value.elts, strict=False)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            for name, value in pairs:
                if isinstance(name, ast.Name) and (chain := self.chain(value)):
                    self.local[name.id] = chain

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        if chain := self.chain(node.value):
            self.local[node.target.id] = chain


def reads_of(tree: ast.AST) -> set[tuple[str, ...]]:
    reads = Reads()
    reads.visit(tree)
    return reads.found


def outside() -> set[tuple[str, ...]]:
    """Every chain that is read outside of config/, and what the properties of the sections read for it."""
    found: set[tuple[str, ...]] = set()
    for file in (ROOT / "plugins").rglob("*.py"):
        if CONFIG not in file.parents and "__pycache__" not in file.parts:
            found |= reads_of(ast.parse(file.read_text()))
    words = {chain[-1] for chain in found if chain}
    for file in (CONFIG / "model.py", *(CONFIG / "sections").glob("*.py")):
        for section in ast.walk(ast.parse(file.read_text())):
            if isinstance(section, ast.ClassDef) and section.name in {*TYPES, "NodeConfig"}:
                above = TYPES.get(section.name, ())
                for function in section.body:
                    if isinstance(function, ast.FunctionDef) and function.name in words:
                        found |= {
                            (*above, *chain[1:]) for chain in reads_of(function) if chain[:1] == ("self",)
                        }
    return found


@pytest.fixture(scope="module")
def read() -> set[tuple[str, ...]]:
    return outside()


def is_read(names: tuple[str, ...], read: set[tuple[str, ...]]) -> bool:
    """Whether a chain contains this setting after the name of its section."""
    tail = names[-2:]
    return any(chain[at : at + len(tail)] == tail for chain in read for at in range(len(chain)))


@pytest.mark.parametrize("path", sorted(NAMES))
def test_a_setting_has_an_effect_or_is_refused(path: str, read: set[tuple[str, ...]]) -> None:
    if path in OTHERWISE:
        file, words = OTHERWISE[path]
        assert words in (ROOT / "plugins/module_utils/node" / file).read_text()
        return
    refused = any(path == name or path.startswith(f"{name}.") for name in UNSUPPORTED)
    assert refused or is_read(NAMES[path], read), (
        "no code reads it: give it an effect, or refuse it in config/available.py"
    )


def test_a_setting_that_nothing_reads_is_found(read: set[tuple[str, ...]]) -> None:
    """The scan itself: names that exist, in a section that does not have them, are not taken for a read."""
    assert is_read(("node", "max_pods"), read)
    assert not is_read(("pull", "version"), read)
    assert not is_read(("drift", "max_pods"), read)
