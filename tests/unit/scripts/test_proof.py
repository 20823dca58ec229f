# SPDX-License-Identifier: GPL-3.0-or-later
"""make proof: what is stale, what a diff touches, how long it takes, what is recorded, how it is stopped."""

from __future__ import annotations

import ast
import functools
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from scripts.checkout import ROOT, shipped_files
from scripts.proof import __main__ as command
from scripts.proof import child, record, run, tree
from scripts.proof.child import Ended
from scripts.proof.parts import MUTATED, OPERATIONS, Part, imported, parts
from scripts.proof.plan import Progress, State, Unknown, chosen, due, estimate, state_of, succeeded, touched
from scripts.proof.record import Row
from scripts.proof.results import (
    FAILED,
    NOT_RUN,
    PASSED,
    Result,
    of_molecule,
    of_mutation,
    of_pytest,
    of_sanity,
    of_selected,
    published,
    read,
)

ENGINE = Part("faults/update", ("python", "update"), ("engine/", "!engine/README.md"), 10)
ROLES = Part("e2e/test_join", ("python", "join"), ("engine/", "roles/*.yml"), 4)
ROW = Row("faults/update", PASSED, "3 passed", "0123abcd", "c0", "2026-11-19 17:00", 61.0, 100.0)


# --- what a part covers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("plugins/a/b.py", True),
        ("plugins.md", False),
        ("plugins/old/b.py", False),
        ("plugins/old/kept.py", True),
        ("tests/test_a.py", True),
        ("tests/conftest.py", False),
        ("docs/proof.json", False),
    ],
)
def test_the_last_pattern_that_fits_decides(path: str, covered: bool) -> None:
    patterns = ("plugins/", "!plugins/old/", "plugins/old/kept.py", "tests/test_*.py", "docs/")
    assert tree.covers(patterns, path) is covered


def test_a_part_is_outdated_by_what_it_covers_only() -> None:
    listing = {"engine/a.py": "1", "engine/README.md": "1", "roles/x.yml": "1", "docs/a.md": "1"}
    before = {part.name: run.content_of(part, listing) for part in (ENGINE, ROLES)}
    others = {part.name: run.content_of(part, {**listing, "docs/a.md": "2"}) for part in (ENGINE, ROLES)}
    assert others == before
    role = {part.name: run.content_of(part, {**listing, "roles/x.yml": "2"}) for part in (ENGINE, ROLES)}
    assert role[ENGINE.name] == before[ENGINE.name]
    assert role[ROLES.name] != before[ROLES.name]
    new = run.content_of(ENGINE, {**listing, "engine/new.py": "1"})
    assert new != before[ENGINE.name]
    assert run.content_of(replace(ENGINE, command=("python", "other")), listing) != before[ENGINE.name]


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (None, State.NEVER),
        (ROW, State.PROVEN),
        (replace(ROW, content="c1"), State.OLDER),
        (replace(ROW, outcome=FAILED), State.FAILED),
        (replace(ROW, outcome=NOT_RUN), State.NOT_RUN),
    ],
)
def test_what_is_known_of_a_part(row: Row | None, state: State) -> None:
    assert state_of(row, "c0") is state


def test_only_what_passed_with_the_files_of_today_is_not_run_again() -> None:
    both, now = [ENGINE, ROLES], {ENGINE.name: "c0", ROLES.name: "c0"}
    assert due(both, {}, now, again=False) == both
    assert due(both, {ENGINE.name: ROW}, now, again=False) == [ROLES]
    assert due(both, {ENGINE.name: ROW}, {**now, ENGINE.name: "c1"}, again=False) == both
    assert due(both, {ENGINE.name: replace(ROW, outcome=FAILED)}, now, again=False) == both
    assert due(both, {ENGINE.name: ROW}, now, again=True) == both


def test_what_a_diff_touches() -> None:
    assert touched([ENGINE, ROLES], ["docs/a.md", "roles/x.yml"]) == {ROLES.name: ["roles/x.yml"]}
    assert list(touched([ENGINE, ROLES], ["engine/a.py"])) == [ENGINE.name, ROLES.name]
    assert touched([ENGINE, ROLES], ["engine/README.md"]) == {ROLES.name: ["engine/README.md"]}
    assert touched([ENGINE, ROLES], []) == {}


