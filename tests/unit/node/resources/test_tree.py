# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Versions of software in directories of their own, and our own program beside them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kinds import KINDS
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import (
    Program,
    byte_code_of,
    digest_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import (
    Manifest,
    Tree,
    place_of,
)
from tests.faults.dying import Watch
from tests.unit.node.fakes import Machine

TOOL = "/opt/aks-flex-node/versions/tool"


def a_tree(build: str = "one", *names: str) -> Tree:
    digest = hashlib.sha256(build.encode()).hexdigest()
    artifact = Artifact("tool", "1.0.0", "amd64", "https://x.example/tool.tar.gz", digest, "tar.gz")
    return Tree(place_of(artifact), artifact, tuple((name, name) for name in names or ("tool", "helper")))


PATH = a_tree().path


def stage(machine: Machine, tree: Tree) -> None:
    """What the fetcher does."""
    for _, name in tree.members:
        machine.put(f"{tree.staging}/{name}", f"{name} of {tree.artifact.sha256}", 0o755)
    digests = {name: machine.host.sha256(f"{tree.staging}/{name}") for _, name in tree.members}
    Manifest.write(machine.host, tree.staging, tree.artifact.sha256, digests)


def install(machine: Machine, tree: Tree) -> None:
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True, exist_ok=True)
    machine.store.journal.record([tree])
    stage(machine, tree)
    tree.apply(machine.host)


@contextmanager
def always(holds: Callable[[], bool]) -> Iterator[list[str]]:
    """The moments, between any two changes of files, at which something did not hold."""
    wrong: list[str] = []
    watch = Watch(lambda _number, where: None if holds() else wrong.append(where))
    with watch.system_calls():
        yield wrong
    assert watch.moments > 1


def test_a_staged_tree_takes_its_place(machine: Machine) -> None:
    tree = a_tree()
    assert tree.observe(machine.host) == "absent"
    change = tree.difference("absent")
    assert change is not None
    assert (change.sentence, change.before) == ("install tool 1.0.0", "")
    assert tree.artifact.sha256 in change.after
    install(machine, tree)
    assert tree.observe(machine.host) == "complete"
    assert machine.host.names(TOOL) == (f"1.0.0-{tree.artifact.sha256[:12]}",)


def test_another_build_of_the_same_version_is_a_version_of_its_own(machine: Machine) -> None:
    one, two = a_tree("one"), a_tree("two")
    install(machine, one)
    assert two.observe(machine.host) == "absent"
    install(machine, two)
    assert [tree.observe(machine.host) for tree in (one, two)] == ["complete", "complete"]
    assert set(machine.host.names(TOOL)) == {f"1.0.0-{tree.artifact.sha256[:12]}" for tree in (one, two)}


def test_a_member_more_is_a_difference_and_is_added(machine: Machine) -> None:
    install(machine, a_tree("one", "tool"))
    both = a_tree("one", "tool", "helper")
    assert both.observe(machine.host) == "incomplete"
    install(machine, both)
    assert both.observe(machine.host) == "complete"


def test_a_damaged_tree_is_repaired_in_place_and_its_files_are_there_at_any_moment(machine: Machine) -> None:
    tree = a_tree()
    install(machine, tree)
    intact = machine.host.stat(f"{PATH}/helper").fingerprint
    machine.put(f"{PATH}/tool", "damaged", 0o755)
    assert tree.observe(machine.host) == "changed: tool"
    stage(machine, tree)
    with always(machine.path(f"{PATH}/tool").is_file) as wrong:
        tree.apply(machine.host)
    assert wrong == []
    assert tree.observe(machine.host) == "complete"
    assert machine.host.stat(f"{PATH}/helper").fingerprint == intact  # what is intact is not touched
    noted = Manifest.read(machine.host, PATH)
    assert noted is not None
    now = machine.host.stat(f"{PATH}/tool").fingerprint
    assert tuple(noted.files["tool"]["fingerprint"]) == now  # so that it is not read at every drift check
    assert machine.host.stat(tree.staging).absent


