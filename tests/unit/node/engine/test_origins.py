# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Contents of replaced files: kept while a record needs them, and no longer."""

from __future__ import annotations

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.origins import prune_origins
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from tests.unit.node.engine.an_app import run
from tests.unit.node.fakes import Machine

ORIGINS = f"{DATA_DIR}/origins"
SECRET = "/etc/app/token"


def contents(machine: Machine) -> set[str]:
    """What is kept."""
    return {machine.text(f"{ORIGINS}/{name}") for name in machine.host.names(ORIGINS)}


def with_token(token: str) -> list[Resource]:
    return [File("/etc/app/config", "ours"), File(SECRET, token, 0o600, secret=True)]


def test_what_an_update_replaced_goes_and_what_was_there_before_the_join_stays(machine: Machine) -> None:
    machine.put("/etc/app/config", "theirs")
    for token in ("first", "second", "third"):
        run(machine, with_token(token))
    prune_origins(machine.host, machine.store)
    assert contents(machine) == {"theirs"}
    restore_host(machine.host, machine.store)
    assert machine.text("/etc/app/config") == "theirs"
    assert not machine.path(SECRET).exists()


def test_an_unfinished_transaction_keeps_what_its_rollback_needs(machine: Machine) -> None:
    run(machine, with_token("first"))
    digest = machine.store.journal.keep(b"first")
    before = {"is": "file", "mode": 0o600, "uid": 0, "gid": 0, "mtime_ns": 1, "content": digest}
    machine.store.begin({"restarts": [], "reload": False, "before": {f"file:{SECRET}": before}})
    machine.store.journal.keep(b"older")
    prune_origins(machine.host, machine.store)
    assert contents(machine) == {"first"}
    machine.store.finish()
    prune_origins(machine.host, machine.store)
    assert contents(machine) == set()


def test_with_a_damaged_record_nothing_is_removed(machine: Machine) -> None:
    run(machine, with_token("first"))
    machine.store.journal.keep(b"needed by it?")
    machine.put(f"{DATA_DIR}/transaction.json", "{")
    prune_origins(machine.host, machine.store)
    assert contents(machine) == {"needed by it?"}


def test_without_any_content_no_record_is_read(machine: Machine) -> None:
    machine.put(f"{DATA_DIR}/journal", "damaged\n")
    prune_origins(machine.host, machine.store)
    assert machine.host.names(ORIGINS) == ()