def test_parts_are_chosen_by_name_and_by_group() -> None:
    assert chosen([ENGINE, ROLES], []) == [ENGINE, ROLES]
    assert chosen([ENGINE, ROLES], ["e2e/test_join", "faults"]) == [ENGINE, ROLES]
    assert chosen([ENGINE, ROLES], ["faults/"]) == [ENGINE]
    with pytest.raises(Unknown, match="there is no part e2e/test_j: faults/update, e2e/test_join"):
        chosen([ENGINE, ROLES], ["e2e/test_j"])


# --- how long it takes ------------------------------------------------------------------------------------


def test_an_estimate_is_the_last_time_that_it_passed() -> None:
    assert estimate(ENGINE, None) == 600
    assert estimate(ENGINE, ROW) == 61
    assert estimate(ENGINE, replace(ROW, outcome=FAILED, seconds=2)) == 600


def test_what_is_left() -> None:
    assert Progress(1, 3, ran=10, expected=60, then=100).left == 150
    assert Progress(1, 3, ran=90, expected=60, then=100).left == 100, "a part that is late is about to end"


# --- how a part ended -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "output", "result"),
    [
        (0, "== 12 passed in 0.31s ==", Result(PASSED, "12 passed")),
        (
            0,
            "== 12 passed, 1 skipped in 0.31s ==",
            Result(FAILED, "not all of them ran: 12 passed, 1 skipped"),
        ),
        (
            0,
            "== 12 passed, 8 deselected in 0.31s ==",
            Result(FAILED, "not all of them ran: 12 passed, 8 deselected"),
        ),
        (0, "== 3 skipped in 0.31s ==", Result(FAILED, "no test ran (3 skipped)")),
        (5, "== 8 deselected in 0.31s ==", Result(FAILED, "no test ran (8 deselected)")),
        (
            1,
            "FAILED tests/a.py::test_b - assert\n== 1 failed, 2 passed in 0.31s ==",
            Result(FAILED, "1 failed, 2 passed: tests/a.py::test_b"),
        ),
        (4, "usage", Result(FAILED, "status 4")),
        (3, "core-2.20 cannot run here: there is no python3.12", Result(NOT_RUN, "there is no python3.12")),
        # A test that fails may quote these words.
        (1, "core-2.20 cannot run here: x\n== 1 failed in 0.31s ==", Result(FAILED, "1 failed")),
        (3, "E  assert core-2.20 cannot run here: x\n", Result(FAILED, "status 3")),
    ],
)
def test_results_of_tests(status: int, output: str, result: Result) -> None:
    assert read(status, output, of_pytest) == result


def test_only_a_part_that_selects_may_leave_tests_out() -> None:
    selected = "== 12 passed, 8 deselected in 0.31s =="
    assert read(0, selected, of_selected) == Result(PASSED, "12 passed, 8 deselected")
    assert read(0, "== 12 passed, 1 skipped in 0.31s ==", of_selected).outcome == FAILED
    reads = {part.name: part.reads for part in EVERY}
    assert reads["faults/update"] is reads["unit/core-2.17"] is of_selected
    assert reads["contract"] is reads["unit/core-2.21"] is reads["e2e/test_join"] is of_pytest


def test_results_of_others() -> None:
    table = "scenario     seconds  result\nubuntu2204        12  not run: Ubuntu jammy is not reached: x\n"
    assert of_molecule(0, table) == Result(NOT_RUN, "Ubuntu jammy is not reached: x")
    assert of_molecule(1, table).outcome == FAILED
    assert of_molecule(0, "debian12  200  ok").outcome == PASSED
    sanity = "sanity: not run: pslint: nothing to do\nsanity: 40 ran: a, b\n"
    assert of_sanity(0, sanity) == Result(PASSED, "40 sanity tests")
    without = "sanity: not run: pylint: its packages could not be installed: x\nsanity: 33 ran: a, b\n"
    assert of_sanity(0, without) == Result(FAILED, "its packages could not be installed")
    score = "mutation: score 80/100 killed (80 %), of 900 possible\n"
    assert of_mutation(0, score) == Result(PASSED, "80/100 killed (80 %), of 900 possible")
    assert of_mutation(1, score).outcome == FAILED
    assert of_mutation(0, "") == Result(FAILED, "status 0")
    assert of_mutation(0, "mutation: score 0/0 killed (0 %), of 0 possible\n").outcome == FAILED


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Ubuntu jammy is not reached: https://mirror.example/x: no",
            "Ubuntu jammy is not reached: (address) no",
        ),
        ("no answer of pool.mirror.example", "no answer of (host)"),
        ("10.1.2.3:8080 refused", "(address) refused"),
        ("no file /root/somewhere/x", "no file (address)"),
        ("1 failed: tests/e2e/test_a.py::test_b[a.b]", "1 failed: tests/e2e/test_a.py::test_b[a.b]"),
    ],
)
def test_the_record_names_no_address(said: str, shown: str) -> None:
    if "test_b" in said:
        assert published(said).startswith("1 failed: tests/e2e/test_a.py::test_b")
    else:
        assert published(said) == shown


