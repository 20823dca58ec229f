# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-test sanity on what users get, and say of every test whether it ran.

--quick: one Python and no pylint, which is most of the time. The proof has all of it, and CI's matrix.

What was found out, with ansible-core 2.17, 2.19 and 2.21:
* ansible-test wants the path .../ansible_collections/aks/flexnode: a clean copy under build/. The copy must
  be a git repository of its own (no commit needed): else ansible-test asks the checkout's, which ignores
  build/, and skips all tests with status 0. Hence also: no test ran = failure.
* Tests with packages of their own (ansible-doc, import, pep8, pylint, runtime-metadata, validate-modules,
  yamllint) get a venv each, whose pip comes from a bootstrap file that ansible-test downloads from a server
  of its own. That server is often out of reach where PyPI is not, so a stand-in that calls ensurepip is put
  where ansible-test looks for its cached copy - in a HOME of our own, to leave the user's cache alone. It
  lasts: what the venvs are made of is in their names.
* ansible-test passes HOME and PATH on, and no PIP_* variable: pip's settings go into that HOME as well.
* compile and import run once per python3.N of PATH; pyenv's shims are there but fail, so only interpreters
  that start are offered.
* pylint takes the oldest Python that ansible-core supports on a target, whatever tests/config.yml says:
  code that is right from 3.10 on (`A | B` outside an annotation) may need `Union` or a pylint comment.
* pslint and shellcheck need pwsh and shellcheck; they have nothing to do as long as there is no .ps1 and no
  .sh.
* JUnit files name the tests that had nothing to do, with ansible-test's own reason.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from scripts import checkout

WORK = checkout.BUILD / "sanity"
COLLECTION = WORK / "ansible_collections" / "aks" / "flexnode"
HOME = checkout.CACHE / "sanity"
BIN = HOME / "bin"  # the venvs in HOME link to it: it must outlast this checkout
NODE_PYTHONS = range(10, 14)
QUICK = ("--python", f"{sys.version_info.major}.{sys.version_info.minor}", "--skip-test", "pylint")

# The pip that comes with Python is new enough, so nothing is downloaded here.
BOOTSTRAP = "import ensurepip\n\nensurepip.bootstrap()\n"


def ansible_test_root() -> Path:
    spec = find_spec("ansible_test")
    if spec is None or spec.origin is None:
        sys.exit("ansible-test is not installed: make setup")
    return Path(spec.origin).parent


def tests_with_packages() -> set[str]:
    """Sanity tests that need packages from PyPI."""
    files = (ansible_test_root() / "_data" / "requirements").glob("sanity.*.txt")
    known = ansible_test("--list-tests").stdout.split()
    return {file.name.split(".")[1] for file in files}.intersection(known)


def offer_bootstrap() -> None:
    """Put our pip bootstrap where ansible-test looks before it downloads one."""
    source = (ansible_test_root() / "_internal" / "python_requirements.py").read_text()
    cache = HOME / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in re.findall(r"pip='([\d.]+)'", source):
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(BOOTSTRAP)


@contextmanager
def pip_settings() -> Iterator[None]:
    """Show pip's settings of the user and of the environment to the pip that ansible-test starts."""
    theirs = Path.home() / ".config" / "pip"
    link = HOME / ".config" / "pip"
    ours = HOME / ".pip" / "pip.conf"
    for path in (link, ours):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    if theirs.is_dir():
        link.symlink_to(theirs)
    settings = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE"
    }
    settings.setdefault("cache-dir", str(Path.home() / ".cache" / "pip"))
    # An index may carry a password: readable by us alone, and gone at the end.
    with os.fdopen(os.open(ours, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("\n".join(["[global]", *(f"{name} = {value}" for name, value in settings.items()), ""]))
    try:
        yield
    finally:
        ours.unlink(missing_ok=True)


def starts(python: str | Path) -> bool:
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False


def interpreter(name: str) -> str | Path | None:
    """An interpreter of this name that starts: of this venv, of PATH, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(pyenv.glob(f"{name.removeprefix('python')}.*/bin/{name}"))
    candidates = [Path(sys.prefix) / "bin" / name, shutil.which(name), *kept]
    return next((found for found in candidates if found and starts(found)), None)


def search_path() -> str:
    """A PATH on which every python3.N starts, whatever becomes of the venv that it was found in."""
    shutil.rmtree(BIN, ignore_errors=True)
    BIN.mkdir(parents=True)
    for minor in NODE_PYTHONS:
        if found := interpreter(f"python3.{minor}"):
            (BIN / f"python3.{minor}").symlink_to(os.path.realpath(found))
    rest = [entry for entry in os.environ["PATH"].split(os.pathsep) if Path(entry).name != "shims"]
    return os.pathsep.join([str(BIN), str(Path(sys.prefix) / "bin"), *rest])


def ansible_test(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["ansible-test", "sanity", "--color=no", *arguments]
    environment = {**os.environ, "HOME": str(HOME), "PATH": search_path()}
    return subprocess.run(
        command,
        cwd=COLLECTION,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def results() -> tuple[list[str], dict[str, str]]:
    """Names of the tests that ran, and the reason of each that did not."""
    ran, not_run = [], {}
    for file in sorted((COLLECTION / "tests" / "output" / "junit").glob("*.xml")):
        for case in ElementTree.parse(file).iter("testcase"):  # noqa: S314 - ansible-test wrote it a moment ago
            name = case.get("name", "")
            skipped = case.find("skipped")
            if skipped is None:
                ran.append(name)
            else:
                not_run[name] = (skipped.text or "").strip()
    return ran, not_run


@contextmanager
def alone() -> Iterator[None]:
    """One run at a time: all checkouts of a user share the venvs, their interpreters and pip's settings."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str]) -> int:
    if unknown := set(arguments) - {"--quick"}:
        sys.exit(f"sanity: {', '.join(sorted(unknown))} is unknown: there is only --quick")
    with alone():
        return run(QUICK if arguments else ())


def run(options: Sequence[str]) -> int:
    """Make the copy, run the tests in it, and say of each whether it ran."""
    settings = [
        file
        for file in checkout.own_files()
        if file.parts[:2] in {("tests", "config.yml"), ("tests", "sanity")}
    ]
    checkout.copy([*checkout.shipped_files(), *settings], COLLECTION)
    subprocess.run(["git", "-c", "init.defaultBranch=main", "init", "--quiet", COLLECTION], check=True)
    offer_bootstrap()

    without_packages: dict[str, str] = {}
    with pip_settings():
        primed = ansible_test("--prime-venvs", *options)
        if primed.returncode:
            errors = [line for line in primed.stdout.splitlines() if line.startswith(("ERROR", "FATAL"))]
            reason = f"its packages could not be installed: {next(iter(errors), 'no reason stated')}"
            without_packages = dict.fromkeys(tests_with_packages(), reason)
        skipped = (f"--skip-test={name}" for name in sorted(without_packages))
        done = ansible_test("--junit", *options, *skipped)
    ran, not_run = results()
    if done.returncode or not ran:
        print(done.stdout, end="")
    for name, reason in sorted({**not_run, **without_packages}.items()):
        print(f"sanity: not run: {name}: {reason}")
    print(f"sanity: {len(ran)} ran: {', '.join(ran)}")
    return done.returncode if ran else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
