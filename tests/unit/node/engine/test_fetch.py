# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Artifacts: nothing is in use that was not verified, and what is there is not fetched again."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from threading import Barrier

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.fetch import Fetcher
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArchiveUnsafe,
    ArtifactTruncated,
    ArtifactUnreachable,
    DigestMismatch,
    DiskFull,
    FlexNodeError,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import (
    VERSIONS_DIR,
    version_dir,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree
from tests.unit.node.fakes import FakeClock, Machine
from tests.unit.node.servers import Answer, Pki, Request, serving

CACHE = "/var/lib/aks-flex-node/cache"
Member = tuple[str, bytes | str]  # content of a file, or the target of a link


def archive(*members: Member) -> bytes:
    """A tar.gz, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o777
                tar.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def an_artifact(base: str, name: str, content: bytes, kind: str = "binary") -> Artifact:
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(
        name, "1.0.0", "amd64", f"{base}/{name}", digest, "binary" if kind == "binary" else "tar.gz"
    )


def a_tree(artifact: Artifact, *members: tuple[str, str], at: str = "") -> Tree:
    place = version_dir(at or artifact.name, artifact.version, artifact.sha256)
    return Tree(place, artifact, members or (("", artifact.name),))


def files(content: Mapping[str, bytes]) -> Callable[[Request], Answer]:
    """A server of files."""

    def answer(request: Request) -> Answer:
        body = content.get(request.path.lstrip("/"))
        return Answer(status=404) if body is None else Answer(body)

    return answer


def fetcher(machine: Machine, ca_pem: str = "") -> Fetcher:
    return Fetcher(machine.host, HttpClient(ca_pem=ca_pem, clock=machine.clock), CACHE)


def left_behind(machine: Machine) -> list[str]:
    """What a failed run leaves in the cache."""
    return list(machine.host.names(CACHE))


def test_a_program_is_verified_and_staged_ready_to_run(machine: Machine) -> None:
    with serving(files({"tool": b"program"})) as server:
        tree = a_tree(an_artifact(server.url, "tool", b"program"))
        fetcher(machine).stage([tree])
    assert machine.text(f"{tree.staging}/tool") == "program"
    assert machine.host.stat(f"{tree.staging}/tool").mode == 0o755
    assert machine.host.stat(tree.path).absent  # staged beside its place, not in it
    tree.apply(machine.host)
    assert tree.observe(machine.host) == "complete"
    assert left_behind(machine) == []


def test_of_an_archive_only_the_wanted_members_are_written(machine: Machine) -> None:
    packed = archive(("./bin/tool", b"program"), ("../../evil", b"x"), ("bin/other", b"y"), ("link", "/etc"))
    with serving(files({"pack": packed})) as server:
        tree = a_tree(an_artifact(server.url, "pack", packed, "tar.gz"), ("bin/tool", "tool"))
        fetcher(machine).stage([tree])
    assert machine.host.names(tree.staging) == (".manifest.json", "tool")
    assert machine.host.stat(f"{tree.staging}/tool").mode == 0o755


def test_one_archive_serves_two_trees_with_one_request(machine: Machine) -> None:
    packed = archive(("node/kubelet", b"1"), ("node/kubectl", b"2"))
    with serving(files({"node": packed})) as server:
        artifact = an_artifact(server.url, "node", packed, "tar.gz")
        trees = [a_tree(artifact, (f"node/{name}", name), at=name) for name in ("kubelet", "kubectl")]
        fetcher(machine).stage(trees)
    assert [machine.host.names(tree.staging)[1:] for tree in trees] == [("kubelet",), ("kubectl",)]
    assert len(server.requests) == 1


def test_a_cached_file_is_used_without_a_request(machine: Machine) -> None:
    artifact = an_artifact("http://nobody.invalid", "tool", b"program")
    machine.put(f"{CACHE}/{artifact.sha256}", b"program")
    fetcher(machine).stage([a_tree(artifact)])
    assert machine.text(f"{a_tree(artifact).staging}/tool") == "program"


def test_a_damaged_cached_file_is_fetched_again(machine: Machine) -> None:
    with serving(files({"tool": b"program"})) as server:
        artifact = an_artifact(server.url, "tool", b"program")
        machine.put(f"{CACHE}/{artifact.sha256}", b"damaged")
        fetcher(machine).stage([a_tree(artifact)])
    assert machine.text(f"{a_tree(artifact).staging}/tool") == "program"


def test_what_a_crash_left_is_no_obstacle(machine: Machine) -> None:
    with serving(files({"tool": b"program"})) as server:
        artifact = an_artifact(server.url, "tool", b"program")
        tree = a_tree(artifact)
        machine.put(f"{CACHE}/{artifact.sha256}.part", b"half")
        machine.put(f"{tree.staging}/old", b"half")
        fetcher(machine).stage([tree])
    assert machine.host.names(tree.staging) == (".manifest.json", "tool")


def test_several_are_fetched_at_a_time(machine: Machine) -> None:
    together = Barrier(2, timeout=20)  # each request waits for another one

    def answer(request: Request) -> Answer:
        together.wait()
        return Answer(request.path.encode())

    with serving(answer) as server:
        names = [f"tool{number}" for number in range(2)]
        artifacts = [an_artifact(server.url, name, f"/{name}".encode()) for name in names]
        fetcher(machine).stage([a_tree(artifact) for artifact in artifacts])
    assert sorted(server.asked) == [f"GET /{name}" for name in names]


# -- what must not happen ----------------------------------------------------------------------------------


def test_another_content_than_expected(machine: Machine) -> None:
    with serving(files({"tool": b"evil"})) as server, pytest.raises(DigestMismatch) as caught:
        fetcher(machine).stage([a_tree(an_artifact(server.url, "tool", b"program"))])
    expected, got = (hashlib.sha256(content).hexdigest() for content in (b"program", b"evil"))
    assert caught.value.why == f"expected sha256 {expected}, got {got}"
    assert len(server.requests) == 1
    assert left_behind(machine) == []


def test_a_download_that_breaks_off_is_tried_again(machine: Machine) -> None:
    left = [Answer(b"program", cut=3), Answer(b"program")]
    with serving(lambda _: left.pop(0)) as server:
        tree = a_tree(an_artifact(server.url, "tool", b"program"))
        fetcher(machine).stage([tree])
    assert machine.text(f"{tree.staging}/tool") == "program"


def test_a_download_that_always_breaks_off_leaves_its_part_for_the_next_run(machine: Machine) -> None:
    with serving(lambda _: Answer(b"program", cut=3)) as server, pytest.raises(ArtifactTruncated) as caught:
        fetcher(machine).stage([a_tree(an_artifact(server.url, "tool", b"program"))])
    assert "3 of 7 bytes" in caught.value.why
    assert left_behind(machine) == [f"{hashlib.sha256(b'program').hexdigest()}.part"]


def test_a_file_that_is_not_there(machine: Machine) -> None:
    with serving(files({})) as server, pytest.raises(ArtifactUnreachable, match="404") as caught:
        fetcher(machine).stage([a_tree(an_artifact(server.url, "tool", b"program"))])
    assert caught.value.where == f"{server.url}/tool"


def test_a_mirror_with_an_unknown_ca(machine: Machine, pki: Pki) -> None:
    with serving(files({"tool": b"program"}), pki.server_context()) as server:
        tree = a_tree(an_artifact(server.url, "tool", b"program"))
        with pytest.raises(ArtifactUnreachable, match=r"mirror\.caCert"):
            fetcher(machine).stage([tree])
        fetcher(machine, pki.ca_pem).stage([tree])
    assert machine.text(f"{tree.staging}/tool") == "program"


LONG = archive(("bin/tool", b" ".join(str(number).encode() for number in range(100_000))))


def broken_inside() -> bytes:
    """An archive whose second block of data contradicts itself."""
    packed = bytearray(gzip.compress(gzip.decompress(LONG), compresslevel=0, mtime=0))
    second = 10 + 5 + int.from_bytes(packed[11:13], "little")
    packed[second + 1 : second + 5] = b"\x00\x00\x00\x00"
    return bytes(packed)


UNSAFE = {
    "a link": (archive(("bin/tool", "/etc/passwd")), "not a regular file"),
    "a member less": (archive(("bin/other", b"x")), "lacks tool"),
    "an absolute name": (archive(("/bin/tool", b"x")), "lacks tool"),
    "a member twice": (archive(("bin/tool", b"one"), ("./bin/tool", b"two")), "twice"),
    "no archive": (b"plain text", "can't be read as a tar.gz"),
    "no tar": (gzip.compress(b"not a tar", mtime=0), "can't be read as a tar.gz"),
    "an end too early": (LONG[:-30], "can't be read as a tar.gz"),
    "a broken head": (LONG[:12] + b"\xff" * 40, "can't be read as a tar.gz"),
    "a broken middle": (broken_inside(), "can't be read as a tar.gz"),
}


@pytest.mark.parametrize(("packed", "why"), UNSAFE.values(), ids=UNSAFE)
def test_an_archive_that_is_not_what_it_should_be(machine: Machine, packed: bytes, why: str) -> None:
    with serving(files({"pack": packed})) as server:
        artifact = an_artifact(server.url, "pack", packed, "tar.gz")
        with pytest.raises(ArchiveUnsafe) as caught:
            fetcher(machine).stage([a_tree(artifact, ("bin/tool", "tool"))])
    assert why in caught.value.why
    assert caught.value.where == f"{server.url}/pack"


def test_one_that_fails_fails_all_and_only_that_one_is_fetched_again(machine: Machine) -> None:
    packed = archive(("bin/pack", b"packed"))
    content = {"good": b"good", "pack": packed}
    with serving(files(content)) as server:
        trees = [a_tree(an_artifact(server.url, name, name.encode())) for name in ("good", "missing")]
        trees.append(a_tree(an_artifact(server.url, "pack", packed, "tar.gz"), ("bin/pack", "pack")))
        with pytest.raises(FlexNodeError):
            fetcher(machine).stage(trees)
        assert all(machine.host.stat(tree.path).absent for tree in trees)
        content["missing"] = b"missing"
        server.requests.clear()
        fetcher(machine).stage(trees)
    assert server.asked == ["GET /missing"]
    for tree in trees:
        tree.apply(machine.host)
        assert tree.observe(machine.host) == "complete"


def test_of_a_node_tarball_only_what_is_not_unpacked_is_unpacked(machine: Machine) -> None:
    packed = archive(("node/kubelet", b"1"), ("node/kubectl", b"2"))
    with serving(files({"node": packed})) as server:
        artifact = an_artifact(server.url, "node", packed, "tar.gz")
        first, second = [a_tree(artifact, (f"node/{name}", name), at=name) for name in ("kubelet", "kubectl")]
        fetcher(machine).stage([first])
        before = machine.host.stat(f"{first.staging}/kubelet").fingerprint
        fetcher(machine).stage([first, second])
    assert machine.host.stat(f"{first.staging}/kubelet").fingerprint == before
    assert second.is_staged(machine.host)


def test_a_download_that_is_unpacked_does_not_stay(machine: Machine) -> None:
    packed = archive(("bin/tool", b"program"))
    with serving(files({"pack": packed})) as server:
        tree = a_tree(an_artifact(server.url, "pack", packed, "tar.gz"), ("bin/tool", "tool"))
        fetcher(machine).stage([tree])
        machine.put(f"{CACHE}/{tree.artifact.sha256}", packed)  # killed before it was removed
        fetcher(machine).stage([tree])
    assert (left_behind(machine), len(server.requests)) == ([], 1)


def test_an_unpacked_version_that_was_damaged_or_is_not_wanted_any_more_is_not_kept(machine: Machine) -> None:
    with serving(files({"tool": b"program", "other": b"other"})) as server:
        tool, other = (
            a_tree(an_artifact(server.url, name, content))
            for name, content in (("tool", b"program"), ("other", b"other"))
        )
        fetcher(machine).stage([tool, other])
        machine.put(f"{tool.staging}/tool", "damaged", 0o755)
        fetcher(machine).stage([tool])
    assert machine.text(f"{tool.staging}/tool") == "program"
    assert machine.host.stat(other.staging).absent


class SmallDisk(Host):
    """A host with little space: file system and free MiB of each directory."""

    free: Mapping[str, tuple[int, int]]

    def free_space(self, path: str) -> tuple[int, int]:
        device, free = self.free[path]
        return device, free << 20


SPACE = {
    "one file system, a binary": ((1, 6), (1, 6), "binary", CACHE, "needs about 7 MiB"),
    "one file system, an archive": ((1, 27), (1, 27), "tar.gz", CACHE, "needs about 28 MiB, 27 MiB are free"),
    "no room for the download": ((1, 6), (2, 99), "tar.gz", CACHE, "needs about 7 MiB"),
    "no room for the binary": ((1, 99), (2, 6), "binary", VERSIONS_DIR, "needs about 7 MiB"),
    "no room to unpack": ((1, 99), (2, 20), "tar.gz", VERSIONS_DIR, "needs about 21 MiB, 20 MiB are free"),
}


@pytest.mark.parametrize(("cache", "versions", "kind", "where", "why"), SPACE.values(), ids=SPACE)
def test_a_disk_that_is_too_small_is_found_before_anything_is_written(
    machine: Machine, cache: tuple[int, int], versions: tuple[int, int], kind: str, where: str, why: str
) -> None:
    host = SmallDisk(str(machine.root), machine.commands, machine.clock)
    host.free = {CACHE: cache, VERSIONS_DIR: versions}
    content = bytes(7 << 20)
    with serving(files({"tool": content})) as server:
        tree = a_tree(an_artifact(server.url, "tool", content, kind), ("tool", "tool"))
        with pytest.raises(DiskFull) as caught:
            Fetcher(host, HttpClient(clock=machine.clock), CACHE).stage([tree])
    assert caught.value.where == where
    assert caught.value.why.startswith(f"it {why}")
    assert "df -h" in caught.value.fix
    assert left_behind(machine) == []
    assert machine.host.names(VERSIONS_DIR) == ()


class HurryingClock(FakeClock):
    """More than a minute passes between any two looks."""

    def monotonic(self) -> float:
        self.time += 61
        return self.time


def test_a_source_that_trickles_is_given_up_and_leaves_its_part_for_the_next_run(machine: Machine) -> None:
    content = b"x" * 60_000  # less than the 64 KiB that have to arrive in a minute
    machine.host.clock = HurryingClock()
    with serving(files({"runc": content})) as server:
        tree = a_tree(an_artifact(server.url, "runc", content))
        with pytest.raises(ArtifactUnreachable, match="has stalled") as caught:
            fetcher(machine).stage([tree])
    assert "less than 64 KiB in 60 s" in str(caught.value)
    assert left_behind(machine) == [f"{tree.artifact.sha256}.part"]