@pytest.mark.parametrize("in_the_way", ["directory", "file", "link"])
def test_what_is_in_the_way_of_a_tree_is_removed(machine: Machine, in_the_way: str) -> None:
    if in_the_way == "directory":
        machine.put(f"{PATH}/tool/inside")
    elif in_the_way == "file":
        machine.put(PATH)
    else:
        machine.put("/elsewhere/tool", "not ours")
        machine.path(TOOL).mkdir(parents=True)
        machine.path(PATH).symlink_to(machine.path("/elsewhere"))
    install(machine, a_tree())
    assert a_tree().observe(machine.host) == "complete"
    assert machine.host.stat(PATH).is_ == "directory"
    if in_the_way == "link":
        assert machine.text("/elsewhere/tool") == "not ours"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"artifact": "x"}'])
def test_a_tree_without_a_readable_manifest_is_absent(machine: Machine, damage: str) -> None:
    install(machine, a_tree())
    machine.put(f"{PATH}/.manifest.json", damage)
    assert a_tree().observe(machine.host) == "absent"
    install(machine, a_tree())
    assert a_tree().observe(machine.host) == "complete"


def test_damage_is_found_and_the_same_content_written_again_is_none(machine: Machine) -> None:
    tree = a_tree()
    install(machine, tree)
    content = machine.text(f"{PATH}/tool")
    machine.put(f"{PATH}/tool", content, 0o755)
    assert tree.observe(machine.host) == "complete"
    machine.put(f"{PATH}/tool", content.replace("tool", "evil"), 0o755)
    assert tree.observe(machine.host) == "changed: tool"
    machine.put(f"{PATH}/tool", content, 0o644)
    assert tree.observe(machine.host) == "changed: tool"
    machine.path(f"{PATH}/tool").unlink()
    machine.path(f"{PATH}/tool").symlink_to("helper")
    assert tree.observe(machine.host) == "changed: tool"


@pytest.mark.parametrize("manifest", [None, "", json.dumps({"artifact": "another", "files": {}})])
def test_a_tree_goes_whatever_became_of_it(machine: Machine, manifest: str | None) -> None:
    install(machine, a_tree("one"))
    if manifest is not None:
        machine.put(f"{PATH}/.manifest.json", manifest)
    (taken,) = restore_host(machine.host, machine.store)
    assert taken.outcome == "removed"
    assert not machine.path(PATH).exists()
    assert restore_host(machine.host, machine.store) == []


# -- our own program ---------------------------------------------------------------------------------------

FILES = {"run": b"#!/bin/true\n", "lib/a.py": b"a", "lib/sub/b.py": b"b"}


def test_a_program_is_installed_whole_and_repaired(machine: Machine) -> None:
    machine.path("/opt/app").mkdir(parents=True)
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True)
    program = Program("/opt/app", FILES, "run")
    assert program.path == f"/opt/app/{digest_of(FILES)}"
    machine.store.journal.record([program])
    program.apply(machine.host)
    assert program.difference(program.observe(machine.host)) is None
    modes = {name: machine.host.stat(f"{program.path}/{name}").mode for name in FILES}
    assert modes == {"run": 0o755, "lib/a.py": 0o644, "lib/sub/b.py": 0o644}
    assert machine.host.names("/opt/app") == (digest_of(FILES),)
    machine.put(f"{program.path}/lib/a.py", "tampered")
    assert program.observe(machine.host) == ["lib/a.py"]
    program.apply(machine.host)
    assert program.observe(machine.host) == []
    restore_host(machine.host, machine.store)
    assert machine.host.names("/opt/app") == ()


def written(path: Path) -> tuple[int, int, int]:
    """What shows that a file was written again; reading it changes only the time of its last access."""
    return path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_ctime_ns


def test_a_program_is_repaired_file_by_file_and_runs_at_any_moment(machine: Machine) -> None:
    program = Program("/opt/app", FILES, "run")
    program.apply(machine.host)
    run, library = machine.path(f"{program.path}/run"), machine.path(f"{program.path}/lib/sub/b.py")
    before = written(library)
    machine.put(f"{program.path}/lib/a.py", "tampered")
    machine.put(f"{program.path}/lib/__pycache__/a.pyc", "of the tampered file")
    run.chmod(0o644)
    assert program.observe(machine.host) == ["run", "lib/a.py"]
    with always(lambda: run.is_file() and library.is_file()) as wrong:
        program.apply(machine.host)
    assert wrong == []
    assert program.observe(machine.host) == []
    assert written(library) == before
    assert machine.host.names(f"{program.path}/lib") == ("a.py", "sub")


