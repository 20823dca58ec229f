# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's layout, the rendered Go modules, the tarballs and the cache."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from testbed.artifacts import broken, builder, gomod, store
from testbed.artifacts.archive import Entry, tar_bytes, tar_gz
from testbed.artifacts.recipes import CONTAINERD, KUBERNETES, NPD, RUNC, artifact
from testbed.basics import paths
from testbed.basics.errors import TestbedError
from testbed.layout import versions

LAYOUT = [
    ("kubelet", "1.34.4", "dl.k8s.io/release/v1.34.4/bin/linux/amd64/kubelet"),
    (
        "containerd",
        "2.2.9",
        "github.com/containerd/containerd/releases/download/v2.2.9/containerd-2.2.9-linux-amd64.tar.gz",
    ),
    ("runc", "1.4.3", "github.com/opencontainers/runc/releases/download/v1.4.3/runc.amd64"),
    (
        "cni-plugins",
        "1.9.1",
        "github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz",
    ),
    (
        "npd",
        "1.36.0",
        "github.com/kubernetes/node-problem-detector/releases/download/v1.36.0/"
        "node-problem-detector-v1.36.0-linux_amd64.tar.gz",
    ),
]

UPSTREAM_GO_MOD = """module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require k8s.io/api v0.0.0

replace (
	k8s.io/apimachinery => ./staging/src/k8s.io/apimachinery
	k8s.io/api => ./staging/src/k8s.io/api
)
"""


@pytest.mark.parametrize(("name", "version", "path"), LAYOUT)
def test_path_is_upstreams(name: str, version: str, path: str) -> None:
    assert artifact(name).path(version, "amd64") == path


def test_an_unknown_artifact_names_the_known_ones() -> None:
    with pytest.raises(TestbedError, match="kubelet"):
        artifact("kublet")


def test_module_path_has_the_major_version_from_two_on() -> None:
    assert CONTAINERD.package("ctr", "1.7.32") == "github.com/containerd/containerd/cmd/ctr"
    assert CONTAINERD.package("ctr", "2.2.9") == "github.com/containerd/containerd/v2/cmd/ctr"
    assert RUNC.package("runc", "1.4.3") == "github.com/opencontainers/runc"


def test_a_program_is_packed_under_upstreams_name_whatever_its_package_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go names what it builds after the package: nodeproblemdetector."""
    assert (
        NPD.package("node-problem-detector", "1.36.0")
        == "k8s.io/node-problem-detector/cmd/nodeproblemdetector"
    )
    assert (RUNC.built("runc"), CONTAINERD.built("ctr")) == ("runc", "ctr")

    def compile_packages(
        _source: object, _version: str, _arch: str, directory: Path, packages: list[str], *_: str
    ) -> Path:
        (directory / "out").mkdir()
        for package in packages:
            (directory / "out" / package.rpartition("/")[2]).write_text(package)
        return directory / "out"

    monkeypatch.setattr(builder, "compile_packages", compile_packages)
    made = builder.build(NPD, "1.36.0", "amd64", [artifact("npd")], tmp_path)
    with tarfile.open(made["npd"]) as packed:
        assert packed.getnames() == ["bin/health-checker", "bin/node-problem-detector"]


def test_versions_are_stamped_into_the_binaries() -> None:
    assert "-X k8s.io/component-base/version.gitMinor=34" in KUBERNETES.ldflags("1.34.4")
    assert "-X github.com/containerd/containerd/v2/version.Version=v2.2.9" in CONTAINERD.ldflags("2.2.9")
    assert "-extldflags -static" in RUNC.ldflags("1.4.3")


def test_staging_modules_are_replaced_by_their_published_versions() -> None:
    assert gomod.go_mod(UPSTREAM_GO_MOD, "k8s.io/kubernetes", "1.34.4", "kubernetes") == (
        "module testbed/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\n"
        "require k8s.io/kubernetes v1.34.4\n\nreplace (\n"
        "\tk8s.io/api => k8s.io/api v0.34.4\n"
        "\tk8s.io/apimachinery => k8s.io/apimachinery v0.34.4\n)\n"
    )


def test_versions_that_are_built_are_pinned() -> None:
    extra = [
        (name, version)
        for software, version, _ in versions.EXTRA
        for name in versions.SOFTWARE[software]
        if (name, version) not in broken.ARTIFACTS
    ]
    assert len(extra) == 10
    for name, version in (*versions.default_set(), *extra):
        pins = gomod.PINNED / artifact(name).source.name / version
        assert (pins / "go.mod").is_file()
        assert (pins / "go.sum").is_file()


def test_an_ordinary_testbed_needs_no_extra_version() -> None:
    extra = {(name, version) for part, version, _ in versions.EXTRA for name in versions.SOFTWARE[part]}
    assert not extra & {*versions.default_set(), *versions.control_plane_set()}


def test_a_tarball_depends_on_its_content_only(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        program = tmp_path / name
        program.write_bytes(b"program")
        tar_gz(tmp_path / f"{name}.tgz", {"./bridge": program, "./loopback": program})
        digests.add(hashlib.sha256((tmp_path / f"{name}.tgz").read_bytes()).hexdigest())
    assert len(digests) == 1
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress((tmp_path / "one.tgz").read_bytes()))) as archive:
        assert [(entry.name, entry.mode, entry.mtime) for entry in archive] == [
            ("./bridge", 0o755, 0),
            ("./loopback", 0o755, 0),
        ]


def test_a_tar_in_memory_holds_files_links_and_directories() -> None:
    data = tar_bytes({"d": Entry(None, 0o700, 1000), "d/f": Entry(b"text", 0o600), "l": Entry("/dev/null")})
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        kinds = [(entry.name, entry.isdir(), entry.issym(), entry.uid, entry.size) for entry in archive]
    assert kinds == [("d", True, False, 1000, 0), ("d/f", False, False, 0, 4), ("l", False, True, 0, 0)]


def test_a_half_made_cache_entry_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    half = paths.cache() / "artifacts" / "runc" / "1.4.3" / paths.arch()
    half.mkdir(parents=True)
    (half / "runc.amd64").write_bytes(b"")
    assert store.find("runc", "1.4.3") is None
    assert store.stored() == []


def test_the_catalogue_has_the_collections_shape() -> None:
    item = store.Stored("runc", "1.4.3", "amd64", Path("runc.amd64"), "ab" * 32, "built")
    assert store.catalogue([item]) == {"runc": {"1.4.3": {"amd64": "ab" * 32}}}
