# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The wheelhouse: every file verified, downloaded once, and nothing in check mode."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.wheelhouse import build
from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue import wheels
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import DigestMismatch, NotInCatalogue
from tests.unit.node.pull.team import a_wheel
from tests.unit.node.servers import Answer, Pki, Request, Server, serving

NAMES = ("ansible_core-2.19.1-py3-none-any.whl", "jinja2-3.1.6-py3-none-any.whl")
CONTENT = {name: a_wheel({f"{name}.py": ""}) for name in NAMES}


def index(request: Request) -> Answer:
    last = request.path.rpartition("/")[2]
    if last in CONTENT:
        return Answer(CONTENT[last])
    package = request.path.split("/")[2].replace("-", "_")
    return Answer(
        "".join(f'<a href="/files/{name}">x</a>' for name in NAMES if name.startswith(package)).encode()
    )


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Path]]:
    rows = [
        f"{name.split('-')[0].replace('_', '-')} {name.split('-')[1]} {name} "
        f"{hashlib.sha256(CONTENT[name]).hexdigest()} 3.11-amd64"
        for name in NAMES
    ]
    monkeypatch.setattr(wheels, "TABLE", "\n" + "\n".join(rows) + "\n")
    pki = Pki.make(tmp_path)
    (tmp_path / "index-ca.pem").write_text(f"# Autorité\n{pki.ca_pem}", encoding="latin-1")
    with serving(index, pki.server_context()) as made:
        yield made, tmp_path


def params(server: tuple[Server, Path], **more: Any) -> dict[str, Any]:
    made, directory = server
    where = {
        "path": str(directory / "wheels"),
        "index": f"{made.url}/simple",
        "ca_cert": str(directory / "index-ca.pem"),
    }
    return {**where, "pythons": ["3.11"], "architectures": ["amd64"], **more}


def test_a_wheelhouse_is_built_once(server: tuple[Server, Path]) -> None:
    directory = server[1] / "wheels"
    planned = build(params(server), check=True)
    assert (planned["changed"], planned["downloaded"]) == (True, list(NAMES))
    assert not directory.exists()
    done = build(params(server), check=False)
    assert done["targets"] == {"3.11-amd64": list(NAMES)}
    assert sorted(path.name for path in directory.iterdir()) == list(NAMES)
    assert build(params(server), check=False)["changed"] is False
    (directory / NAMES[0]).write_bytes(b"damaged")
    assert build(params(server), check=False)["downloaded"] == [NAMES[0]]
    assert (directory / NAMES[0]).read_bytes() == CONTENT[NAMES[0]]


def test_a_file_with_another_digest_is_refused(
    server: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONTENT, NAMES[1], b"something else")
    with pytest.raises(DigestMismatch):
        build(params(server), check=False)
    assert not (server[1] / "wheels" / NAMES[1]).exists()


def test_an_unknown_python_is_named(server: tuple[Server, Path]) -> None:
    with pytest.raises(NotInCatalogue, match=r"Python 3\.7"):
        build(params(server, pythons=["3.7"]), check=True)
