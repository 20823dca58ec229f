# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifacts: download, verify, unpack. Nothing is used before it is verified."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from ..catalogue.artifacts import Artifact
from ..errors import ArchiveUnsafe, ArtifactUnreachable, DiskFull
from ..machine.disk import FREE_SOME, explained
from ..machine.host import CHUNK, Host
from ..machine.layout import VERSIONS_DIR, WHEELS_DIR
from ..machine.wheel import Unsafe, unpack_wheel
from ..net.download import MIB, Download, Wanted, private
from ..net.http_client import HttpClient
from ..net.index import file_url
from ..resources.tree import Manifest, Tree
from .prune import clear_staging

PARALLEL = 4
BLOCK = 1 << 18  # bytes that are unpacked at a time
# Several times the largest known file of each kind: whatever is larger is something else.
LARGEST = {"binary": 512 * MIB, "tar.gz": 1024 * MIB, "wheel": 64 * MIB}
UNPACKED = {"binary": 1, "tar.gz": 3, "wheel": 5}  # estimated bytes per downloaded byte


class Fetcher:
    """Downloads artifacts into the versions directory, through a cache keyed by digest."""

    def __init__(self, host: Host, client: HttpClient, cache: str) -> None:
        self._host = host
        self._client = client
        self._cache = cache

    def stage(self, trees: Iterable[Tree]) -> None:
        """Download and unpack every tree beside its final place, several in parallel; all or an error.

        What an earlier run has unpacked and verified is used: one that fails does not cost the others.
        """
        missing: dict[str, list[Tree]] = {}
        staged: dict[str, str] = {}
        for tree in trees:
            if tree.is_staged(self._host):
                staged[tree.staging] = tree.artifact.sha256
            else:
                missing.setdefault(tree.artifact.sha256, []).append(tree)
        clear_staging(self._host, keep=staged)
        for digest in set(staged.values()) - set(missing):
            self._host.remove(f"{self._cache}/{digest}")  # a run was killed right before it did this
        self._host.make_directories(self._cache, 0o700)
        # Archives first: unpacking takes longest, and must not start last.
        longest_first = sorted(missing.values(), key=lambda same: same[0].artifact.kind == "binary")
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="fetch") as pool:
            for done in [pool.submit(self._stage_all_of, same) for same in longest_first]:
                done.result()

    def _stage_all_of(self, trees: list[Tree]) -> None:
        """Unpack every tree that one file contains (a node tarball has three), then remove the file."""
        archive = self._cached(trees[0].artifact)
        for tree in trees:
            self._host.make_directories(tree.staging)
            if tree.artifact.kind == "binary":
                digests = self._place(archive, tree)
            elif tree.artifact.kind == "wheel":
                digests = self._unpack_wheel(archive, tree)
            else:
                digests = self._unpack(archive, tree)
            # On the disk before the manifest says so, and long before a link points here. Each thread waits
            # for its own files, while others still download.
            self._host.sync_tree(tree.staging)
            Manifest.write(self._host, tree.staging, tree.artifact.sha256, digests, tree.mode)
        self._host.remove(archive)

    def _place(self, file: str, tree: Tree) -> dict[str, str]:
        """A plain binary: the verified file is moved, not copied."""
        ((_member, name),) = tree.members
        self._host.move(file, f"{tree.staging}/{name}")
        self._host.set_access(f"{tree.staging}/{name}", 0o755, 0, 0)
        return {name: tree.artifact.sha256}

    def _cached(self, artifact: Artifact) -> str:
        """The verified file in the cache; downloaded only if the cache does not have it."""
        place = f"{self._cache}/{artifact.sha256}"
        if self._host.stat(place).is_ == "file" and self._host.sha256(place) == artifact.sha256:
            return place
        if artifact.kind == "wheel" and self._copied(artifact, place):
            return place
        url = file_url(self._client, artifact.url)
        wanted = Wanted(f"{artifact.name} {artifact.version}", url, artifact.sha256, LARGEST[artifact.kind])
        partial = f"{place}.part"
        Download(
            self._host,
            self._client,
            wanted,
            partial,
            check_space=lambda missing, total: self._check_space(artifact, missing, total),
        ).run()
        self._host.move(partial, place)
        return place

    def _copied(self, artifact: Artifact, place: str) -> bool:
        """Whether a wheel was on this machine already, in a directory that holds such files."""
        _scheme, is_local, directory = artifact.url.partition("file://")
        beside = f"{WHEELS_DIR}/{artifact.file_name}"
        for file in (directory, beside) if is_local else (beside,):
            content = self._host.read(file) if self._host.stat(file).is_ == "file" else None
            # Of what was read: the file may be changed meanwhile by whoever owns the directory.
            if content is not None and hashlib.sha256(content).hexdigest() == artifact.sha256:
                partial = f"{place}.part"  # as of a download: a run that is killed leaves nothing else
                self._host.remove(partial)
                with explained(partial), open(self._host.path(partial), "xb", opener=private) as copy:
                    copy.write(content)
                self._host.move(partial, place)
                return True
        if is_local:
            raise ArtifactUnreachable(
                f"{artifact.file_name} is missing, or another file",
                where=directory,
                why=f"expected a file with sha256 {artifact.sha256}",
                fix="copy the wheels there again: they are built by the module flexnode_wheelhouse",
            )
        return False

    def _check_space(self, artifact: Artifact, missing: int, total: int) -> None:
        """Refuse a download that the disk can't hold, before anything is written."""
        cache, cache_free = self._host.free_space(self._cache)
        versions, versions_free = self._host.free_space(VERSIONS_DIR)
        unpacked = total * UNPACKED[artifact.kind]
        if cache == versions:
            # A binary is moved, so it needs its space only once.
            needs = [(self._cache, missing + (unpacked if artifact.kind != "binary" else 0), cache_free)]
        else:
            needs = [(self._cache, missing, cache_free), (VERSIONS_DIR, unpacked, versions_free)]
        for path, needed, free in needs:
            if needed > free:
                raise DiskFull(
                    f"there is not enough disk space for {artifact.name} {artifact.version}",
                    where=path,
                    why=f"it needs about {needed / MIB:.0f} MiB, {free / MIB:.0f} MiB are free",
                    fix=FREE_SOME,
                )

    def _unpack(self, archive: str, tree: Tree) -> dict[str, str]:
        """Extract the wanted members, and only those, as plain files; returns their digests."""
        wanted = dict(tree.members)
        digests: dict[str, str] = {}
        try:
            # As a stream: members are read in order, and large blocks save a fifth of the time.
            with tarfile.open(self._host.path(archive), "r|gz", bufsize=BLOCK) as tar:
                for member in tar:
                    name = wanted.get(member.name.removeprefix("./"))
                    if name is None:
                        continue
                    if name in digests:
                        raise _unsafe(tree.artifact, f"it contains {member.name} twice")
                    source = tar.extractfile(member) if member.isreg() else None
                    if source is None:
                        raise _unsafe(tree.artifact, f"{member.name} is not a regular file")
                    target = f"{tree.staging}/{name}"
                    digests[name] = self._write_member(source, target)
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise _unsafe(tree.artifact, f"it can't be read as a tar.gz archive: {error}") from error
        if missing := sorted(set(wanted.values()) - set(digests)):
            raise _unsafe(tree.artifact, f"it lacks {', '.join(missing)}")
        return digests

    def _unpack_wheel(self, archive: str, tree: Tree) -> dict[str, str]:
        """Extract all modules of a wheel; returns their digests."""
        try:
            return unpack_wheel(self._host, archive, tree.staging)
        except Unsafe as error:
            raise _unsafe(tree.artifact, str(error)) from error

    def _write_member(self, source: IO[bytes], target: str) -> str:
        digest = hashlib.sha256()
        with explained(target), open(self._host.path(target), "xb", opener=private) as file:
            while block := source.read(CHUNK):
                digest.update(block)
                file.write(block)
            os.fchmod(file.fileno(), 0o755)
        return digest.hexdigest()


def _unsafe(artifact: Artifact, why: str) -> ArchiveUnsafe:
    return ArchiveUnsafe(
        what=f"{artifact.name} {artifact.version} can't be unpacked",
        where=artifact.url,
        why=why,
        fix="use the archive that upstream publishes, or a build with the same members",
    )