# --- the record -------------------------------------------------------------------------------------------


def test_a_record_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    assert record.load(file) == {}
    other = replace(ROW, part="e2e/test_join", outcome=FAILED, said="1 failed: ä")
    record.save([ROW, other], file)
    assert record.load(file) == {ROW.part: ROW, other.part: other}
    assert file.read_text().index("e2e/test_join") < file.read_text().index("faults/update")
    assert [path.name for path in tmp_path.iterdir()] == ["proof.json"]


def test_a_failure_stays_until_a_later_run_says_otherwise() -> None:
    failed = {ROW.part: replace(ROW, outcome=FAILED)}
    assert record.with_row(failed, replace(ROW, outcome=NOT_RUN)) == failed
    assert record.with_row(failed, ROW) == {ROW.part: ROW}
    worse = replace(ROW, outcome=FAILED, commit="fedcba98")
    assert record.with_row({ROW.part: ROW}, worse) == {ROW.part: worse}


def test_only_what_is_proven_is_a_success() -> None:
    now = {ENGINE.name: "c0"}
    for outcome, plain, allowed in ((PASSED, True, True), (NOT_RUN, False, True), (FAILED, False, False)):
        rows = {ENGINE.name: replace(ROW, outcome=outcome)}
        assert succeeded([ENGINE], rows, now, allow=False) is plain
        assert succeeded([ENGINE], rows, now, allow=True) is allowed
    assert not succeeded([ENGINE], {}, now, allow=True)


# --- a run ------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit."""
    place = tmp_path / "checkout"
    (place / "engine").mkdir(parents=True)
    (place / "engine/a.py").write_text("a")
    (place / "docs").mkdir()
    (place / "docs/a.md").write_text("a")
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "x")
        monkeypatch.setenv(f"{name}_EMAIL", "x@example.com")
    tree.git(place, "init", "--quiet")
    commit(place)
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    return place


def commit(place: Path) -> None:
    tree.git(place, "add", ".")
    tree.git(place, "commit", "--quiet", "-m", "x")


