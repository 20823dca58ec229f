# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the code of the node a little, many times, and see whether its tests notice; a part of `make proof`.

Each mutant is tried in a copy of the checkout, outside of which it can write nothing, with the tests of its
package only (tests/unit/node/PACKAGE), those of its own file first. What is chosen depends on a seed and the
code, not on chance. What was tried is kept in build/mutation.json: an interrupted run goes on there.
Survivors: build/mutation-survivors.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.checkout import BUILD, ROOT, copy, own_files
from scripts.core_lines import environment
from scripts.test import spelled

NODE, TESTS = "plugins/module_utils/node", "tests/unit/node"
# How many mutants of each package: an hour on two cores.
SAMPLE = {"engine": 60, "config": 60, "operations": 40}
SEED = 1
FLOOR = 0.5  # below this score, the tests of these packages have become blind
AT_ONCE = 2
LINK = ".collections/ansible_collections/aks/flexnode"
LOCK = ROOT / "requirements" / "mutation.txt"
TRIED, SURVIVORS = BUILD / "mutation.json", BUILD / "mutation-survivors.txt"
KILLED, SURVIVED = "killed", "survived"
# Processor time is what a mutant that never ends is ended by: how long it takes says more of who else uses
# the machine. One that sleeps uses none, so there is a limit for that, too.
PATIENCE, LEAST_SECONDS, ASLEEP = 4, 60.0, 10
MEMORY_BYTES, FILE_BYTES = 4 << 30, 1 << 30
CONTAINED = Path(__file__).with_name("contained.py")
PYTEST = ("-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0")
NOTICED = (1, 2, 3, 4)  # pytest's statuses: tests failed, or could not even begin


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def package(self) -> str:
        """The package of the node that it is in."""
        return self.file.removeprefix(f"{NODE}/").partition("/")[0]

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Where it is, and of what kind: `<` becomes any of five others at the same place."""
        return self.file, self.line, self.column, self.operator.partition("_")[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.operator.removeprefix('core/')}"


def sample(possible: Iterable[Mutant], sizes: Mapping[str, int], seed: int) -> list[Mutant]:
    """The same mutants for the same code: of each package some places, over all of its files, one of each."""
    by_file: dict[str, dict[str, dict[tuple[str, int, int, str], list[Mutant]]]] = {}
    for mutant in sorted(possible):
        places = by_file.setdefault(mutant.package, {}).setdefault(mutant.file, {})
        places.setdefault(mutant.place, []).append(mutant)
    found: list[Mutant] = []
    for package, size in sizes.items():
        waiting = []
        for file, places in sorted(by_file.get(package, {}).items()):
            # Of its own: a change of one file leaves the order in all others as it is.
            chance = random.Random(f"{seed} {file}")  # noqa: S311 - no secret
            ones = [chance.choice(mutants) for _place, mutants in sorted(places.items())]
            chance.shuffle(ones)
            # A file has as much of the sample as it has of the package.
            waiting += [((number + 0.5) / len(ones), one) for number, one in enumerate(ones)]
        found += [one for _rank, one in sorted(waiting)[:size]]
    return found


def tests_of(mutant: Mutant, root: Path) -> list[str]:
    """The tests of its package; first the file that has its name, which is the soonest to notice."""
    folder = f"{TESTS}/{mutant.package}"
    own = f"{folder}/test_{Path(mutant.file).stem}.py"
    files = sorted(str(path.relative_to(root)) for path in (root / folder).rglob("test_*.py"))
    return sorted(files, key=lambda file: (file != own, file))


@dataclass(frozen=True)
class Tried:
    """What became of a mutant."""

    outcome: str
    cpu_seconds: float
    seconds: float


def verdict(status: int | None) -> str:
    """None: it took too long, which somebody would notice."""
    if status is None or status in NOTICED or status < 0:
        return KILLED
    return SURVIVED


def run_tests(root: Path, files: Sequence[str], limit: float) -> tuple[int | None, float, float]:
    """Exit status, processor seconds and seconds of these tests in a copy; `limit`: processor seconds."""
    with tempfile.TemporaryDirectory(prefix="tests-", dir=root.parent) as places:
        command = [sys.executable, "-m", "pytest", *PYTEST, f"--basetemp={places}/pytest", *files]
        limits = ["prlimit", f"--cpu={limit:.0f}", f"--as={MEMORY_BYTES}", f"--fsize={FILE_BYTES}"]
        limits = [*contained(root.parent), *limits]
        started = time.monotonic()
        process = subprocess.Popen(
            [*limits, *command],
            cwd=root,
            env={**os.environ, "TMPDIR": places},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while True:
                pid, raw, usage = os.wait4(process.pid, os.WNOHANG)
                took = time.monotonic() - started
                if pid:
                    process.returncode = os.waitstatus_to_exitcode(raw)
                    return process.returncode, usage.ru_utime + usage.ru_stime, took
                if took > limit * ASLEEP:
                    return None, took, took
                time.sleep(0.1)
        finally:
            end(process)


def contained(directory: Path) -> list[str]:
    """How a command begins that can write nowhere else."""
    alone = ["unshare", "--mount", "--propagation", "private"]
    return [*alone, sys.executable, str(CONTAINED), str(directory)]


def is_contained(directory: Path) -> bool:
    """Whether that holds on this machine: beside the directory nothing can be made."""
    with tempfile.TemporaryDirectory() as beside:
        attempt = ["touch", f"{beside}/file"]
        done = subprocess.run([*contained(directory), *attempt], stderr=subprocess.DEVNULL, check=False)
        return done.returncode != 0 and not any(Path(beside).iterdir())


def end(process: subprocess.Popen[bytes]) -> None:
    """Whatever a mutant left running."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