def test_what_is_in_the_way_of_a_program_is_removed(machine: Machine) -> None:
    program = Program("/opt/app", FILES, "run")
    machine.put(f"{program.path}/lib/sub", "a file where a directory belongs")
    machine.put(f"{program.path}/run/inside", "a directory where a file belongs")
    machine.path(f"{program.path}/run").chmod(0o755)
    program.apply(machine.host)
    assert program.observe(machine.host) == []
    machine.host.remove_tree(program.path)
    machine.put(program.path, "a file where the program belongs")
    program.apply(machine.host)
    assert program.observe(machine.host) == []


PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
COMPILED = [byte_code_of(name, PYTHON) for name in ("lib/a.py", "lib/sub/b.py")]


def test_byte_code_is_where_python_looks_for_it(tmp_path: Path) -> None:
    """The poll service can't write below /opt: without byte code it would compile the program every 30 s."""
    host = Host(str(tmp_path), runner=lambda argv, *_: really_compiled(tmp_path, argv))
    sources = {"run": b"import lib.a\n", "lib/__init__.py": b"", "lib/a.py": b"print('as installed')\n"}
    program = Program("/opt/app", sources, "run", compiled_for=PYTHON)
    program.apply(host)
    assert program.observe(host) == []
    assert host.names("/opt/app") == (digest_of(sources),)
    place = f"{tmp_path}{program.path}"
    start = f"import sys; sys.path[:0] = [{place!r}]; import lib.a"
    run = [sys.executable, "-I", "-B", "-v", "-c", start]
    said = subprocess.run(run, capture_output=True, text=True, check=True)
    assert (said.stdout, f"matches {place}/lib/a.py" in said.stderr) == ("as installed\n", True)
    Path(place, "lib/a.py").write_text("print('tampered')\n")
    said = subprocess.run(run, capture_output=True, text=True, check=True)
    assert said.stdout == "tampered\n", "byte code of another source is not used"


def really_compiled(root: Path, argv: Sequence[str]) -> Completed:
    """Byte code in a directory below the root, by the Python of these tests."""
    run = [sys.executable, *argv[1:-1], f"{root}{argv[-1]}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)


def test_byte_code_is_added_to_a_program_that_has_none(machine: Machine) -> None:
    """A node that begins to poll; or one whose system got another Python."""
    Program("/opt/app", FILES, "run").apply(machine.host)
    program = Program("/opt/app", FILES, "run", compiled_for=PYTHON)
    assert program.observe(machine.host) == COMPILED
    program.apply(machine.host)
    assert program.observe(machine.host) == []
    assert Program("/opt/app", FILES, "run").observe(machine.host) == [], "more than it needs"


def test_a_repaired_file_is_compiled_again(machine: Machine) -> None:
    program = Program("/opt/app", FILES, "run", compiled_for=PYTHON)
    program.apply(machine.host)
    machine.put(f"{program.path}/lib/a.py", "tampered")
    machine.put(f"{program.path}/{COMPILED[0]}", "of the tampered file")
    assert program.observe(machine.host) == ["lib/a.py"]
    program.apply(machine.host)
    assert program.observe(machine.host) == []
    assert machine.host.text(f"{program.path}/{COMPILED[0]}") == ""


def test_exactly_what_has_its_digest_in_its_path_is_content_addressed() -> None:
    addressed = {name for name, kind in KINDS.items() if kind.content_addressed}
    assert addressed == {"tree", "program"}


def test_what_a_crash_left_in_staging_is_not_installed(machine: Machine) -> None:
    machine.put("/opt/app/.staging/half", "x")
    program = Program("/opt/app", FILES, "run")
    program.apply(machine.host)
    assert machine.host.names(program.path) == ("lib", "run")


@given(
    st.dictionaries(st.text("ab/", min_size=1), st.binary(max_size=3), max_size=3),
    st.dictionaries(st.text("ab/", min_size=1), st.binary(max_size=3), max_size=3),
)
def test_the_digest_names_exactly_these_files(one: dict[str, bytes], other: dict[str, bytes]) -> None:
    assert (digest_of(one) == digest_of(other)) == (one == other)
    assert digest_of(dict(reversed(one.items()))) == digest_of(one)
