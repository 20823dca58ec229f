# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifacts: download, verify, unpack. Nothing is used before it is verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import tarfile
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from ..catalogue.artifacts import Artifact
from ..errors import ArchiveUnsafe, ArtifactTruncated, ArtifactUnreachable, DigestMismatch
from ..machine.host import CHUNK, Host, explained
from ..machine.layout import ASIDE, STAGING, VERSIONS_DIR
from ..net.http_client import HttpClient, HttpFailure
from ..resources.tree import Manifest, Tree

PARALLEL = 4
BLOCK = 1 << 18  # bytes that are unpacked at a time
ATTEMPTS = 3  # for a download that broke off
PATIENCE = 60.0  # seconds in which at least CHUNK bytes must arrive


class Fetcher:
    """Downloads artifacts into the versions directory, through a cache keyed by digest."""

    def __init__(self, host: Host, client: HttpClient, cache: str) -> None:
        self._host = host
        self._client = client
        self._cache = cache

    def stage(self, trees: Iterable[Tree]) -> None:
        """Download and unpack every tree beside its final place, several in parallel; all or an error."""
        clear_staging(self._host)
        self._host.make_directories(self._cache, 0o700)
        by_digest: dict[str, list[Tree]] = {}
        for tree in trees:
            by_digest.setdefault(tree.artifact.sha256, []).append(tree)
        # Archives first: unpacking takes longest, and must not start last.
        longest_first = sorted(by_digest.values(), key=lambda same: same[0].artifact.kind == "binary")
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="fetch") as pool:
            for staged in [pool.submit(self._stage_all_of, same) for same in longest_first]:
                staged.result()

    def _stage_all_of(self, trees: list[Tree]) -> None:
        """Unpack every tree that one file contains (a node tarball has three), then remove the file."""
        archive = self._cached(trees[0].artifact)
        for tree in trees:
            self._host.remove_tree(tree.staging)
            self._host.make_directories(tree.staging)
            if tree.artifact.kind == "binary":
                digests = self._place(archive, tree)
            else:
                digests = self._unpack(archive, tree)
            Manifest.write(self._host, tree.staging, tree.artifact.sha256, digests)
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
        partial = f"{place}.part"
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._download(artifact, partial)
                    break
                except ArtifactTruncated:
                    if attempt == ATTEMPTS:
                        raise
            self._host.move(partial, place)
        finally:
            self._host.remove(partial)
        return place

    def _download(self, artifact: Artifact, target: str) -> None:
        digest = hashlib.sha256()
        received = 0
        try:
            with self._client.open("GET", artifact.url) as answer:
                announced = int(answer.headers.get("Content-Length") or 0)
                clock = self._host.clock
                mark, deadline = 0, clock.monotonic() + PATIENCE
                with explained(target):  # disk errors only: network errors are handled below
                    file = open(self._host.path(target), "wb", opener=_private)  # noqa: SIM115
                with file:
                    while block := answer.read1(CHUNK):
                        digest.update(block)
                        with explained(target):
                            file.write(block)
                        received += len(block)
                        if received - mark >= CHUNK:
                            mark, deadline = received, clock.monotonic() + PATIENCE
                        elif clock.monotonic() > deadline:
                            raise _too_slow(artifact, received)
                    with explained(target):
                        file.flush()
        except HttpFailure as failure:
            raise ArtifactUnreachable(
                what=f"{artifact.name} {artifact.version} can't be downloaded",
                where=failure.url,
                why=failure.reason,
                fix=failure.advice
                or (
                    "set mirror.caCert to the CA of that server"
                    if failure.tls
                    else "check mirror.url, the network and `proxy`, then run this again"
                ),
            ) from failure
        except (http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError) as error:
            raise _truncated(artifact, received, f"the connection broke: {error}") from error
        if announced and received < announced:
            raise _truncated(
                artifact, received, f"the connection closed after {received} of {announced} bytes"
            )
        if digest.hexdigest() != artifact.sha256:
            raise DigestMismatch(
                what=f"digest of {os.path.basename(artifact.url)} differs",
                where=artifact.url,
                why=f"expected sha256 {artifact.sha256}, got {digest.hexdigest()}",
                fix="check mirror.url and mirror.catalogue, or install a newer aks.flexnode",
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

    def _write_member(self, source: IO[bytes], target: str) -> str:
        digest = hashlib.sha256()
        with explained(target), open(self._host.path(target), "xb", opener=_private) as file:
            while block := source.read(CHUNK):
                digest.update(block)
                file.write(block)
            os.fchmod(file.fileno(), 0o755)
        return digest.hexdigest()


def clear_staging(host: Host) -> None:
    """Remove what an interrupted run left half unpacked."""
    for name in host.names(VERSIONS_DIR):
        for version in host.names(f"{VERSIONS_DIR}/{name}"):
            if version.endswith((STAGING, ASIDE)):
                host.remove_tree(f"{VERSIONS_DIR}/{name}/{version}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _truncated(artifact: Artifact, received: int, why: str) -> ArtifactTruncated:
    return ArtifactTruncated(
        what=f"the download of {artifact.name} {artifact.version} is incomplete ({received} bytes)",
        where=artifact.url,
        why=why,
        fix="run this again; if it fails again, check the log of the mirror or the proxy",
    )


def _too_slow(artifact: Artifact, received: int) -> ArtifactUnreachable:
    return ArtifactUnreachable(
        f"the download of {artifact.name} {artifact.version} is too slow",
        where=artifact.url,
        why=f"less than 1 MiB in {PATIENCE:g} s, {received} bytes so far",
        fix="use a nearer source (mirror.url) or a faster connection, then run this again",
    )


def _unsafe(artifact: Artifact, why: str) -> ArchiveUnsafe:
    return ArchiveUnsafe(
        what=f"{artifact.name} {artifact.version} can't be unpacked",
        where=artifact.url,
        why=why,
        fix="use the archive that upstream publishes, or a build with the same members",
    )
