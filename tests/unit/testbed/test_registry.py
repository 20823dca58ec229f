# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tag of the registry names: an image, or one for each architecture. Over TLS on loopback."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed.basics import paths
from testbed.images import recipes
from testbed.images.oci import INDEX, MANIFEST, Image, digest, index, push
from testbed.layout.pki import Authority
from testbed.layout.plan import Plan
from testbed.layout.site import Site

AMD64 = Image("thing", "1", b"layer of amd64", entrypoint=("/thing",), arch="amd64")
ARM64 = Image("thing", "1", b"layer of arm64", entrypoint=("/thing",), arch="arm64")


class Shelf(ThreadingHTTPServer):
    """As much of a registry as a push needs; it refuses to name what it does not have, as real ones do."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.puts: list[str] = []

    def knows(self, document: dict[str, object]) -> bool:
        """Whether all that a manifest names is here."""
        named = set(re.findall(r"sha256:[0-9a-f]{64}", json.dumps(document)))
        return named <= self.blobs.keys() | self.manifests.keys()


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD, POST and PUT."""

    server: Shelf

    def do_HEAD(self) -> None:
        kind, data = self.server.manifests.get(self.path.rpartition("/")[2], ("", b""))
        accepted = kind and kind in self.headers["Accept"]
        self._answer(200 if accepted else 404, **{"Docker-Content-Digest": digest(data) if accepted else ""})

    def do_POST(self) -> None:
        port = self.server.server_address[1]
        self._answer(202, Location=f"https://127.0.0.1:{port}{self.path}upload")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        reference = self.path.rpartition("/")[2]
        self.server.puts.append(reference)
        if "?digest=" in reference:
            self.server.blobs[digest(data)] = data
        elif not self.server.knows(json.loads(data)):
            return self._answer(400)
        else:
            for name in (reference, digest(data)):
                self.server.manifests[name] = (self.headers["Content-Type"], data)
        return self._answer(201)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the console."""

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[tuple[Shelf, str, Path]]:
    authority = Authority(tmp_path, "ca", "unit CA")
    authority.ensure()
    pair = authority.issue("tls", "registry", names=["127.0.0.1"])
    server = Shelf()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.cert, pair.key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server, f"127.0.0.1:{server.server_address[1]}", tmp_path / "ca.crt"
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_an_index_names_each_architectures_image() -> None:
    document = json.loads(index([ARM64, AMD64]))
    assert (document["schemaVersion"], document["mediaType"]) == (2, INDEX)
    assert [
        (one["platform"], one["digest"], one["size"], one["mediaType"]) for one in document["manifests"]
    ] == [
        ({"architecture": image.arch, "os": "linux"}, digest(made), len(made), MANIFEST)
        for image in (AMD64, ARM64)
        for made in (image.manifest(),)
    ]
    assert index([ARM64, AMD64]) == index([AMD64, ARM64])


def test_an_image_says_its_architecture() -> None:
    assert json.loads(ARM64.config())["architecture"] == "arm64"
    own = Image("thing", "1", b"layer", entrypoint=("/thing",))
    assert json.loads(own.config())["architecture"] == paths.arch()


def test_for_one_architecture_the_tag_is_the_image(shelf: tuple[Shelf, str, Path]) -> None:
    server, host, ca_file = shelf
    assert push([AMD64], host, ca_file) is True
    assert server.manifests["1"] == (MANIFEST, AMD64.manifest())
    seen = len(server.puts)
    assert push([AMD64], host, ca_file) is False
    assert len(server.puts) == seen


def test_a_second_architecture_keeps_the_first_and_costs_only_its_own(
    shelf: tuple[Shelf, str, Path],
) -> None:
    server, host, ca_file = shelf
    push([AMD64], host, ca_file)
    server.puts.clear()
    assert push([AMD64, ARM64], host, ca_file) is True
    assert server.manifests["1"] == (INDEX, index([AMD64, ARM64]))
    for image in (AMD64, ARM64):
        assert server.manifests[digest(image.manifest())] == (MANIFEST, image.manifest())
    assert [one for one in server.puts if "?digest=" not in one] == [digest(ARM64.manifest()), "1"]
    assert len(server.puts) == 4  # config, layer, manifest, tag
    assert push([AMD64, ARM64], host, ca_file) is False


def test_a_testbed_remembers_the_architectures_of_its_machines(tmp_path: Path) -> None:
    site = Site("unit", tmp_path, Plan(IPv4Network("10.89.0.0/24")), "unit-net")
    assert site.architectures == (paths.arch(),)
    site.remember("architectures", "amd64 arm64")
    assert set(site.architectures) == {"amd64", "arm64"}
    assert site.architectures[0] == paths.arch()


def test_images_of_this_machines_architecture_are_made_of_the_same_files_as_ever() -> None:
    """A cache that was filled before there were others stays of use."""
    assert recipes.KUBE_PROXY.of(paths.arch()).digest() == recipes.KUBE_PROXY.digest()
    assert recipes.KUBE_PROXY.of("arm64").digest() != recipes.KUBE_PROXY.of("amd64").digest()
