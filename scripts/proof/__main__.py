# SPDX-License-Identifier: GPL-3.0-or-later
"""Run all but `make vm`, in parts that can be stopped and continued; `make proof`.

A part that passed with the files that it covers today is not run again. What ran is in docs/proof.json, with
its commit; what ran with uncommitted files is shown and not recorded. Outputs: build/proof-NAME.log.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from scripts.checkout import BUILD, ROOT
from scripts.proof import record, tree
from scripts.proof.child import Stopped
from scripts.proof.parts import Part, parts
from scripts.proof.plan import State, Unknown, chosen, due, estimate, state_of, succeeded, touched
from scripts.proof.record import Row
from scripts.proof.run import Proof, changes, contents, say
from scripts.test import spelled

INTERRUPTED = 130
SHOWN = 3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts.proof", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="*", help="its name, such as e2e/test_join, or a group, such as faults")
    parser.add_argument("--again", action="store_true", help="run also what is proven for the files of today")
    parser.add_argument("--since", metavar="REV", help="only list what a diff since this commit touches")
    parser.add_argument("--list", action="store_true", help="only list all parts and what is known of them")
    parser.add_argument(
        "--allow-unreachable", action="store_true", help="a part that can't run here is no failure"
    )
    options = parser.parse_args(arguments)
    try:
        selected = chosen(parts(), options.part)
        if options.since:
            return show_touched(selected, options.since)
        if options.list:
            show_table(selected, record.load(), contents(selected), {})
            return 0
        return prove(selected, named=bool(options.part), again=options.again, allow=options.allow_unreachable)
    except (Unknown, tree.NoCommit) as error:
        print(f"proof: {error}", file=sys.stderr)
        return 2


def prove(selected: Sequence[Part], *, named: bool, again: bool, allow: bool) -> int:
    """Run what is due; 0 if all that was selected is proven then."""
    if not named and (dirty := sorted({path for part in selected for path in changes(part)})):
        say(f"proof: these files are uncommitted, nothing would be recorded: {', '.join(dirty)}")
        say("proof: commit them; or name parts (P=...) to try these without a record")
        return 2
    rows = record.load()
    now = contents(selected)
    # What has changes is run as it is asked for: that the commit is proven says nothing about them.
    waiting = {part.name for part in due(selected, rows, now, again=again)}
    ordered = [part for part in selected if part.name in waiting or changes(part)]
    say(f"proof: {len(ordered)} of {len(selected)} parts to run, {len(selected) - len(ordered)} are proven")
    proof = Proof(ordered, rows, allow)
    status = INTERRUPTED
    try:
        with alone(), stoppable():
            proof.carry_out()
        now = contents(selected)
        status = 0 if succeeded(selected, proof.rows, now, allow=allow) and not proof.unrecorded else 1
    except (KeyboardInterrupt, Stopped):
        say(
            "\nproof: interrupted; the part that ran is not recorded, the next `make proof` continues with it"
        )
    except Busy:
        say("proof: another one runs in this checkout")
        return 2
    show_table(selected, proof.rows, now, proof.unrecorded)
    say(f"proof: {'all proven' if status == 0 else 'NOT PROVEN'}")
    return status


def show_touched(selected: Sequence[Part], since: str) -> int:
    """What must run again for a diff, and how long that takes."""
    paths = tree.differing(ROOT, since)
    rows, now = record.load(), contents(selected)
    found = touched(selected, paths)
    again = [part for part in selected if part.name in found]
    total = 0.0
    for part in again:
        covered = found[part.name]
        if state_of(rows.get(part.name), now[part.name]) is State.PROVEN and not changes(part):
            note = "is proven with it already"
        else:
            seconds = estimate(part, rows.get(part.name))
            total += seconds
            note = f"about {spelled(seconds)}"
        more = f" and {len(covered) - SHOWN} more" if len(covered) > SHOWN else ""
        say(f"{part.name:24} {note:26} {', '.join(covered[:SHOWN])}{more}")
    say(f"proof: {len(paths)} files differ, {len(again)} of {len(selected)} parts cover some of them")
    say(f"proof: about {spelled(total)} to run")
    return 0


def show_table(
    selected: Sequence[Part], rows: Mapping[str, Row], now: Mapping[str, str], unrecorded: Mapping[str, str]
) -> None:
    """Each part in a line: what is known of it, and since when that is outdated."""
    say(f"\n{'part':24} {'state':10} {'took':>13} {'CPU':>13}  commit    result")
    left = 0.0
    for part in selected:
        row = rows.get(part.name)
        state = state_of(row, now[part.name])
        if state is not State.PROVEN:
            left += estimate(part, row)
        took, cpu = (spelled(row.seconds), spelled(row.cpu_seconds)) if row else ("", "")
        commit, said = (row.commit, row.said) if row else ("", f"about {spelled(estimate(part, None))}")
        if state is State.OLDER and row:
            said = f"{said}; {outdated(part, row)}"
        if part.name in unrecorded:
            said = f"{unrecorded[part.name]} [recorded: {said}]"
        say(f"{part.name:24} {state.value:10} {took:>13} {cpu:>13}  {commit:9} {said}")
    say(f"proof: about {spelled(left)} to run for what is not proven")


def outdated(part: Part, row: Row) -> str:
    """What changed since: the last commit that touched what the part covers."""
    try:
        listing = tree.files(ROOT, row.commit)
    except tree.NoCommit:
        return f"{row.commit} is not in this history"
    today = tree.files(ROOT)
    paths = [
        path
        for path in sorted({*listing, *today})
        if listing.get(path) != today.get(path) and tree.covers(part.covers, path)
    ]
    if not paths:
        return "its command changed since"
    return f"{len(paths)} files that it covers changed since, last in {tree.last_change(ROOT, paths)}"


class Busy(Exception):
    """Two proofs would take each other's testbed and record."""


@contextmanager
def alone() -> Iterator[None]:
    """Hold the lock of this checkout: it ends with this process, however that ends."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "proof.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy from None
        yield


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM stops the run as Ctrl-C does; Ctrl-C also where a shell had it ignored."""

    def stopped(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = {number: signal.signal(number, stopped) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