class Copies:
    """Copies of the checkout in which mutants live, one for each that is tried at a time."""

    def __init__(self, directory: Path) -> None:
        self.free: queue.Queue[Path] = queue.Queue()
        for number in range(AT_ONCE):
            root = directory / str(number) / "checkout"
            copy(own_files(), root)
            (root / LINK).parent.mkdir(parents=True, exist_ok=True)
            if not (root / LINK).is_symlink():
                (root / LINK).symlink_to("../../..")
            self.free.put(root)

    def try_out(self, mutant: Mutant | None, text: str, files: Sequence[str], limit: float) -> Tried:
        """Run tests with a changed file, and put the file back."""
        root = self.free.get()
        before = (root / mutant.file).read_text(encoding="utf-8") if mutant else ""
        try:
            if mutant:
                write(root / mutant.file, text)
            status, cpu, took = run_tests(root, files, limit)
            return Tried(verdict(status), cpu, took)
        finally:
            if mutant:
                write(root / mutant.file, before)
            self.free.put(root)


def write(file: Path, text: str) -> None:
    """Write a file, and drop its byte code: Python compares times only to the second."""
    file.write_text(text, encoding="utf-8")
    for old in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        old.unlink()


def mutants(act: str, *files: str, given: str = "") -> str:
    """What scripts/mutation/mutants.py prints."""
    python = environment("mutation", f"{sys.version_info.major}.{sys.version_info.minor}", [(LOCK, [])])
    command = [str(python), str(Path(__file__).with_name("mutants.py")), act, *files]
    return subprocess.run(
        command, cwd=ROOT, input=given, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def all_possible(packages: Iterable[str]) -> list[Mutant]:
    """Every change of these packages that the operators know."""
    files = [str(file) for file in own_files() for name in packages if file.is_relative_to(f"{NODE}/{name}")]
    return [Mutant(**one) for one in json.loads(mutants("list", *(f for f in files if f.endswith(".py"))))]


def texts(chosen: Sequence[Mutant]) -> list[str]:
    """The changed file of each."""
    found: list[str] = json.loads(mutants("make", given=json.dumps([asdict(one) for one in chosen])))
    return found


def key(mutant: Mutant, text: str, tests: Mapping[str, str]) -> str:
    """Whether a mutant was tried before: with this text, and with these tests."""
    return hashlib.sha256(f"{mutant} {tests[mutant.package]} {text}".encode()).hexdigest()


def digest(package: str) -> str:
    """All code and tests that decide of the mutants of a package."""
    found = hashlib.sha256()
    for file in own_files():
        if file.is_relative_to(NODE) or (file.is_relative_to(TESTS) and under(str(file), package)):
            found.update(f"{file}\n".encode() + (ROOT / file).read_bytes())
    return found.hexdigest()


def under(file: str, package: str) -> bool:
    """Whether a file is of the tests of this package, or of what all tests share."""
    inner = file.removeprefix(f"{TESTS}/")
    return inner.startswith(f"{package}/") or "/" not in inner


def load() -> dict[str, Tried]:
    """What was tried before; a file of another form is none."""
    try:
        return {name: Tried(**found) for name, found in json.loads(TRIED.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError):
        return {}


def save(tried: Mapping[str, Tried]) -> None:
    """After each mutant."""
    temporary = TRIED.with_suffix(".new")
    temporary.write_text(json.dumps({name: asdict(one) for name, one in tried.items()}, indent=1) + "\n")
    os.replace(temporary, TRIED)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", nargs="*", help=f"of {', '.join(SAMPLE)} (default: all)")
    parser.add_argument("--sample", type=int, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    sizes = {name: options.sample or size for name, size in SAMPLE.items()}
    if strange := set(options.package) - set(sizes):
        parser.error(f"no such package: {', '.join(strange)}")
    sizes = {name: size for name, size in sizes.items() if name in (options.package or sizes)}
    BUILD.mkdir(exist_ok=True)
    possible = all_possible(sizes)
    chosen = sample(possible, sizes, options.seed)
    say(f"{len(chosen)} of {len(possible)} mutants, seed {options.seed}")
    if missing := too_few(chosen, sizes):
        say(f"too few mutants, so there is no score: {missing}")
        return 1
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        outcomes = try_all(chosen, Copies(Path(directory)))
    if outcomes is None:
        return 1
    return close(outcomes, len(possible))


def too_few(chosen: Sequence[Mutant], sizes: Mapping[str, int]) -> str:
    """The packages with fewer mutants than the sample wants: the code was moved, or is not read any more."""
    found = {name: sum(one.package == name for one in chosen) for name in sizes}
    return ", ".join(f"{name} {found[name]} of {size}" for name, size in sizes.items() if found[name] < size)


def try_all(chosen: Sequence[Mutant], copies: Copies) -> dict[Mutant, Tried] | None:
    """Try all of them; None if the tests fail without any change."""
    changed = dict(zip(chosen, texts(chosen), strict=True))
    tests = {package: digest(package) for package in {one.package for one in chosen}}
    known = load()
    outcomes = {one: known[name] for one, text in changed.items() if (name := key(one, text, tests)) in known}
    waiting = [one for one in chosen if one not in outcomes]
    say(f"{len(outcomes)} were tried before")
    if not is_contained(copies.free.queue[0].parent):
        say("mutants run as root, and can't be kept from changing this machine here (unshare, mount)")
        return None
    limits = {}
    for package in sorted({one.package for one in waiting}):
        root = copies.free.queue[0]
        files = sorted(str(path.relative_to(root)) for path in (root / TESTS / package).rglob("test_*.py"))
        # The first run also compiles everything, and so is longer than those after it.
        alone = copies.try_out(None, "", files, 3600)
        say(f"{package} without a change: CPU {spelled(alone.cpu_seconds)}")
        if alone.outcome != SURVIVED:
            say(f"the tests of {package} fail without any change")
            return None
        limits[package] = max(PATIENCE * alone.cpu_seconds, LEAST_SECONDS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        root = copies.free.queue[0]
        running = {
            pool.submit(copies.try_out, one, changed[one], tests_of(one, root), limits[one.package]): one
            for one in waiting
        }
        try:
            for number, done in enumerate(as_completed(running), 1):
                one = running[done]
                outcomes[one] = known[key(one, changed[one], tests)] = done.result()
                save(known)
                said = f"{one.file.removeprefix(f'{NODE}/')}:{one.line} {one.operator.removeprefix('core/')}"
                cpu = f"{outcomes[one].cpu_seconds:.0f} s"
                print(
                    f"[{100 * number // len(waiting):3}%] {outcomes[one].outcome:8} {cpu:>5} {said}",
                    flush=True,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcomes


def close(outcomes: Mapping[Mutant, Tried], possible: int) -> int:
    """The score, and who survived."""
    survivors = sorted(one for one, tried in outcomes.items() if tried.outcome == SURVIVED)
    SURVIVORS.write_text("".join(f"{one}\n" for one in survivors), encoding="utf-8")
    for package in dict.fromkeys(one.package for one in outcomes):
        found = [tried.outcome for one, tried in outcomes.items() if one.package == package]
        say(f"{package}: {score(found.count(KILLED), len(found))}")
    cpu = sum(one.cpu_seconds for one in outcomes.values()) / max(len(outcomes), 1)
    say(f"CPU {cpu:.1f} s for each; survivors: {SURVIVORS.relative_to(ROOT)}")
    killed = len(outcomes) - len(survivors)
    say(f"score {score(killed, len(outcomes))}, of {possible} possible")
    return 0 if outcomes and killed >= FLOOR * len(outcomes) else 1


def score(killed: int, tried: int) -> str:
    """For people."""
    return f"{killed}/{tried} killed ({100 * killed // max(tried, 1)} %)"


def say(text: str) -> None:
    """At once: it takes an hour."""
    print(f"mutation: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
