# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a machine remembers: small files, written only on change, and found again where they were moved to."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.above import ABOVE
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import (
    DATA_DIR,
    POINTER,
    Phase,
    Store,
    store_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import StateCorrupt
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from tests.unit.node.fakes import Machine
from tests.unit.node.sites import Killed

MOVED = "/data/flexnode"


def fingerprints(machine: Machine) -> dict[str, tuple[int, int, int, int]]:
    return {
        name: machine.host.stat(f"{DATA_DIR}/{name}").fingerprint for name in machine.host.names(DATA_DIR)
    }


def test_a_machine_without_history(machine: Machine) -> None:
    store = machine.store
    assert (store.current_config(), store.applied_config(), store.config_version()) == (None, None, None)
    assert (store.transaction(), store.status()) == (None, None)
    assert store.state() == {"phase": "NotStarted"}
    assert not machine.path(DATA_DIR).exists()


def test_what_is_written_is_read_again_and_only_root_may(machine: Machine) -> None:
    store = machine.store
    store.set_current_config({"b": 1, "a": "s3cret"}, "17")
    store.set_applied_config({"a": 2}, None)
    store.enter(Phase.NODE_FAILED, code="FLEX-1502", message="why")
    store.begin({"restarts": []})
    again = Store(machine.host)
    assert (again.current_config(), again.config_version()) == ({"b": 1, "a": "s3cret"}, "17")
    assert again.applied_config() == {"a": 2}
    assert again.state() == {"phase": "NodeFailed", "code": "FLEX-1502", "message": "why"}
    assert again.transaction() == {"restarts": []}
    assert machine.host.stat(DATA_DIR).mode == 0o700
    assert {machine.host.stat(f"{DATA_DIR}/{name}").mode for name in machine.host.names(DATA_DIR)} == {0o600}
    store.finish()
    store.finish()
    assert again.transaction() is None


def test_the_same_again_is_not_written(machine: Machine) -> None:
    def write(timestamp: str) -> bool:
        machine.store.set_applied_config({"a": 1}, "17")
        machine.store.enter(Phase.NODE_JOINED)
        machine.store.set_status({"phase": "NodeJoined", "timestamp": timestamp})
        return machine.store.set_current_config({"a": 1}, "17")

    assert write("1")
    before = fingerprints(machine)
    assert not write("2")
    assert fingerprints(machine) == before
    assert (machine.store.status() or {})["timestamp"] == "1"
    machine.store.set_status({"phase": "NodeFailed", "timestamp": "3"})
    assert (machine.store.status() or {})["timestamp"] == "3"


@pytest.mark.parametrize(
    ("document", "version", "news"),
    [({"a": 1}, "17", False), ({"a": 2}, "17", True), ({"a": 1}, "18", True), ({"a": 1}, None, True)],
)
def test_a_document_or_its_version_can_be_news(
    machine: Machine, document: dict[str, int], version: str | None, news: bool
) -> None:
    machine.store.set_current_config({"a": 1}, "17")
    assert machine.store.set_current_config(document, version) == news
    assert machine.store.config_version() == version


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b"null"])
@pytest.mark.parametrize("name", ["current-config.json", "state.json", "transaction.json"])
def test_a_damaged_file_is_named_with_what_to_do(machine: Machine, name: str, damage: bytes) -> None:
    machine.put(f"{DATA_DIR}/{name}", damage)
    read = {
        "current-config.json": machine.store.current_config,
        "state.json": machine.store.state,
        "transaction.json": machine.store.transaction,
    }[name]
    with pytest.raises(StateCorrupt) as caught:
        read()
    assert caught.value.where == f"{DATA_DIR}/{name}"
    assert f"rm {DATA_DIR}/{name}" in caught.value.fix


def test_a_damaged_record_of_the_source_says_what_writes_it_again(machine: Machine) -> None:
    assert (machine.store.source_if_intact(), machine.store.polls) == (None, False)
    machine.store.set_source({"url": "https://blob.example/x"})
    assert machine.store.source_if_intact() == {"url": "https://blob.example/x"}
    machine.put(f"{DATA_DIR}/source.json", "{")
    with pytest.raises(StateCorrupt) as caught:
        machine.store.source()
    assert "with the same options as before" in caught.value.fix
    assert "rm " not in caught.value.fix
    assert (machine.store.source_if_intact(), machine.store.polls) == (None, True)


