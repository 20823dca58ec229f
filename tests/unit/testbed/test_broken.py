# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that are broken on purpose: made from real ones, never taken for real ones."""

from __future__ import annotations

import json
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed import cli
from testbed.artifacts import broken, store, upstream
from testbed.artifacts.archive import tar_gz
from testbed.artifacts.recipes import artifact
from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.layout import versions
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.mirror import Mirror

REAL = {"kubelet": versions.KUBERNETES, "kubectl": versions.KUBERNETES, "kubeadm": versions.KUBERNETES}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that holds the default versions of what nodes run: each binary is its own name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, version in {**REAL, "containerd": versions.CONTAINERD, "npd": versions.NPD}.items():
        item = artifact(name)
        directory = paths.cache() / "artifacts" / name / version / paths.arch()
        file = directory / item.path(version, paths.arch()).rsplit("/", 1)[1]
        if item.member:
            programs = {program: tmp_path / program for program in item.programs}
            for program, path in programs.items():
                files.write(path, program)
            directory.mkdir(parents=True)
            tar_gz(file, {item.member.format(program): path for program, path in programs.items()})
        else:
            files.write(file, name, 0o755)
        record = {"file": file.name, "sha256": files.sha256(file), "origin": "built"}
        files.write(directory / store.RECORD, json.dumps(record))
    return paths.cache()


def node_files(software: str, version: str) -> dict[str, store.Stored]:
    return {item.name: item for item in store.ensure((n, version) for n in versions.SOFTWARE[software])}


def run(file: Path, *argv: str) -> tuple[int, str, str]:
    done = subprocess.run([file, *argv], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_only_the_kubelet_is_broken(cache: Path) -> None:
    made = node_files("kubernetes", versions.KUBELET_EXITS)
    real = node_files("kubernetes", versions.KUBERNETES)
    assert {name for name in made if made[name].sha256 != real[name].sha256} == {"kubelet"}
    assert made["kubectl"].file.read_text(encoding="utf-8") == "kubectl"
    assert made["kubelet"].sha256 == files.sha256(made["kubelet"].file)


def test_a_kubelet_that_exits_knows_its_version_and_says_why(cache: Path) -> None:
    kubelet = node_files("kubernetes", versions.KUBELET_EXITS)["kubelet"].file
    assert run(kubelet, "--version") == (0, f"Kubernetes v{versions.KUBELET_EXITS}\n", "")
    status, said, error = run(kubelet, "--config=/etc/kubernetes/kubelet.yaml")
    assert (status, said) == (1, "")
    assert 'run.go:72] "command failed" err="failed to run Kubelet:' in error


def test_a_kubelet_with_another_number(cache: Path) -> None:
    """The linker's text, and none that is a part of others."""
    real = node_files("kubernetes", versions.KUBERNETES)["kubelet"].file
    real.write_bytes(b"\0k8s.io/kubernetes@v1.34.4/main.go\0v1.34.44\0v1.34.4\0\0")
    made = node_files("kubernetes", versions.KUBERNETES_RENUMBERED)
    assert made["kubelet"].file.read_bytes() == real.read_bytes()[:-3] + b"0\0\0"
    assert made["kubectl"].file.read_text(encoding="utf-8") == "kubectl"
    with pytest.raises(TestbedError, match="as long as"):
        broken.renumbered(real.read_bytes(), versions.KUBERNETES, "1.33.13")
    with pytest.raises(TestbedError, match="no version"):
        broken.renumbered(b"v1.34.40", versions.KUBERNETES, "1.34.0")


def test_a_containerd_that_refuses_its_configuration(cache: Path, tmp_path: Path) -> None:
    tarball = node_files("containerd", versions.CONTAINERD_REFUSES)["containerd"].file
    programs = broken.unpacked(tarball, artifact("containerd"), tmp_path)
    assert programs["ctr"].read_text(encoding="utf-8") == "ctr"
    containerd = programs["containerd"]
    containerd.chmod(0o755)
    status, said, _ = run(containerd, "--version")
    assert (status, said.split()[2]) == (0, f"v{versions.CONTAINERD_REFUSES}")
    status, _, error = run(containerd)
    assert status == 1
    assert error.startswith("containerd: failed to load TOML from /etc/containerd/config.toml: ")


def test_a_detector_that_exits_and_one_that_says_nothing(cache: Path, tmp_path: Path) -> None:
    for version in (versions.NPD_EXITS, versions.NPD_SILENT):
        tarball = node_files("npd", version)["npd"].file
        assert tarball.name == f"node-problem-detector-v{version}-linux_{paths.arch()}.tar.gz"
        detector = broken.unpacked(tarball, artifact("npd"), tmp_path)["node-problem-detector"]
        detector.chmod(0o755)
        assert run(detector, "--version") == (0, f"v{version}\n", "")
        if version == versions.NPD_EXITS:
            status, _, error = run(detector, "--port=0")
            assert status == 255
            assert "Failed to unmarshal configuration file" in error
        else:
            with subprocess.Popen([detector, "--port=0"]) as process:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)
                process.kill()


