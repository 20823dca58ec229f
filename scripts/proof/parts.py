# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the proof. A new one is one line in `parts()`.

Each says what it covers: a diff outside of that can not change its result, so it is not run again for it. In
doubt a part covers more. The order is that in which they run: what is soon known comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.checkout import ROOT
from scripts.core_lines import LINES
from scripts.proof.results import Reader, of_molecule, of_mutation, of_pytest, of_sanity, of_selected

PRODUCT = ("plugins/", "roles/", "playbooks/", "meta/", "galaxy.yml", "requirements.txt", "ansible.cfg")
NODE = ("plugins/module_utils/node/",)
TESTS = ("pyproject.toml", "requirements/test.txt", "requirements/collections.txt", "tests/conftest.py")
# What testbed and tests import: the rest of scripts/ decides nothing there.
BUILDERS = tuple(f"scripts/{name}.py" for name in ("__init__", "build_agent", "build_collection", "checkout"))
LINES_OF_CORE = tuple(f"scripts/{name}.py" for name in ("__init__", "checkout", "core_lines", "sanity"))
OF_NODE_TESTS = ("tests/contract/recorded/", "testbed/__init__.py", "testbed/vpn/*.py")
ALOUD = "tests/aloud.py"
TESTBED = (
    *("testbed/", "awx/", "docs/examples/", *BUILDERS),
    *("requirements/azure.txt", "requirements/runtime.txt", "requirements/ee.txt"),
)
UNIT = ("*",)  # they read pages, targets, workflows and all other tests
FAULTS = (*NODE, *TESTS, *OF_NODE_TESTS, "tests/faults/", "tests/unit/node/")
REST = (*FAULTS, "plugins/", "scripts/docs/", *BUILDERS, "docs/errors.md", "tests/e2e/", "tests/unit/")
CONTRACT = (*PRODUCT, *TESTS, *TESTBED, ALOUD, "requirements/preview.txt", "tests/contract/")
# The crash matrix, by operation; what is none of these is `faults/rest`, so that nothing is left out.
OPERATIONS = ("bootstrap", "update", "rotation", "poll", "drift", "unbootstrap", "turn", "pull")
ROLLBACK = "rolled_back"
MATRIX, VPN = "tests/faults/test_crash_matrix.py", "tests/faults/test_vpn_crash.py"
MUTATED = ("engine", "config", "operations")


@dataclass(frozen=True)
class Part:
    """Something exhaustive that can be run by itself."""

    name: str
    command: tuple[str, ...]
    covers: tuple[str, ...]
    minutes: float
    """About how long on two cores, until its own time is known."""
    reads: Reader = of_pytest

    @property
    def log_name(self) -> str:
        """Its output, in build/."""
        return f"proof-{self.name.replace('/', '-')}.log"


def parts() -> list[Part]:
    """All of them."""
    return [
        *(core_line("sanity", line, ("-m", "scripts.sanity"), SANITY, 8, of_sanity) for line in LINES),
        *(core_line("unit", line, unit_tests(line), UNIT, 9, reader_of(unit_tests(line))) for line in LINES),
        *(crashes(operation) for operation in OPERATIONS),
        pytest("faults/rollback", FAULTS, 5, *SPREAD, "-k", ROLLBACK, MATRIX),
        pytest("faults/vpn", FAULTS, 8, *SPREAD, VPN),
        pytest("faults/rest", REST, 8, *SPREAD, "-k", OTHERS, f"--ignore={VPN}", "tests/faults"),
        pytest("contract", CONTRACT, 15, "tests/contract"),
        *end_to_end(),
        *molecule(),
        Part("mutation", ("python", "-m", "scripts.mutation"), MUTATION, 60, of_mutation),
    ]  # fmt: skip