class Commands:
    """Stands in for what would take hours."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.says = {"update": "== 3 passed in 1.00s ==\n", "join": "== 5 passed in 1.00s ==\n"}
        self.meanwhile: dict[str, object] = {}
        self.published: list[str] = []

    def publish(self) -> None:
        self.published.append(self.ran[-1])

    def __call__(self, words: tuple[str, ...], log: Path, **_options: object) -> Ended:
        self.ran.append(words[1])
        act = self.meanwhile.get(words[1])
        if isinstance(act, BaseException) or (isinstance(act, type) and issubclass(act, BaseException)):
            raise act
        if callable(act):
            act()
        log.write_text(self.says[words[1]])
        return Ended(0 if "failed" not in self.says[words[1]] else 1, 60, 90)


def proof_of(place: Path, commands: Commands, *due_now: Part, **options: bool) -> run.Proof:
    file = place / "docs/proof.json"
    allow = options.get("allow", False)
    rows = record.load(file)
    return run.Proof(
        due_now, rows, allow, file=file, checkout=place, execute=commands, publish=commands.publish
    )


def test_each_part_is_written_when_it_has_ended(checkout: Path) -> None:
    commands = Commands()
    commands.meanwhile["join"] = KeyboardInterrupt
    proof = proof_of(checkout, commands, ENGINE, ROLES)
    with pytest.raises(KeyboardInterrupt):
        proof.carry_out()
    rows = record.load(checkout / "docs/proof.json")
    assert list(rows) == [ENGINE.name], "the part that was interrupted is not recorded"
    assert commands.published == ["update"], "the page is as new as the record when the next part begins"
    assert rows[ENGINE.name].commit == tree.head(checkout)
    assert (rows[ENGINE.name].seconds, rows[ENGINE.name].cpu_seconds) == (60, 90)
    # And the next run continues: its own record does not outdate what it proved.
    waiting = due([ENGINE, ROLES], rows, run.contents([ENGINE, ROLES], checkout), again=False)
    assert waiting == [ROLES]
    commit(checkout)
    assert due([ENGINE, ROLES], rows, run.contents([ENGINE, ROLES], checkout), again=False) == [ROLES]


def test_what_is_no_commits_is_not_recorded(checkout: Path) -> None:
    (checkout / "engine/a.py").write_text("b")
    proof = proof_of(checkout, Commands(), ENGINE)
    proof.carry_out()
    assert proof.unrecorded == {ENGINE.name: "passed, not recorded: 3 passed"}
    assert record.load(checkout / "docs/proof.json") == {}


def test_a_change_elsewhere_does_not_matter(checkout: Path) -> None:
    (checkout / "docs/a.md").write_text("b")
    proof = proof_of(checkout, Commands(), ENGINE)
    proof.carry_out()
    assert list(record.load(checkout / "docs/proof.json")) == [ENGINE.name]


@pytest.mark.parametrize("committed", [False, True])
def test_files_that_change_meanwhile_are_noticed(checkout: Path, committed: bool) -> None:
    commands = Commands()

    def edit() -> None:
        (checkout / "engine/new.py").write_text("new")
        if committed:
            commit(checkout)

    commands.meanwhile["update"] = edit
    proof = proof_of(checkout, commands, ENGINE)
    proof.carry_out()
    assert list(proof.unrecorded) == [ENGINE.name]
    assert proof.rows == {}


def test_the_end_of_a_failed_part_is_shown(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands()
    commands.says["update"] = "E  boom\nFAILED tests/a.py::test_b - x\n== 1 failed in 1.00s ==\n"
    proof = proof_of(checkout, commands, ENGINE)
    proof.carry_out()
    said = capsys.readouterr().out
    assert "proof: 1 of 1, faults/update starts, about 10 min 00 s" in said
    assert "E  boom" in said
    assert record.load(checkout / "docs/proof.json")[ENGINE.name].said == "1 failed: tests/a.py::test_b"


def test_a_diff_is_of_the_commit_and_of_the_checkout(checkout: Path) -> None:
    before = tree.head(checkout)
    (checkout / "engine/b.py").write_text("b")
    commit(checkout)
    (checkout / "docs/new.md").write_text("b")
    (checkout / "engine/a.py").unlink()
    assert tree.differing(checkout, before) == ["docs/new.md", "engine/a.py", "engine/b.py"]
    # A branch has not touched what came to main since it left.
    main = tree.head(checkout)
    tree.git(checkout, "stash", "--quiet", "--include-untracked")
    tree.git(checkout, "checkout", "--quiet", "-b", "topic", before)
    (checkout / "engine/c.py").write_text("c")
    commit(checkout)
    assert tree.differing(checkout, main) == ["engine/c.py"]
    with pytest.raises(tree.NoCommit):
        tree.differing(checkout, "no-such-commit")


def test_a_diff_is_only_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--since", "HEAD", "mutation"]) == 0
    assert "of 1 parts cover some of them" in capsys.readouterr().out
    assert command.main(["no-such-part"]) == 2


def test_a_proof_of_files_that_are_no_commits_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "changes", lambda part: ["engine/a.py"] if part == ENGINE else [])
    assert command.prove([ENGINE, ROLES], named=False, again=False, allow=False) == 2
    assert "these files are uncommitted, nothing would be recorded: engine/a.py" in capsys.readouterr().out


def test_two_proofs_do_not_share_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BUILD", tmp_path)
    with command.alone(), pytest.raises(command.Busy), command.alone():
        pass
    with command.alone():
        pass


# --- the command of a part --------------------------------------------------------------------------------

STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (pathlib.Path(sys.argv[1]).write_text("cleaned up"), sys.exit(7)))
print("begun", flush=True)
time.sleep(60)
"""


def nothing(_ran: float) -> None:
    """Nobody listens."""


