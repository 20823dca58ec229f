# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The record of certificates: encrypted, atomic, for its owner alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import (
    new_client,
    new_root,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.errors import RecordUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.record import (
    Record,
    Store,
    path_of,
    valid_nodes,
)
from tests.unit.controller.fake_network import GATEWAY, FakeClock

PASSPHRASE = "Pl4nted-vpn-passphrase"
NOW = FakeClock().now()


@pytest.fixture(scope="module")
def filled() -> Record:
    root = new_root("plant", NOW)
    record = Record(str(GATEWAY), root.thumbprint, {root.thumbprint: root.certificate})
    record.keys[root.thumbprint] = root.key
    record.add("edge-1", new_client(root, "edge-1", NOW, 30))
    record.template, record.profile_of = "planted template", "x"
    return record


def store(directory: Path, passphrase: str = PASSPHRASE) -> Store:
    return Store(str(directory / "vpn"), GATEWAY, passphrase)


def test_what_is_written_is_read_again(tmp_path: Path, filled: Record) -> None:
    here = store(tmp_path)
    assert here.read() is None
    here.write(filled)
    assert here.read() == filled
    public = here.read(secrets=False)
    assert public is not None
    assert (public.clients, public.keys, public.template) == (filled.clients, {}, "")
    assert store(tmp_path, "").read(secrets=False) == public


def test_the_nodes_of_a_directory_are_known_without_its_passphrase(tmp_path: Path, filled: Record) -> None:
    directory = str(tmp_path / "vpn")
    assert valid_nodes(directory, NOW) is None
    store(tmp_path).write(filled)
    (tmp_path / "vpn/other.json").write_text("{")
    assert valid_nodes(directory, NOW) == {"edge-1"}
    assert valid_nodes(directory, NOW + 31 * 86400) == set()


def test_no_secret_is_in_the_file_and_only_its_owner_reads_it(tmp_path: Path, filled: Record) -> None:
    before = os.umask(0)
    try:
        store(tmp_path).write(filled)
    finally:
        os.umask(before)
    (file,) = (tmp_path / "vpn").iterdir()
    text = file.read_text()
    assert "PRIVATE" not in text
    assert "planted" not in text
    assert [line for key in filled.keys.values() for line in key.splitlines()[1:-1] if line in text] == []
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "planted" not in repr(filled)
    assert "PRIVATE" not in repr(filled)


def test_another_passphrase_opens_nothing(tmp_path: Path, filled: Record) -> None:
    store(tmp_path).write(filled)
    with pytest.raises(RecordUnusable, match="can't be decrypted") as caught:
        store(tmp_path, "another passphrase").read()
    assert "flexnode_vpn_new_root" in caught.value.fix
    for short in ("", "short"):
        with pytest.raises(RecordUnusable, match="need a passphrase"):
            store(tmp_path, short).read()
        with pytest.raises(RecordUnusable, match="need a passphrase"):
            store(tmp_path, short).write(filled)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["secrets"].update(data=found["secrets"]["data"][:-8] + "AAAAAAA="),
        lambda found: found["secrets"]["kdf"].update(salt="AAAA"),
        lambda found: found.update(version=9),
        lambda found: found.pop("clients"),
        lambda found: found.update(clients=[{"node": "x"}]),
        lambda found: found.update(secrets="x"),
    ],
)
def test_a_damaged_record_is_an_error(tmp_path: Path, filled: Record, change: Any) -> None:
    store(tmp_path).write(filled)
    path = Path(store(tmp_path).path)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(RecordUnusable):
        store(tmp_path).read()


def test_what_is_no_json_is_an_error(tmp_path: Path, filled: Record) -> None:
    store(tmp_path).write(filled)
    Path(store(tmp_path).path).write_text("{")
    with pytest.raises(RecordUnusable):
        store(tmp_path).read()


def test_the_record_of_another_gateway_does_not_open(tmp_path: Path, filled: Record) -> None:
    store(tmp_path).write(filled)
    other = GATEWAY.beside(GATEWAY.kind, GATEWAY.name, "another-group")
    there = Store(str(tmp_path / "vpn"), other, PASSPHRASE)
    assert there.read() is None, "gateways of one name have different files"
    os.rename(store(tmp_path).path, there.path)
    with pytest.raises(RecordUnusable):
        there.read()


def test_ids_have_no_letter_case() -> None:
    upper = GATEWAY.beside(GATEWAY.kind, GATEWAY.name.upper(), GATEWAY.group.upper())
    assert path_of("d", GATEWAY) == path_of("d", upper)


def test_a_write_that_fails_leaves_the_record_as_it_was(
    tmp_path: Path, filled: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = store(tmp_path)
    here.write(filled)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordUnusable, match="can't be written"):
        here.write(Record(str(GATEWAY)))
    assert here.read() == filled
    assert len(list((tmp_path / "vpn").iterdir())) == 1


def test_one_run_at_a_time(tmp_path: Path) -> None:
    told: list[str] = []
    clock = FakeClock()
    with (
        store(tmp_path).locked(clock, 10, told.append),
        pytest.raises(RecordUnusable, match="another run"),
        store(tmp_path).locked(clock, 10, told.append),
    ):
        raise AssertionError
    assert len(told) == 1
    with store(tmp_path).locked(clock, 10, told.append):
        pass
    store(tmp_path).remove()