PYTEST = ("-m", "pytest")
OF_ANSIBLE = tuple(f"tests/unit/{part}" for part in ("action", "awx", "modules", "playbooks"))
SPREAD = ("-n", "auto", "--dist", "worksteal")
# All that is in the tarball, also its pages.
SANITY = (*PRODUCT, "docs/", "awx/", "*.md", "LICENSE", "tests/config.yml", *LINES_OF_CORE, "requirements/")
MUTATION = (
    *(*NODE, *TESTS, *OF_NODE_TESTS, "tests/unit/node/", "requirements/mutation.txt"),
    *("scripts/mutation/", "scripts/docs/", *LINES_OF_CORE, "scripts/test.py"),
)


def pytest(name: str, covers: tuple[str, ...], minutes: float, *arguments: str) -> Part:
    """Tests."""
    command = ("python", *PYTEST, *arguments)
    return Part(name, command, covers, minutes, reader_of(command))


def reader_of(command: tuple[str, ...]) -> Reader:
    """Tests may be deselected where pytest is told to."""
    told = command[command.index("pytest") :]
    return of_selected if {"-k", "-m"} & set(told) else of_pytest


def core_line(
    kind: str,
    line: str,
    command: tuple[str, ...],
    covers: tuple[str, ...],
    minutes: float,
    reads: Reader = of_pytest,
) -> Part:
    """The same with ansible-core of one line, in an environment of its own."""
    runs = ("python", "-m", "scripts.core_lines", line, *command)
    return Part(f"{kind}/core-{line}", runs, (*covers, "requirements/core.txt"), minutes, reads)


def unit_tests(line: str) -> tuple[str, ...]:
    """All with the oldest and with the newest, where also what is exhaustive; between, what runs Ansible."""
    oldest, *_, newest = LINES
    marked = () if line == newest else ("-m", "not exhaustive")
    tests = ("tests/unit",) if line in (oldest, newest) else OF_ANSIBLE
    return (*PYTEST, "-n", "auto", *marked, *tests)


def crashes(operation: str) -> Part:
    """One operation of the crash matrix."""
    return pytest(f"faults/{operation}", FAULTS, 6, *SPREAD, "-k", named(operation), MATRIX)


def named(operation: str) -> str:
    """What selects an operation by the names of its sets of values: `every moment-update-fresh`."""
    longer = [other for other in OPERATIONS if other != operation and other.endswith(operation)]
    return " and not ".join(f"{name}-" for name in (operation, *longer))


OTHERS = f"not ({' or '.join([*(f'{operation}-' for operation in OPERATIONS), ROLLBACK])})"


def end_to_end() -> Iterator[Part]:
    """Each file of tests/e2e is a part: it covers the helpers, and of other tests only what it imports."""
    for file in sorted(ROOT.glob("tests/e2e/test_*.py")):
        names = sorted(str(found.relative_to(ROOT)) for found in imported(file))
        covers = (*PRODUCT, *TESTS, *TESTBED, ALOUD, "tests/e2e/", "!tests/e2e/test_*.py", *names)
        tests = len(re.findall(r"^ *def test_", file.read_text(encoding="utf-8"), re.MULTILINE))
        yield pytest(f"e2e/{file.stem}", covers, 3 + tests / 2, f"tests/e2e/{file.name}")


def imported(file: Path, seen: frozenset[Path] = frozenset()) -> set[Path]:
    """A test file, and all test files that it imports, at whatever distance."""
    found = {file}
    text = file.read_text(encoding="utf-8")
    modules = re.findall(r"^ *from (tests[\w.]*) import|^ *import (tests[\w.]*)", text, re.MULTILINE)
    for name in filter(None, (first or second for first, second in modules)):
        other = ROOT / f"{name.replace('.', '/')}.py"
        if other.is_file() and other not in seen | found:
            found |= imported(other, seen | found)
    return found


def molecule() -> Iterator[Part]:
    """Each platform is a part."""
    scenarios = [file.parent.name for file in sorted(ROOT.glob("molecule/*/molecule.yml"))]
    others = tuple(f"!molecule/{name}/" for name in scenarios)
    for name in scenarios:
        covers = (*PRODUCT, *TESTBED, "requirements/test.txt", "molecule/", *others, f"molecule/{name}/")
        yield Part(f"molecule/{name}", ("python", "molecule/run.py", name), covers, 8, of_molecule)