def test_a_command_is_measured(tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = "import time; t = time.process_time()\nwhile time.process_time() < t + 0.3: pass\nprint('done')"
    told: list[float] = []
    ended = child.run(("python", "-c", work), log, limit=60, tell=told.append, every=0.1)
    assert (ended.status, ended.too_long) == (0, False)
    assert ended.cpu_seconds >= 0.3
    assert told
    assert log.read_text() == "done\n"


@pytest.mark.parametrize("name", child.NOT_INHERITED)
def test_a_command_does_not_inherit_what_selects_other_tests(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    words = ("python", "-c", f"import os; print(os.environ.get({name!r}))")
    child.run(words, tmp_path / "log", limit=60, tell=nothing, every=60)
    assert (tmp_path / "log").read_text() == "None\n"


def test_a_command_that_takes_too_long_is_stopped_and_cleans_up(tmp_path: Path) -> None:
    started = time.monotonic()
    words = ("python", "-c", STUBBORN, str(tmp_path / "clean"))
    ended = child.run(words, tmp_path / "log", limit=2, tell=nothing, every=60)
    assert ended.too_long
    assert (tmp_path / "clean").read_text() == "cleaned up"
    assert time.monotonic() - started < 40


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_stops_its_part(tmp_path: Path, number: signal.Signals) -> None:
    whole = """
import sys
from pathlib import Path
from scripts.proof.__main__ import stoppable
from scripts.proof.child import Stopped, run
try:
    with stoppable():
        run(("python", "-c", sys.argv[1], sys.argv[2]), Path(sys.argv[3]), limit=60, tell=print, every=60)
except (KeyboardInterrupt, Stopped):
    sys.exit(130)
"""
    log = tmp_path / "log"
    words = [sys.executable, "-c", whole, STUBBORN, str(tmp_path / "clean"), str(log)]
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    for _look in range(600):
        if log.exists() and log.read_text():
            break
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(60) == 130
    assert (tmp_path / "clean").read_text() == "cleaned up"


# --- the list ---------------------------------------------------------------------------------------------

EVERY = parts()


def test_every_part_has_a_name_and_a_log_of_its_own() -> None:
    assert len({part.name for part in EVERY}) == len(EVERY) == len({part.log_name for part in EVERY})
    assert all(part.minutes > 0 for part in EVERY)


def test_every_file_and_platform_is_a_part() -> None:
    names = {part.name for part in EVERY}
    files = {f"e2e/{file.stem}" for file in ROOT.glob("tests/e2e/test_*.py")}
    assert files == {name for name in names if name.startswith("e2e/")}
    assert {f"molecule/{p}" for p in ("debian12", "debian13", "ubuntu2204", "ubuntu2404")} <= names
    assert {"contract", "mutation", "unit/core-2.21", "faults/rest"} <= names


def test_every_part_covers_files_that_exist() -> None:
    """A directory that was renamed must not leave its parts proven for ever."""
    listing = [str(path) for path in _tracked()]
    lost = {
        f"{part.name}: {pattern}"
        for part in EVERY
        for pattern in part.covers
        if not any(tree.covers((pattern.lstrip("!"),), p) for p in listing)
    }
    assert lost == set()


def _tracked() -> list[str]:
    from scripts.checkout import own_files

    return [str(path) for path in own_files()]


def test_a_change_of_a_test_file_outdates_that_file_and_those_that_import_it() -> None:
    names = set(touched(EVERY, ["tests/e2e/test_join.py"]))
    assert "e2e/test_join" in names
    assert {name for name in names if name.startswith("e2e/")} < {p.name for p in EVERY}
    assert not {name for name in names if name.startswith(("molecule/", "mutation", "contract"))}
    assert {name for name in names if name.startswith("faults/")} == {"faults/rest"}, "it reads all tests"
    for importer in ROOT.glob("tests/e2e/test_*.py"):
        for name in re.findall(r"^from tests\.e2e\.(test_\w+) import", importer.read_text(), re.MULTILINE):
            assert ROOT / f"tests/e2e/{name}.py" in imported(importer)
            assert f"e2e/{importer.stem}" in touched(EVERY, [f"tests/e2e/{name}.py"])


FROM_COLLECTION = "ansible_collections.aks.flexnode."


@functools.cache
def modules_of(file: Path) -> frozenset[str]:
    """What a file imports, as far as it may be of this checkout."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name.removeprefix(FROM_COLLECTION) for name in found)


@functools.cache
def files_of(module: str) -> frozenset[Path]:
    """The file of a module, and those of the packages that it is in; none if it is not of this checkout."""
    words = module.split(".")
    if words[0] not in ("plugins", "scripts", "testbed", "tests"):
        return frozenset()
    packages = {ROOT.joinpath(*words[:end], "__init__.py") for end in range(1, len(words) + 1)}
    found = (*packages, ROOT.joinpath(*words).with_suffix(".py"))
    return frozenset(path for path in found if path.is_file())


@functools.cache
def reads_of(file: Path) -> tuple[frozenset[Path], frozenset[Path]]:
    """The files that a file imports itself, and with them the packages around these.

    What such a package loads besides decides of nothing but whether it can be loaded.
    """
    whole = frozenset(found for module in modules_of(file) for found in files_of(module))
    named = {Path(*name.split(".")) for name in modules_of(file)}
    direct = {
        path
        for path in whole
        if (path.parent if path.name == "__init__.py" else path.with_suffix("")).relative_to(ROOT) in named
    }
    return frozenset(direct), whole


def begins_with(part: Part) -> set[Path]:
    """The files that a part's command names: tests with their conftest.py, and programs."""
    ignored = {word.partition("=")[2] for word in part.command if word.startswith("--ignore=")}
    found: set[Path] = set()
    for before, word in pairwise(part.command):
        if before == "-m":
            found |= files_of(word) | files_of(f"{word}.__main__")
        path = ROOT / word
        if path.is_dir():
            found |= {*path.rglob("test_*.py"), *path.rglob("conftest.py")}
        elif path.is_file():
            found.add(path)
    if part.name.startswith("molecule/"):
        found |= files_of("testbed.__main__")
    if part.name == "mutation":
        for package in MUTATED:
            found |= set((ROOT / "tests/unit/node" / package).rglob("*.py"))
    found = {path for path in found if str(path.relative_to(ROOT)) not in ignored}
    above = {parent / "conftest.py" for path in found for parent in path.parents}
    return found | {path for path in above if path.is_file() and path.is_relative_to(ROOT)}


@pytest.mark.parametrize("part", EVERY, ids=lambda part: part.name)
def test_a_part_covers_what_its_files_import(part: Part) -> None:
    """At whatever distance: what it does not cover could change its result, and it would stay proven."""
    seen: set[Path] = set()
    around: set[Path] = set()
    waiting = begins_with(part)
    assert waiting
    while waiting:
        file = waiting.pop()
        seen.add(file)
        direct, whole = reads_of(file)
        waiting |= direct - seen
        around |= whole
    names = {str(path.relative_to(ROOT)) for path in seen | around}
    assert {name for name in names if not tree.covers(part.covers, name)} == set()


def test_sanity_covers_all_that_users_get() -> None:
    shipped = {str(path) for path in shipped_files()} - set(tree.WRITTEN)
    for part in EVERY:
        if part.name.startswith("sanity/"):
            assert {path for path in shipped if not tree.covers(part.covers, path)} == set()


def test_unit_tests_cover_everything() -> None:
    """They read pages, the targets, the workflows, and the tests of everything else."""
    for path in ("Makefile", "CONTRIBUTING.md", ".github/workflows/ci.yml", "tests/vm/acts.py", "docs/a.md"):
        assert {part.name for part in EVERY if part.name.startswith("unit/")} <= set(touched(EVERY, [path]))


def test_the_engine_outdates_all_that_runs_it() -> None:
    names = set(touched(EVERY, ["plugins/module_utils/node/engine/transaction.py"]))
    assert names == {part.name for part in EVERY}


def test_every_operation_of_the_crash_matrix_is_a_part() -> None:
    text = (ROOT / "tests/faults/test_crash_matrix.py").read_text()
    matrix = re.search(r"^EVERYWHERE = \((.*?)\)", text, re.MULTILINE | re.DOTALL)
    alike = re.search(r"^ALIKE = \((.*?)\)", text, re.MULTILINE | re.DOTALL)
    assert matrix
    assert alike
    assert set(re.findall(r'"(\w+)"', matrix[1] + alike[1])) == set(OPERATIONS)


@pytest.mark.parametrize(
    ("test", "part"),
    [
        ("test_killed_and_run_again[every moment-bootstrap-fresh]", "bootstrap"),
        ("test_killed_and_run_again[unbootstrap-lived-in]", "unbootstrap"),
        ("test_killed_and_run_again[turn-fresh]", "turn"),
        ("test_an_update_that_is_rolled_back_killed_and_run_again[every moment]", "rollback"),
        ("test_a_real_kill_leaves_what_the_copies_show[3-bootstrap]", "rest"),
        ("test_something_new", "rest"),
    ],
)
def test_every_test_of_the_matrix_is_in_one_part(test: str, part: str) -> None:
    """The parts select by name: what none of them selects would never be proven."""
    selecting = []
    for one in EVERY:
        if one.name.startswith("faults/") and "-k" in one.command:
            words = Expression.compile(one.command[one.command.index("-k") + 1])
            if words.evaluate(lambda word, **_options: str(word) in test):
                selecting.append(one.name)
    assert selecting == [f"faults/{part}"]
