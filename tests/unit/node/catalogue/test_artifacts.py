# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Artifacts: where they are, what digest they must have; and the script that refreshes the digests."""
# ruff: noqa: E501 - a table reads best with one case a line

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import (
    UPSTREAM,
    Catalogue,
    artifacts_of,
    builtin_digests,
    skew,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config import defaults
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import Version
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NotInCatalogue, VersionSkew
from scripts import catalogue as script
from tests.unit.node.config.test_samples import SHA, at, joining

KUBELET_1_34_4 = builtin_digests()["kubelet"]["1.34.4"]["amd64"]


def artifacts(*changes: dict[str, Any]) -> dict[str, Any]:
    return dict(artifacts_of(parse(joining(*changes)), "amd64"))


@pytest.mark.parametrize(
    ("name", "version", "url"),
    [
        ("kubelet", "1.34.4", "https://dl.k8s.io/release/v1.34.4/bin/linux/arm64/kubelet"),
        ("containerd", "2.3.4", "https://github.com/containerd/containerd/releases/download/v2.3.4/containerd-2.3.4-linux-arm64.tar.gz"),
        ("runc", "1.4.3", "https://github.com/opencontainers/runc/releases/download/v1.4.3/runc.arm64"),
        ("cni-plugins", "1.9.1", "https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz"),
    ],
)  # fmt: skip
def test_upstream(name: str, version: str, url: str) -> None:
    artifact = Catalogue().resolve(name, version, "arm64")
    assert artifact.url == url
    assert artifact.sha256 == builtin_digests()[name][version]["arm64"]
    assert artifact.kind == ("tar.gz" if url.endswith("gz") else "binary")
    mirrored = Catalogue().resolve(name, version, "arm64", mirror="https://mirror.lan/k8s/")
    assert mirrored.url == "https://mirror.lan/k8s/" + url.removeprefix("https://")


def test_every_entry_has_both_architectures_and_an_address() -> None:
    for name, versions in builtin_digests().items():
        assert name in UPSTREAM
        for version, hashes in versions.items():
            assert set(hashes) == {"amd64", "arm64"}, (name, version)
            assert all(len(value) == 64 for value in hashes.values())


@pytest.mark.parametrize(
    ("name", "default"),
    [("containerd", defaults.CONTAINERD), ("runc", defaults.RUNC), ("cni-plugins", defaults.CNI_PLUGINS)],
)
def test_defaults_are_the_newest_known(name: str, default: Version) -> None:
    assert Catalogue().versions(name)[-1] == str(default)


def test_an_unknown_version_names_the_nearest_and_the_way_out() -> None:
    with pytest.raises(NotInCatalogue, match=r"1\.34\.9, 1\.34\.10, 1\.34\.11") as caught:
        Catalogue().resolve("kubelet", "1.34.99", "amd64")
    assert "sha256" in caught.value.fix
    with pytest.raises(NotInCatalogue, match="none"):
        Catalogue().resolve("npd", "0.8.20", "amd64")


def test_a_given_digest_goes_first() -> None:
    assert Catalogue().resolve("kubelet", "1.99.0", "amd64", sha256=SHA).sha256 == SHA


def test_a_node_needs_six_artifacts() -> None:
    found = artifacts()
    assert set(found) == {"kubelet", "kubectl", "kubeadm", "containerd", "runc", "cni-plugins"}
    assert found["kubelet"].sha256 == KUBELET_1_34_4
    assert found["containerd"].file_name == "containerd-2.3.4-linux-amd64.tar.gz"


def test_all_unknown_artifacts_are_named_at_once() -> None:
    with pytest.raises(NotInCatalogue) as caught:
        artifacts(at("kubernetes.version", "1.34.99"), at("runc.version", "9.9.9"))
    assert all(name in caught.value.what for name in ("kubelet", "kubectl", "kubeadm", "runc 9.9.9"))


def test_digests_beside_the_versions() -> None:
    other = "cd" * 32
    found = artifacts(
        at(
            "kubernetes",
            {"version": "1.99.0", "sha256": {"kubelet": SHA, "kubectl": SHA, "kubeadm": {"amd64": other}}},
        ),
        at("runc", {"version": "9.9.9", "sha256": SHA.upper()}),
        at("npd", {"version": "0.8.20", "sha256": {"amd64": SHA}}),
    )
    assert (found["kubelet"].sha256, found["kubeadm"].sha256, found["runc"].sha256) == (SHA, other, SHA)
    assert found["npd"].url.endswith("node-problem-detector-v0.8.20-linux_amd64.tar.gz")


def test_a_mirror_with_its_own_builds() -> None:
    own = {"kubelet": {"1.34.4": {"amd64": SHA}}}
    found = artifacts(at("mirror", {"url": "https://m.lan", "catalogue": own}))
    assert found["kubelet"].sha256 == SHA
    assert found["kubelet"].url == "https://m.lan/dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet"
    assert found["runc"].sha256 == builtin_digests()["runc"]["1.4.3"]["amd64"]
    with pytest.raises(NotInCatalogue, match=r"kubelet 1\.34\.3"):
        artifacts(at("mirror.catalogue", own), at("kubernetes.version", "1.34.3"))


@pytest.mark.parametrize(
    "template",
    [
        "https://m.lan/v%s/bin/%s/",
        "https://m.lan/v{version}/bin/{arch}",
        "https://m.lan/v1.34.4/bin/amd64",
    ],
)
def test_a_directory_of_programs(template: str) -> None:
    kubelet = artifacts(at("kubernetes.urlTemplate", template))["kubelet"]
    assert kubelet.url == "https://m.lan/v1.34.4/bin/amd64/kubelet"
    assert (kubelet.sha256, kubelet.kind, kubelet.member) == (KUBELET_1_34_4, "binary", "")


def test_a_node_tarball() -> None:
    template = "https://m.lan/v%s/binaries/kubernetes-node-linux-%s.tar.gz"
    found = artifacts(at("kubernetes", {"urlTemplate": template, "sha256": {"amd64": SHA}}))
    kubeadm = found["kubeadm"]
    assert kubeadm.url == "https://m.lan/v1.34.4/binaries/kubernetes-node-linux-amd64.tar.gz"
    assert (kubeadm.sha256, kubeadm.kind, kubeadm.member) == (SHA, "tar.gz", "kubernetes/node/bin/kubeadm")
    config = parse(joining(at("kubernetes", {"urlTemplate": template, "sha256": {"arm64": SHA}})))
    with pytest.raises(NotInCatalogue, match="no sha256 for amd64"):
        artifacts_of(config, "amd64")


def test_a_given_url_of_runc_goes_before_the_mirror() -> None:
    found = artifacts(
        at("runc.url", "https://x.lan/{version}/runc.{arch}"), at("mirror.url", "https://m.lan")
    )
    assert found["runc"].url == "https://x.lan/1.4.3/runc.amd64"


@pytest.mark.parametrize(
    ("kubelet", "server", "fits"),
    [
        ("1.34.4", "1.34.0", True),
        ("1.34.4", "1.37.1", True),
        ("1.34.4", "1.38.0", False),
        ("1.35.0", "1.34.9", False),
        ("2.0.0", "1.34.0", False),
        ("1.34.0", "2.0.0", False),
    ],
)
def test_skew(kubelet: str, server: str, fits: bool) -> None:
    found = skew(Version.parse(kubelet), Version.parse(server))
    assert (found is None) == fits
    assert fits or isinstance(found, VersionSkew)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("v1.34.4-hotfix.20260101", "1.34.4"), ("v1.34.4+k3s1", "1.34.4"), ("1.34.4", "1.34.4")],
)
def test_version_of_a_build(text: str, expected: str) -> None:
    assert str(Version.of_build(text)) == expected


