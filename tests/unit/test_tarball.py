# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user of the tarball gets: all that the collection needs, and nothing that only a checkout uses."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from scripts import build_collection

ROOT = Path(__file__).resolve().parents[2]
NEEDED = (
    "LICENSE",
    "README.md",
    "meta/execution-environment.yml",
    "meta/runtime.yml",
    "plugins/modules/flexnode_reconcile.py",
    "requirements.txt",
    "tests/config.yml",
)
# What is for people who work on the collection.
CHECKOUT_ONLY = ("testbed/", "scripts/", "molecule/", "requirements/", "build/", "dist/", ".")
REQUIREMENT = re.compile(r"[A-Za-z][A-Za-z0-9-]*>=\d+(\.\d+)*")
MAKE = re.compile(
    r"\bmake ("
    + "|".join(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    + r")\b"
)
# Pages for people with a checkout; their introduction says so.
PAGES_OF_A_CHECKOUT = {"CONTRIBUTING.md", "docs/benchmarks.md", "docs/testbed.md"}


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every file of a fresh tarball, with its text."""
    path = build_collection.build(tmp_path_factory.mktemp("dist"))
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read().decode() for member in members}  # type: ignore[union-attr]


def test_it_has_all_that_a_user_needs(tarball: dict[str, str]) -> None:
    assert [name for name in NEEDED if name not in tarball] == []
    examples = {f"docs/examples/{path.name}" for path in (ROOT / "docs" / "examples").iterdir()}
    assert examples <= set(tarball)
    for directory in ("playbooks", "roles", "plugins"):
        assert any(name.startswith(f"{directory}/") for name in tarball)


def test_it_has_nothing_of_the_testbed_and_the_tools(tarball: dict[str, str]) -> None:
    strange = [name for name in tarball if name.startswith(CHECKOUT_ONLY)]
    assert strange == []
    assert [name for name in tarball if name.startswith("tests/")] == ["tests/config.yml"]


def test_requirements_are_lower_bounds_without_ansible(tarball: dict[str, str]) -> None:
    """Execution environments bring ansible-core, and combine these lines with other collections'."""
    lines = [line for line in tarball["requirements.txt"].splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not REQUIREMENT.fullmatch(line)] == []
    assert not any(line.startswith("ansible") for line in lines)


def test_every_package_that_controllers_import_is_required(tarball: dict[str, str]) -> None:
    packages = {
        "azure.core": "azure-core",
        "azure.identity": "azure-identity",
        "azure.mgmt.authorization": "azure-mgmt-authorization",
        "azure.mgmt.containerservice": "azure-mgmt-containerservice",
        "azure.mgmt.core": "azure-mgmt-core",
        "azure.mgmt.hybridcompute": "azure-mgmt-hybridcompute",
        "azure.mgmt.network": "azure-mgmt-network",
        "azure.storage.blob": "azure-storage-blob",
        "cryptography": "cryptography",
        "kubernetes": "kubernetes",
        "requests": "requests",
        "yaml": "PyYAML",
    }
    imported = re.compile(
        r"^\s*(?:from|import) ((?:azure|cryptography|kubernetes|msal|requests|yaml)\b[\w.]*)", re.MULTILINE
    )
    required = {line.partition(">=")[0] for line in tarball["requirements.txt"].splitlines()}
    for name, text in tarball.items():
        if not name.startswith("plugins/") or not name.endswith(".py"):
            continue
        for module in imported.findall(text):
            known = [package for prefix, package in packages.items() if f"{module}.".startswith(f"{prefix}.")]
            assert known, f"{name} imports {module}, which requirements.txt does not know"
            assert set(known) <= required, f"{name} imports {module}"


def test_execution_environments_find_the_requirements(tarball: dict[str, str]) -> None:
    metadata = yaml.safe_load(tarball["meta/execution-environment.yml"])
    assert metadata["version"] == 3
    assert all(file in tarball for file in metadata["dependencies"].values())


def test_no_code_tells_users_to_run_make(tarball: dict[str, str]) -> None:
    found = [
        f"{name}: {line.strip()}"
        for name, text in tarball.items()
        if name.startswith(("plugins/", "roles/", "playbooks/"))
        for line in text.splitlines()
        if MAKE.search(line)
    ]
    assert found == []


def test_no_page_tells_users_of_the_tarball_to_run_make(tarball: dict[str, str]) -> None:
    """A section that names a target says that it is for a checkout."""
    found: list[str] = []
    for name, text in tarball.items():
        if not name.endswith(".md"):
            continue
        if name in PAGES_OF_A_CHECKOUT:
            assert "checkout" in text.partition("\n## ")[0], name
            continue
        sections = re.split(r"^(?=#+ )", text, flags=re.MULTILINE)
        found += [
            f"{name}: {section.splitlines()[0]}"
            for section in sections
            if MAKE.search(section) and "checkout" not in section
        ]
    assert found == []


def test_it_installs_and_its_playbooks_are_found(tarball: dict[str, str], tmp_path: Path) -> None:
    path = build_collection.build(tmp_path)
    commands = Path(sys.executable).parent
    environment = {
        "PATH": str(commands),
        "HOME": str(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "c"),
    }
    for command in (
        ["ansible-galaxy", "collection", "install", str(path), "-p", str(tmp_path / "c")],
        ["ansible-playbook", "--syntax-check", "-i", "localhost,", "aks.flexnode.bootstrap"],
    ):
        done = subprocess.run(
            [str(commands / command[0]), *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_links_between_its_pages_lead_to_files_of_it(tarball: dict[str, str]) -> None:
    link = re.compile(r"\[[^\]]*\]\(([^)\s#]+)[^)]*\)")
    fence = re.compile(r"```.*?```", re.DOTALL)
    broken = []
    for name, text in tarball.items():
        if name.endswith(".md"):
            targets = {target for target in link.findall(fence.sub("", text)) if "://" not in target}
            paths = {
                target: posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                for target in targets
            }
            broken += [f"{name}: {target}" for target, path in paths.items() if path not in tarball]
    assert broken == []
