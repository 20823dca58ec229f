# SPDX-License-Identifier: GPL-3.0-or-later
"""What was tried on virtual machines: the table of the README, and all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scripts.docs.tables import code, rows
from scripts.tried import PASSED, TRIED, Record, load
from tests.vm.acts import CASE, CUTS, LIFE, LIFE_ACTS, LINE, cut_of


def tried() -> str:
    """The README's: the life of a node on each kind of machine, and how many power cuts it survived."""
    records = _present(load(TRIED))
    counted = "; ".join(
        f"{command} {len(_passed(records, command))} of {len(moments)}" for command, moments in CUTS.items()
    )
    return f"{life_table(records)}\nPower cuts survived: {counted}.\n"


def tried_cuts() -> str:
    """Each power cut, and what an earlier commit made of the same ones."""
    records = load(TRIED)
    earlier = list(dict.fromkeys(record.program for record in records if record.program))
    return "\n".join((cuts_table(records), *(earlier_cuts(records, program) for program in earlier)))


def earlier_cuts(records: Sequence[Record], program: str) -> str:
    """How the program of an earlier commit fared."""
    found = [one for one in records if one.program == program]
    failed = [one for one in found if one.outcome != PASSED]
    ran_with = ", ".join(dict.fromkeys(code(one.commit) for one in found))
    lines = (f"* {one.part.removeprefix('power cut during ')}: {one.act}" for one in failed)
    said = f"The program of {code(program)} (tests of {ran_with}): **{len(failed)} of {len(found)} failed**."
    return "\n".join((said, "", *lines, ""))


def tried_cases() -> str:
    """Everything else."""
    records = [record for record in _present(load(TRIED)) if record.part == CASE]
    return rows(
        (
            (record.act, record.machine, record.kernel, _took(record), code(record.commit))
            for record in records
        ),
        head=("case", "machine", "kernel", "took", "commit"),
    )


def life_table(records: Sequence[Record]) -> str:
    """A row for each kind of machine and each line of Kubernetes; an act in each column."""
    return rows(_lives(records), head=("machine", "kernel", "kubelet", *LIFE_ACTS, "commit"))


def cuts_table(records: Sequence[Record]) -> str:
    """A row for each moment at which the power is cut, also for those that were not run."""
    return rows(_cuts(_present(records)), head=("command", "cut when", "machine", "took", "commit"))


def _lives(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    lives = [record for part in (LIFE, LINE) for record in records if record.part == part]
    for row in dict.fromkeys(record.row for record in lives):
        acts = {record.act: record for record in lives if record.row == row}
        kernel, kubelet, commit = (
            ", ".join(dict.fromkeys(str(getattr(record, name)) for record in acts.values()))
            for name in ("kernel", "kubelet", "commit")
        )
        machine = next(iter(acts.values())).machine
        cells = (_took(acts[act]) if act in acts else "-" for act in LIFE_ACTS)
        yield (machine, kernel, kubelet, *cells, code(commit))


def _cuts(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    for command, moments in CUTS.items():
        for moment in moments:
            found = [one for one in records if one.part == cut_of(command) and one.act == moment.name]
            for record in found:
                yield command, moment.name, record.machine, _took(record), code(record.commit)
            if not found:
                yield command, moment.name, "", "not run", ""


def _present(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if not record.program]


def _passed(records: Sequence[Record], command: str) -> set[str]:
    """The moments that it survived on every machine that was tried."""
    moments = {moment.name for moment in CUTS[command]}
    cuts = [one for one in records if one.part == cut_of(command) and one.act in moments]
    return {one.act for one in cuts} - {one.act for one in cuts if one.outcome != PASSED}


def _took(record: Record) -> str:
    return f"{record.seconds:.0f} s" if record.outcome == PASSED else f"**{record.outcome}**"
