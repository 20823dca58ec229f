# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The journal: origins survive crashes, torn lines and many updates; damage is an error, never a guess."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.journal import Entry, Journal
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import StateCorrupt
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import key_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from tests.unit.node.fakes import Machine

DIRECTORY = "/var/lib/aks-flex-node"
LINES = f"{DIRECTORY}/journal"


@pytest.fixture
def journal(machine: Machine) -> Journal:
    machine.path(DIRECTORY).mkdir(parents=True)
    machine.put("/etc/keep")
    return machine.store.journal


def a_file(name: str, content: str = "ours") -> File:
    return File(f"/etc/{name}", content)


def test_an_empty_journal(journal: Journal) -> None:
    assert journal.entries() == []


def test_entries_come_in_the_order_of_the_first_touch(machine: Machine, journal: Journal) -> None:
    machine.put("/etc/b", "theirs")
    journal.record([a_file("b"), a_file("a")])
    journal.record([a_file("c"), a_file("b", "ours again")])
    assert [entry.key for entry in journal.entries()] == ["file:/etc/b", "file:/etc/a", "file:/etc/c"]


def test_the_origin_is_that_of_the_first_touch_and_every_mark_is_kept(
    machine: Machine, journal: Journal
) -> None:
    machine.put("/etc/a", "theirs")
    was = a_file("a").mark_now(machine.host, "/etc/a")
    for content in ("one", "two", "one"):
        journal.record([a_file("a", content)])
        a_file("a", content).apply(machine.host)
    (entry,) = journal.entries()
    assert entry.was == was
    assert journal.kept(entry.origin["content"]) == b"theirs"
    assert entry.marks == [a_file("a", "one").mark, a_file("a", "two").mark]


def test_nothing_is_written_when_nothing_is_new(machine: Machine, journal: Journal) -> None:
    journal.record([a_file("a")])
    before = machine.host.stat(LINES)
    journal.record([a_file("a")])
    journal.record([])
    assert machine.host.stat(LINES) == before


def test_only_root_reads_the_journal_and_its_contents(machine: Machine, journal: Journal) -> None:
    machine.put("/etc/a", "s3cret")
    journal.record([a_file("a")])
    assert machine.host.stat(LINES).mode == 0o600
    assert machine.host.stat(f"{DIRECTORY}/origins").mode == 0o700
    (name,) = machine.host.names(f"{DIRECTORY}/origins")
    assert machine.host.stat(f"{DIRECTORY}/origins/{name}").mode == 0o600


DAMAGED = {
    b"{": "Expecting property name",
    b"\x00\x00": "Expecting value",
    b"[]": "list indices must be integers",
    b'{"mark": "x"}': "it lacks 'key'",
    b'{"key": 1}': "no attribute 'partition'",
    b'{"key": "file:/etc/a"}': "it lacks 'mark'",
    b'{"key": "file:/etc/b", "mark": "x"}': "the origin of file:/etc/b is lost",
    b'{"key": "file:/etc/b", "mark": "x", "origin": {"is": "absent"}}': "it lacks 'was'",
    b'{"key": "file:/etc/b", "mark": "x", "origin": "absent", "was": "absent"}': "dictionary update",
    b'{"key": "file:/etc/a", "mark": "x", "of": 1}': "not iterable",
}


@pytest.mark.parametrize(("line", "why"), DAMAGED.items())
def test_a_damaged_line_in_the_middle_is_an_error_with_its_place(
    machine: Machine, journal: Journal, line: bytes, why: str
) -> None:
    journal.record([a_file("a")])
    good = machine.path(LINES).read_bytes()  # with the line of the schema
    machine.path(LINES).write_bytes(good + line + b"\n" + good)
    with pytest.raises(StateCorrupt) as caught:
        journal.entries()
    assert caught.value.where == f"{LINES}, line 3"
    assert why in caught.value.why


def test_wherever_a_write_is_torn_nothing_is_lost(machine: Machine, journal: Journal) -> None:
    machine.put("/etc/a", "theirs")
    machine.put("/etc/b", "theirs too")
    journal.record([a_file("a")])
    first = machine.path(LINES).read_bytes()
    journal.record([a_file("b")])
    whole = machine.path(LINES).read_bytes()
    for size in range(len(first), len(whole) + 1):
        machine.path(LINES).write_bytes(whole[:size])
        assert journal.entries()[0].name == "/etc/a"
        journal.record([a_file("b"), a_file("c")])
        assert [entry.name for entry in journal.entries()] == ["/etc/a", "/etc/b", "/etc/c"], size


@pytest.mark.parametrize("damage", [None, b"", b"other"])
def test_an_original_that_is_lost_or_damaged_is_never_guessed(
    machine: Machine, journal: Journal, damage: bytes | None
) -> None:
    machine.put("/etc/a", "theirs")
    journal.record([a_file("a")])
    a_file("a").apply(machine.host)
    (name,) = machine.host.names(f"{DIRECTORY}/origins")
    place = machine.path(f"{DIRECTORY}/origins/{name}")
    if damage is None:
        place.unlink()
    else:
        place.write_bytes(damage)
    with pytest.raises(StateCorrupt, match="lost or damaged"):
        journal.kept(name)
    assert machine.text("/etc/a") == "ours"


NAMES = st.sampled_from(["a", "b", "c d", "ä\n", '"', "e:f"])
CONTENTS = st.text(max_size=5)
ACTS = st.lists(st.tuples(NAMES, CONTENTS), max_size=8)


@settings(max_examples=50)
@given(before=st.dictionaries(NAMES, st.binary(max_size=5)), acts=ACTS)
def test_any_history_reads_back_and_is_undone(before: dict[str, bytes], acts: list[tuple[str, str]]) -> None:
    with Machine.temporary() as machine:
        machine.path(DIRECTORY).mkdir(parents=True)
        for name, theirs in {"keep": b"", **before}.items():
            machine.put(f"/etc/{name}", theirs)
        was = machine.snapshot("/etc", times=False)
        expected: dict[str, Entry] = {}
        for name, content in acts:
            file = a_file(name, content)
            now = file.mark_now(machine.host, file.path)
            expected.setdefault(key_of(file), Entry("file", file.path, {}, now)).marks.append(file.mark)
            machine.store.journal.record([file])
            file.apply(machine.host)
        entries = machine.store.journal.entries()
        assert [entry.key for entry in entries] == list(expected)
        assert [(entry.was, set(entry.marks)) for entry in entries] == [
            (entry.was, set(entry.marks)) for entry in expected.values()
        ]
        restore_host(machine.host, machine.store)
        assert machine.snapshot("/etc", times=False) == was
