# SPDX-License-Identifier: GPL-3.0-or-later
"""Two architectures in one cache, on one mirror; and what a build for the other one is told."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.artifacts import builder, cross, store
from testbed.artifacts.recipes import CNI_PLUGINS, KUBERNETES, RUNC, Source, artifact
from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.host import packages
from testbed.images import rootfs
from testbed.layout import site, versions
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.mirror import Mirror

OTHER = {"amd64": "arm64", "arm64": "amd64"}[paths.arch()]


def keep(name: str, version: str, arch: str) -> str:
    """Put an artifact into the cache; return its digest."""
    directory = paths.cache() / "artifacts" / name / version / arch
    file = directory / artifact(name).path(version, arch).rsplit("/", 1)[1]
    files.write(file, f"{name} {version} for {arch}", 0o755)
    record = {"file": file.name, "sha256": files.sha256(file), "origin": "built"}
    files.write(directory / store.RECORD, json.dumps(record))
    return str(record["sha256"])


@pytest.fixture
def digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """runc for both architectures, the kubelet for this one only: digests of runc."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keep("kubelet", versions.KUBERNETES, paths.arch())
    return {arch: keep("runc", versions.RUNC, arch) for arch in ("amd64", "arm64")}


def test_one_that_is_only_there_for_another_architecture_is_not_found(digests: dict[str, str]) -> None:
    for arch, digest in digests.items():
        found = store.find("runc", versions.RUNC, arch)
        assert found is not None
        assert (found.arch, found.sha256, found.file.name) == (arch, digest, f"runc.{arch}")
    own = store.find("runc", versions.RUNC)
    assert own is not None
    assert own.arch == paths.arch()
    assert store.find("kubelet", versions.KUBERNETES, OTHER) is None
    assert store.find("kubelet", versions.KUBERNETES) is not None


def test_what_is_there_is_not_made_again(digests: dict[str, str]) -> None:
    (found,) = store.ensure([("runc", versions.RUNC)], OTHER)
    assert (found.arch, found.sha256) == (OTHER, digests[OTHER])


def test_the_mirror_serves_every_architecture_and_its_catalogue_names_them(
    digests: dict[str, str], tmp_path: Path
) -> None:
    mirror = Mirror(Site("unit", tmp_path / "site", Plan(IPv4Network("10.89.0.0/24")), "unit-net"))
    mirror.refresh()
    index = json.loads((tmp_path / "site" / "mirror" / "index.json").read_text(encoding="utf-8"))
    for arch, digest in digests.items():
        path = mirror.artifact_url("runc", versions.RUNC, arch).removeprefix(mirror.url)
        assert index[path] == {
            "file": f"/srv/artifacts/runc/{versions.RUNC}/{arch}/runc.{arch}",
            "sha256": digest,
        }
    assert mirror.catalogue["runc"] == {versions.RUNC: digests}
    assert mirror.catalogue["kubelet"][versions.KUBERNETES].keys() == {paths.arch()}


def test_what_is_offered_is_offered_for_all_machines_of_a_testbed(
    digests: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    here, own = site.create("unit", []), paths.arch()
    assert Testbed("unit").offer("runc", versions.RUNC) == {"runc": {versions.RUNC: {own: digests[own]}}}
    here.remember("architectures", OTHER)
    assert Testbed("unit").offer("runc", versions.RUNC) == {"runc": {versions.RUNC: digests}}


@pytest.mark.parametrize(("source", "cgo"), [(KUBERNETES, "0"), (CNI_PLUGINS, "0"), (RUNC, "1")])
@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_go_is_told_the_architecture_and_a_compiler_only_where_it_needs_one(
    source: Source, cgo: str, arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(builder.toolchain, "find_go", lambda: Path("/go"))
    monkeypatch.setattr(builder.gomod, "prepare", lambda *_: None)
    monkeypatch.setattr(builder, "run", lambda *_, env, **__: asked.append(env))
    monkeypatch.setattr(builder.cross, "prepare", lambda one, _: {"CC": f"cc-{one}"})
    builder.compile_packages(source, "1.2.3", arch, tmp_path, ["./x"], "", "x")
    (env,) = asked
    assert (env["GOARCH"], env["CGO_ENABLED"], env["GOOS"]) == (arch, cgo, "linux")
    assert env.get("CC") == (f"cc-{OTHER}" if arch == OTHER and source is RUNC else None)


def test_a_cross_build_finds_libraries_of_its_architecture_only() -> None:
    env = cross.environment("arm64", Path("/build/libraries"))
    assert env["CC"] == "aarch64-linux-gnu-gcc"
    assert env["PKG_CONFIG_LIBDIR"] == "/build/libraries/usr/lib/aarch64-linux-gnu/pkgconfig"
    assert env["CGO_LDFLAGS"] == "-L/build/libraries/usr/lib/aarch64-linux-gnu"
    assert cross.environment("amd64", Path("/b"))["CC"] == "x86_64-linux-gnu-gcc"
    assert not any("libc" in name for name in cross.members("arm64"))


def test_the_machines_own_compiler_is_used_for_its_own_architecture() -> None:
    assert cross.compiler(paths.arch()) == "gcc"


def test_a_cross_compiler_is_only_missing_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.shutil, "which", lambda *_, **__: None)
    cross_needs = replace(packages.CROSS["arm64"], files={"/absent/libc.a": "libc6-dev-arm64-cross"})
    assert cross_needs.missing() == ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]
    assert not [name for name in packages.TESTBED.missing() if "aarch64" in name or "cross" in name]
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match="apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"):
        cross_needs.ensure()


def test_files_of_packages_of_another_architecture_need_nothing_that_runs_it() -> None:
    recipe = cross.libraries(OTHER)
    assert rootfs.architecture(recipe) == [f"--architectures={OTHER}", "--skip=check/qemu"]
    assert recipe.digest() != cross.libraries(paths.arch()).digest()
    assert rootfs.architecture(cross.libraries(paths.arch())) == []
    plain = rootfs.Recipe(name="x", suite="bookworm", packages=("busybox-static",))
    assert rootfs.architecture(plain) == []
    assert plain.digest() == rootfs.Recipe("x", "bookworm", ("busybox-static",), arch=paths.arch()).digest()
