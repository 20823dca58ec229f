# SPDX-License-Identifier: GPL-3.0-or-later
"""What was tried on virtual machines: put what the last `make vm` saw into the pages.

`make vm` writes build/vm.json; docs/tried.json is what the pages are made from. What was run to its end gets
there, also if it failed; what was interrupted, or ran with uncommitted files, does not.
`--older` lists what is to be run again: what ran with another product than the one that is checked out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.checkout import BUILD, ROOT
from tests.vm.acts import LIFE, LINE, UNINSTALL

SEEN = BUILD / "vm.json"
TRIED = ROOT / "docs" / "tried.json"
PASSED, FAILED, UNFINISHED = "passed", "failed", "unfinished"
PRODUCT = ("plugins", "roles", "playbooks")


@dataclass(frozen=True)
class Record:
    """One act on one kind of machine."""

    part: str
    act: str
    platform: str
    arch: str
    kernel: str
    cgroup: str
    kubelet: str
    outcome: str
    seconds: float
    commit: str
    program: str = ""
    """The commit whose program ran, if it was an earlier one than that of the tests."""

    @property
    def machine(self) -> str:
        """What kind of machine it was."""
        return f"{self.platform} {self.arch}"

    @property
    def row(self) -> tuple[str, ...]:
        """What a new run of it replaces: a life as a whole, everything else by itself."""
        if self.part == LIFE:
            return self.part, self.platform, self.arch
        if self.part == LINE:
            return self.part, self.kubelet
        return self.part, self.act, self.platform, self.arch, self.program


def load(file: Path) -> list[Record]:
    """All records of a file; none if there is no such file."""
    if not file.is_file():
        return []
    return [Record(**found) for found in json.loads(file.read_text(encoding="utf-8"))]


def dump(records: Iterable[Record]) -> str:
    """The text of a file of records."""
    return json.dumps([asdict(record) for record in records], indent=1) + "\n"


def merged(old: Iterable[Record], new: Iterable[Record]) -> list[Record]:
    """What is known after a run: its rows replace those of earlier ones."""
    kept = evidence(new)
    rows = {record.row for record in kept}
    everything = [*(record for record in old if record.row not in rows), *kept]
    return sorted(everything, key=lambda record: record.row)


def evidence(records: Iterable[Record]) -> list[Record]:
    """What ran with the files of a commit, and to its end: a life to its uninstall, or until it failed."""
    found = [one for one in records if one.outcome != UNFINISHED and not one.commit.endswith("+")]
    ended = {one.row for one in found if one.outcome == FAILED or one.act == UNINSTALL}
    return [one for one in found if one.part not in (LIFE, LINE) or one.row in ended]


def product(commit: str, checkout: Path = ROOT) -> str:
    """What users run of a commit: the same for commits that differ in tests and pages only."""
    parts = [f"{commit}:{part}" for part in PRODUCT]
    git = ["git", "-C", str(checkout), "rev-parse", *parts]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout


def older(records: Iterable[Record], checkout: Path = ROOT) -> list[Record]:
    """What ran with another product than the one that is checked out."""
    known = list(records)
    products = {commit: product(commit, checkout) for commit in ("HEAD", *(one.commit for one in known))}
    return [one for one in known if products[one.commit] != products["HEAD"]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=SEEN, help="what make vm wrote: build/vm.json")
    parser.add_argument(
        "--older", action="store_true", help="list what ran with another product than this one"
    )
    options = parser.parse_args(arguments)
    if options.older:
        for record in older(load(TRIED)):
            print(f"{record.part}: {record.act} ({record.machine}), {record.commit}")
        return 0
    new = load(options.file)
    if not new:
        parser.error(f"{options.file} has no records: `make vm` writes them")
    TRIED.write_text(dump(merged(load(TRIED), new)), encoding="utf-8")
    kept = evidence(new)
    print(f"tried: {len(kept)} acts of {options.file} are in {TRIED.relative_to(ROOT)}")
    for record in (record for record in new if record not in kept):
        why = f"not of a commit ({record.commit})" if record.commit.endswith("+") else "not run to its end"
        print(f"tried: left out, {why}: {record.part}, {record.act} ({record.machine})")
    return subprocess.run([sys.executable, "-m", "scripts.docs"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