def test_a_moved_data_directory_is_found_again_and_forgotten_whole(machine: Machine) -> None:
    machine.path("/etc").mkdir()
    store = store_of(machine.host, MOVED)
    store.set_current_config({"a": 1}, None)
    assert machine.text(POINTER) == f"{MOVED}\n"
    assert store_of(machine.host).directory == MOVED
    store.forget()
    assert not machine.path(MOVED).exists()
    assert not machine.path("/etc/aks-flex-node").exists()
    assert store_of(machine.host).directory == DATA_DIR


DEEP = "/data/site/flex"
FOUND = {
    "nothing": ((), ()),
    "one": (("/data",), ("/data",)),
    "all": (("/data/site",), ("/data", "/data/site")),
}


@pytest.mark.parametrize(("before", "after"), FOUND.values(), ids=FOUND)
def test_directories_above_go_with_it_unless_they_were_there_before(
    machine: Machine, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    machine.path("/etc").mkdir()
    for directory in before:
        machine.path(directory).mkdir(parents=True)
    store = store_of(machine.host, DEEP)
    for number in (1, 2):  # what the second finds is not what was there before
        store.set_current_config({"a": number}, None)
    store_of(machine.host).forget()
    assert tuple(sorted(machine.snapshot("/"))) == tuple(path[1:] for path in (*after, "/etc"))


def test_a_directory_above_that_others_use_by_now_stays(machine: Machine) -> None:
    store_of(machine.host, DEEP).set_current_config({"a": 1}, None)
    machine.put("/data/theirs")
    store_of(machine.host).forget()
    assert machine.host.names("/data") == ("theirs",)


@pytest.mark.parametrize("record", ["/etc\n/data\n", "/data/sit\n", "\n/\n..\n", "\xff\n"])
def test_a_record_of_what_is_above_removes_nothing_else(machine: Machine, record: str) -> None:
    for directory in ("/etc/ssl", "/data/sit", "/empty"):
        machine.path(directory).mkdir(parents=True)
    store_of(machine.host, DEEP).set_current_config({"a": 1}, None)
    machine.put(ABOVE, record)
    store_of(machine.host).forget()
    assert {"etc/ssl", "data/sit", "empty"} <= set(machine.snapshot("/"))
    assert not machine.path("/etc/aks-flex-node").exists()


KILLS = [*((Host, "write", number) for number in range(3)), *((os, "mkdir", number) for number in range(4))]


@pytest.mark.parametrize(("owner", "method", "number"), KILLS)
def test_a_run_that_is_killed_while_it_creates_the_directory_is_undone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, number: int
) -> None:
    machine.path("/etc").mkdir()
    real, calls = getattr(owner, method), count()

    def killed(*arguments: Any, **options: Any) -> None:
        if next(calls) == number:
            raise Killed
        real(*arguments, **options)

    with monkeypatch.context() as now:
        now.setattr(owner, method, killed)
        with pytest.raises(Killed):
            store_of(machine.host, DEEP).set_current_config({"a": 1}, None)
    store_of(machine.host).forget()
    assert set(machine.snapshot("/")) == {"etc"}
    assert not store_of(machine.host).is_there


def test_a_phase_that_is_forgotten_leaves_nothing(machine: Machine) -> None:
    machine.path("/etc").mkdir()
    store = store_of(machine.host, DEEP)
    store.enter(Phase.ARC_REGISTERING)
    store.forget_state()
    assert set(machine.snapshot("/")) == {"etc"}


def test_the_usual_directory_needs_no_pointer_and_others_files_stay(machine: Machine) -> None:
    machine.put("/etc/aks-flex-node/theirs")
    store_of(machine.host).set_current_config({"a": 1}, None)
    assert not machine.path(POINTER).exists()
    store_of(machine.host).forget()
    assert machine.path("/etc/aks-flex-node/theirs").exists()
