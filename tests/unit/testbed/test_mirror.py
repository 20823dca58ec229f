# SPDX-License-Identifier: GPL-3.0-or-later
"""The mirror's file server over a real TLS connection on loopback."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from testbed.basics.clock import wait_for
from testbed.layout.pki import Authority
from testbed.mirror.faults import Fault
from testbed.mirror.server import Server, byte_range

DATA = bytes(range(256)) * 20


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[tuple[str, requests.Session, Path]]:
    authority = Authority(tmp_path, "ca", "unit CA")
    authority.ensure()
    authority.issue("tls", "mirror", names=["127.0.0.1"])
    (tmp_path / "file").write_bytes(DATA)
    entry = {"file": str(tmp_path / "file"), "sha256": hashlib.sha256(DATA).hexdigest()}
    (tmp_path / "index.json").write_text(json.dumps({"/host/file": entry}), encoding="utf-8")
    server = Server(tmp_path, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(tmp_path / "ca.crt")
        yield f"https://127.0.0.1:{server.server_address[1]}", session, tmp_path
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-9", (0, 10)),
        ("bytes=90-", (90, 10)),
        ("bytes=-5", (95, 5)),
        ("bytes=90-500", (90, 10)),
        ("bytes=-", None),
        ("lines=1-2", None),
    ],
)
def test_byte_range(header: str | None, expected: tuple[int, int] | None) -> None:
    assert byte_range(header, 100) == expected


def test_a_range_outside_the_file_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes=100-"):
        byte_range("bytes=100-", 100)


def test_serves_files_ranges_and_etags(mirror: tuple[str, requests.Session, Path]) -> None:
    url, session, directory = mirror
    whole = session.get(f"{url}/host/file", timeout=5)
    assert whole.content == DATA
    assert session.head(f"{url}/host/file", timeout=5).headers["Content-Length"] == str(len(DATA))
    part = session.get(f"{url}/host/file", headers={"Range": "bytes=10-19"}, timeout=5)
    assert (part.status_code, part.content) == (206, DATA[10:20])
    same = session.get(f"{url}/host/file", headers={"If-None-Match": whole.headers["ETag"]}, timeout=5)
    assert same.status_code == 304
    assert session.get(f"{url}/absent", timeout=5).status_code == 404
    log = directory / "requests.jsonl"
    wait_for("the log of five answers", lambda: len(log.read_text(encoding="utf-8").splitlines()) == 5, 5)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert [(json.loads(line)["method"], json.loads(line)["status"]) for line in lines] == [
        ("GET", 200),
        ("HEAD", 200),
        ("GET", 206),
        ("GET", 304),
        ("GET", 404),
    ]


def test_shows_faults_as_often_as_told(mirror: tuple[str, requests.Session, Path]) -> None:
    url, session, directory = mirror
    rules = [
        Fault("/host/*", times=1, status=503),
        Fault("/host/*", times=1, corrupt=True),
        Fault("/host/*", times=1, truncate=100),
    ]
    (directory / "faults.json").write_text(json.dumps([rule.as_dict() for rule in rules]), encoding="utf-8")
    assert session.get(f"{url}/host/file", timeout=5).status_code == 503
    wrong = session.get(f"{url}/host/file", timeout=5).content
    assert (wrong[0], wrong[1:]) == (DATA[0] ^ 0xFF, DATA[1:])
    with pytest.raises(requests.RequestException):
        session.get(f"{url}/host/file", timeout=5)
    assert session.get(f"{url}/host/file", timeout=5).content == DATA