def test_versions_compare_by_number() -> None:
    assert Version.parse("1.34.10") > Version.parse("v1.34.9")
    with pytest.raises(ValueError, match="does not begin"):
        Version.of_build("1.34")


# --- scripts/catalogue.py ---------------------------------------------------------------------------------

FILES = {
    "/dl.k8s.io/release/stable-1.34.txt": "v1.34.12",
    **{f"/dl.k8s.io/release/v1.34.12/bin/linux/{arch}/{name}.sha256": SHA for arch in script.ARCHES for name in script.KUBERNETES},
    "/github.com/opencontainers/runc/releases/download/v1.5.0/runc.sha256sum": f"{SHA}  runc.amd64\n{'cd' * 32} *runc.arm64\n{'ef' * 32}  runc.ppc64le\n",
    "/github.com/containerd/containerd/releases/download/v2.3.5/containerd-2.3.5-linux-amd64.tar.gz.sha256sum": f"{SHA}  containerd-2.3.5-linux-amd64.tar.gz\n",
}  # fmt: skip


class Upstream(BaseHTTPRequestHandler):
    """Upstream's checksum files, in upstream's layout."""

    def do_GET(self) -> None:
        body = FILES.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write((body or "").encode())

    def log_message(self, *_args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def get() -> Iterator[script.Fetch]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    Thread(target=server.serve_forever, daemon=True).start()
    yield lambda url: script.fetch(f"http://127.0.0.1:{server.server_port}/{url.removeprefix('https://')}")
    server.shutdown()
    server.server_close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue_data.py"
    path.write_text(
        script.write_table(
            {"kubelet": {"1.34.4": {"amd64": SHA}}, "runc": {"1.4.3": {"amd64": SHA, "arm64": SHA}}}
        )
    )
    return path


def test_releases_on_the_command_line_are_added(
    get: script.Fetch, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["runc=1.5.0", "containerd=2.3.5", "kubernetes=1.34.12"], get=get, data=data) == 0
    table = script.read_table(data.read_text())
    assert table["runc"]["1.5.0"] == {"amd64": SHA, "arm64": "cd" * 32}
    assert table["containerd"]["2.3.5"] == {"amd64": SHA}
    assert set(table) == {"kubelet", "kubectl", "kubeadm", "runc", "containerd"}
    assert table["runc"]["1.4.3"] == {"amd64": SHA, "arm64": SHA}
    assert "added: runc 1.5.0 amd64" in capsys.readouterr().out


def test_new_kubernetes_releases_are_discovered(
    get: script.Fetch, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([], get=get, data=data) == 0
    assert script.read_table(data.read_text())["kubeadm"] == {"1.34.12": {"amd64": SHA, "arm64": SHA}}
    capsys.readouterr()
    assert script.main([], get=get, data=data) == 0
    assert capsys.readouterr().out == "nothing new\n"


def test_a_changed_digest_is_an_error_and_changes_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = data.read_text()
    source = tmp_path / "digests.json"
    source.write_text(json.dumps({"runc": {"1.4.3": {"amd64": "cd" * 32}, "1.6.0": {"amd64": SHA}}}))
    assert script.main(["--from", str(source)], data=data) == 1
    assert "another digest" in capsys.readouterr().err
    assert data.read_text() == before


@pytest.mark.parametrize("release", ["runc=9.9.9", "runc", "docker=1.0.0", "runc=latest"])
def test_what_is_not_published_or_not_known_is_an_error(release: str, get: script.Fetch, data: Path) -> None:
    before = data.read_text()
    assert script.main([release], get=get, data=data) == 1
    assert data.read_text() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHA, SHA),
        (f"{SHA.upper()}\n", SHA),
        (f"{SHA}  runc.amd64\n", SHA),
        (f"{SHA} *./runc.amd64\n", SHA),
        (f"{SHA}  runc.arm64\n", None),
        ("<html>not found</html>", None),
        (f"{SHA}  runc.amd64\n{'cd' * 32}  runc.amd64\n", None),
    ],
)
def test_checksum_files_are_read(text: str, expected: str | None) -> None:
    assert script.digest_in(text, "runc.amd64") == expected


def test_the_committed_table_is_what_the_script_writes() -> None:
    text = script.DATA.read_text()
    assert script.write_table(script.read_table(text)) == text
