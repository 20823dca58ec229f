# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A file is found on the page of a package index, and what the index says of it is not believed."""

from __future__ import annotations

import hashlib

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.wheels import (
    every_wheel,
    pythons,
    wheels_for,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.fetch import Fetcher
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArtifactUnreachable,
    DigestMismatch,
    NotInCatalogue,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import VERSIONS_DIR, WHEELS_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.index import file_url
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import a_wheel
from tests.unit.node.servers import Answer, Pki, Request, serving

FILE = "x-1.0+local-py3-none-any.whl"
CONTENT = a_wheel({"x/__init__.py": ""})
PAGE = """<!DOCTYPE html><a href="../../files/x-0.9-py3-none-any.whl">old</a>
<a href="../../files/x-1.0%2Blocal-py3-none-any.whl#sha256=00" data-requires-python="&gt;=3.8">new</a>"""


def index(request: Request) -> Answer:
    if request.path == "/simple/x/":
        return Answer(PAGE.encode())
    if request.path == "/files/x-1.0%2Blocal-py3-none-any.whl":
        return Answer(CONTENT)
    return Answer(status=404)


def a_tree(url: str, digest: str) -> Tree:
    return Tree(f"{VERSIONS_DIR}/x/1.0", Artifact("x", "1.0", "amd64", url, digest, "wheel"))


def test_a_link_of_the_page_leads_to_the_file(machine: Machine, pki: Pki) -> None:
    with serving(index, pki.server_context()) as server:
        client = HttpClient(ca_pem=pki.ca_pem, clock=machine.clock)
        found = file_url(client, f"{server.url}/simple/x/#{FILE}")
        assert found == f"{server.url}/files/x-1.0%2Blocal-py3-none-any.whl"
        assert file_url(client, f"{server.url}/x.whl") == f"{server.url}/x.whl"
        with pytest.raises(ArtifactUnreachable, match="not in this package index"):
            file_url(client, f"{server.url}/simple/x/#x-2.0-py3-none-any.whl")
        with pytest.raises(ArtifactUnreachable, match="can't be read"):
            file_url(client, f"{server.url}/simple/y/#{FILE}")


def test_the_digest_is_ours_whatever_the_index_says(machine: Machine, pki: Pki) -> None:
    with serving(index, pki.server_context()) as server:
        fetcher = Fetcher(machine.host, HttpClient(ca_pem=pki.ca_pem, clock=machine.clock), "/cache")
        url = f"{server.url}/simple/x/#{FILE}"
        with pytest.raises(DigestMismatch):
            fetcher.stage([a_tree(url, "ab" * 32)])
        tree = a_tree(url, hashlib.sha256(CONTENT).hexdigest())
        fetcher.stage([tree])
        tree.apply(machine.host)
    assert tree.observe(machine.host) == "complete"
    machine.path(f"{tree.path}/x/__init__.py").write_text("changed")
    assert tree.observe(machine.host) == "changed: x/__init__.py"


def test_a_wheel_that_a_controller_copied_is_not_downloaded(machine: Machine) -> None:
    machine.put(f"{WHEELS_DIR}/{FILE}", CONTENT)
    tree = a_tree(f"https://127.0.0.1:9/simple/x/#{FILE}", hashlib.sha256(CONTENT).hexdigest())
    Fetcher(machine.host, HttpClient(clock=machine.clock), "/cache").stage([tree])
    tree.apply(machine.host)
    assert tree.observe(machine.host) == "complete"


# -- the table ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
@pytest.mark.parametrize(
    ("python", "ansible"), [("3.10", "2.17."), ("3.11", "2.19."), ("3.12", "2.2"), ("3.13", "2.2")]
)
def test_every_platform_has_all_it_needs(python: str, ansible: str, arch: str) -> None:
    found = {wheel.name: wheel for wheel in wheels_for(python, arch)}  # type: ignore[arg-type]
    assert found["ansible-core"].version.startswith(ansible)
    needed = {
        "ansible-core",
        "cffi",
        "cryptography",
        "jinja2",
        "markupsafe",
        "packaging",
        "pycparser",
        "pyyaml",
        "resolvelib",
    }
    assert set(found) - {"typing-extensions"} == needed
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[arch]
    assert all("-any.whl" in wheel.file or f"_{machine}.whl" in wheel.file for wheel in found.values())


def test_the_table_is_well_formed_and_an_unknown_python_is_named() -> None:
    assert pythons() == ["3.10", "3.11", "3.12", "3.13"]
    assert all(len(wheel.sha256) == 64 and wheel.file.endswith(".whl") for wheel in every_wheel())
    assert len({wheel.file for wheel in every_wheel()}) == len(every_wheel())
    with pytest.raises(NotInCatalogue, match=r"Python 3\.9"):
        wheels_for("3.9", "amd64")