def test_every_compiled_fault_is_in_the_source() -> None:
    faults = {one.fault for one in broken.BROKEN.values() if one.fault}
    source = (broken.SOURCES / "kubelet.go").read_text(encoding="utf-8")
    assert faults == {"never-ready", "stops"}
    assert all(f'case "{fault}":' in source for fault in faults)


def test_a_compiled_kubelet_is_stamped_with_its_own_version(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate compares versions: a kubelet that reports another one would fail for the wrong reason."""
    asked: list[tuple[str, list[str], str]] = []

    def compile_packages(
        source: object,
        version: str,
        arch: str,
        directory: Path,
        packages: list[str],
        ldflags: str,
        what: str,
    ) -> Path:
        assert arch == paths.arch()
        assert (directory / "kubelet" / "main.go").is_file()
        files.write(directory / "out" / "kubelet", "compiled", 0o755)
        asked.append((version, packages, ldflags))
        return directory / "out"

    monkeypatch.setattr(broken.builder, "compile_packages", compile_packages)
    made = node_files("kubernetes", versions.KUBELET_STOPS)
    assert made["kubelet"].file.read_text(encoding="utf-8") == "compiled"
    ((version, packages, ldflags),) = asked
    assert (version, packages) == (versions.KUBERNETES, ["./kubelet"])
    assert f"-X k8s.io/component-base/version.gitVersion=v{versions.KUBELET_STOPS} " in ldflags
    assert ldflags.endswith("-X main.fault=stops")


def test_broken_versions_are_served_but_in_no_catalogue(cache: Path, tmp_path: Path) -> None:
    node_files("kubernetes", versions.KUBELET_EXITS)
    node_files("containerd", versions.CONTAINERD_REFUSES)
    site = Site("unit", tmp_path / "site", Plan(IPv4Network("10.89.0.0/24")), "unit-net")
    mirror = Mirror(site)
    mirror.refresh()
    index = json.loads((tmp_path / "site" / "mirror" / "index.json").read_text(encoding="utf-8"))
    entry = index[f"/dl.k8s.io/release/v{versions.KUBELET_EXITS}/bin/linux/{paths.arch()}/kubelet"]
    assert entry["file"].startswith(f"/srv/artifacts/.broken-{broken.revision()}/kubelet/")
    assert mirror.catalogue["kubelet"].keys() == {versions.KUBERNETES}
    assert mirror.catalogue["containerd"].keys() == {versions.CONTAINERD}


def test_a_checkout_without_them_does_not_see_them(cache: Path) -> None:
    """The cache is shared: below artifacts/NAME there are real versions only."""
    node_files("kubernetes", versions.KUBELET_EXITS)
    assert [path.name for path in (cache / "artifacts" / "kubelet").iterdir()] == [versions.KUBERNETES]


def test_upstream_never_released_them() -> None:
    known = upstream.known_digests()
    assert known
    faulty = [pair for pair in broken.ARTIFACTS if pair[1] != versions.KUBERNETES_RENUMBERED]
    assert not [pair for pair in faulty if pair[1] in known.get(pair[0], {})]


def test_every_broken_version_is_listed() -> None:
    listed = {(software, version) for software, version, purpose in versions.EXTRA if "broken" in purpose}
    listed.add(("kubernetes", versions.KUBERNETES_RENUMBERED))
    assert listed == set(broken.BROKEN)


def test_the_command_line_lists_them(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node_files("kubernetes", versions.KUBELET_EXITS)
    assert cli.main(["versions"]) == 0
    lines = {tuple(line.split()[:2]): line.split()[2] for line in capsys.readouterr().out.splitlines()}
    assert lines["kubernetes", versions.KUBELET_EXITS] == "built"
    assert lines["containerd", versions.CONTAINERD_REFUSES] == "not"
    assert len(lines) == len(versions.EXTRA)
