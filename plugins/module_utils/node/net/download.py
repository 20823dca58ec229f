# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download one file whose digest is known. A download that breaks off continues where it stopped."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
from collections.abc import Callable
from typing import Any

from ..dataclass import dataclass
from ..errors import ArtifactTooLarge, ArtifactTruncated, ArtifactUnreachable, DigestMismatch, DiskFull
from ..machine.clock import back_off
from ..machine.disk import explained
from ..machine.host import CHUNK, Host
from .answer import HttpFailure, shown
from .http_client import HttpClient
from .retries import spread
from .tls import SET_CA

# What a line brings that is not dead. A modem at a remote site brings little more, shared by several files.
LEAST = 1 << 16  # bytes
PATIENCE = 60.0  # seconds in which they must arrive
ATTEMPTS = 4  # in a row that bring less than that
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds, doubled after each of them
KIB, MIB = 1 << 10, 1 << 20
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


@dataclass(frozen=True)
class Wanted:
    """A file to download: what it is called in messages, and what it must be."""

    label: str
    url: str
    sha256: str
    largest: int  # bytes; more is refused before the digest could tell

    @property
    def where(self) -> str:
        """The URL as errors show it."""
        return shown(self.url)


class Download:
    """One file on its way to `partial`. What has arrived stays there if it fails, also for a later run."""

    def __init__(
        self,
        host: Host,
        client: HttpClient,
        wanted: Wanted,
        partial: str,
        *,
        check_space: Callable[[int, int], None] = lambda missing, total: None,
        jitter: Callable[[], float] = spread,
    ) -> None:
        self._host, self._client, self._wanted, self._partial = host, client, wanted, partial
        self._check_space, self._jitter = check_space, jitter
        self._version = ""  # of the file at the server: its ETag or date
        self._resumed = False

    def run(self) -> None:
        """Download and verify; returns when the partial file is complete."""
        failures, most, from_zero = 0, 0, False
        while True:
            try:
                self._attempt()
                return
            except ArtifactTruncated:
                arrived = self._host.stat(self._partial).size
                failures = 0 if arrived >= most + LEAST else failures + 1
                most = max(most, arrived)
                if failures == ATTEMPTS:
                    raise
                pause = back_off(FIRST_PAUSE, failures, LONGEST_PAUSE)
                self._host.clock.sleep(pause * self._jitter())
            except DigestMismatch:
                self._host.remove(self._partial)
                # Parts of two different files may have been put together: the whole file decides.
                if not self._resumed or from_zero:
                    raise
                from_zero = True
            except (DiskFull, ArtifactTooLarge):
                self._host.remove(self._partial)  # of no use on a full disk
                raise

    def _attempt(self) -> None:
        digest, arrived = self._arrived()
        if digest.hexdigest() == self._wanted.sha256:
            return  # a run was killed when all had arrived
        answer, start = self._ask(arrived)
        with answer:
            if start == 0:
                digest = hashlib.sha256()
            self._resumed = start > 0
            self._receive(answer, digest, start)
        if digest.hexdigest() != self._wanted.sha256:
            raise DigestMismatch(
                what=f"digest of {os.path.basename(self._wanted.where)} differs",
                where=self._wanted.where,
                why=f"expected sha256 {self._wanted.sha256}, got {digest.hexdigest()}",
            )

    def _arrived(self) -> tuple[Any, int]:
        """Digest and size of what is on the disk; read again each time, as only the disk can be trusted."""
        digest, size = hashlib.sha256(), 0
        if self._host.stat(self._partial).is_ == "file":
            with explained(self._partial), open(self._host.path(self._partial), "rb") as file:
                while block := file.read(CHUNK):
                    digest.update(block)
                    size += len(block)
        return digest, size

    def _ask(self, arrived: int) -> tuple[Any, int]:
        """An answer to read from, and the position in the file at which it starts: `arrived` or 0."""
        headers = {}
        if arrived:
            headers["Range"] = f"bytes={arrived}-"
            if self._version:
                headers["If-Range"] = self._version
        try:
            answer = self._client.open("GET", self._wanted.url, headers=headers)
        except HttpFailure as failure:
            if arrived and failure.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                return self._ask(0)  # longer than the file at the server: not a part of it
            raise _unreachable(self._wanted, failure) from failure
        partial = arrived and answer.status == http.client.PARTIAL_CONTENT
        start = _position(answer) if partial else 0
        if start not in (0, arrived):
            answer.close()
            return self._ask(0)
        # A weak ETag does not promise the same bytes.
        tag = answer.headers.get("ETag") or ""
        self._version = answer.headers.get("Last-Modified") or "" if not tag or tag.startswith("W/") else tag
        return answer, start

    def _receive(self, answer: Any, digest: Any, start: int) -> None:
        """Write the rest of the file; the limit and the disk are checked before the first byte."""
        length = answer.headers.get("Content-Length") or ""
        announced = int(length) if length.isdecimal() else 0
        self._refuse_above_limit(start + announced)
        self._check_space(announced, start + announced)
        received, clock = start, self._host.clock
        mark, deadline = received, clock.monotonic() + PATIENCE
        path, mode = self._host.path(self._partial), "ab" if start else "wb"
        with explained(self._partial), open(path, mode, opener=private) as file:
            while block := self._read(answer, received):
                received += len(block)
                self._refuse_above_limit(received)
                digest.update(block)
                file.write(block)
                if received - mark >= LEAST:
                    mark, deadline = received, clock.monotonic() + PATIENCE
                elif clock.monotonic() > deadline:
                    raise _stalled(self._wanted, received)
        if announced and received < start + announced:
            why = f"the connection closed after {received} of {start + announced} bytes"
            raise _truncated(self._wanted, received, why)

    def _read(self, answer: Any, received: int) -> bytes:
        """The next bytes. Errors of the network become errors of the download here, not of the disk."""
        try:
            block: bytes = answer.read1(CHUNK)
        except (http.client.HTTPException, OSError) as error:
            raise _truncated(self._wanted, received, f"the connection broke: {error}") from error
        return block

    def _refuse_above_limit(self, size: int) -> None:
        if size > self._wanted.largest:
            limit = self._wanted.largest
            raise ArtifactTooLarge(
                f"{self._wanted.label} is too large",
                where=self._wanted.where,
                why=f"{size / MIB:.0f} MiB or more, at most {limit / MIB:.0f} MiB are accepted",
            )


def private(path: str, flags: int) -> int:
    """Open a file that only root can read; a link is refused."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _position(answer: Any) -> int:
    """Where a partial answer starts; -1: it does not say so."""
    match = RANGE.fullmatch((answer.headers.get("Content-Range") or "").strip())
    return int(match[1]) if match else -1


def _unreachable(wanted: Wanted, failure: HttpFailure) -> ArtifactUnreachable:
    return ArtifactUnreachable(
        what=f"{wanted.label} can't be downloaded",
        where=failure.url,
        why=failure.reason,
        fix=failure.advice
        or (SET_CA if failure.tls else "check mirror.url, the network and `proxy`, then run this again"),
    )


def _truncated(wanted: Wanted, received: int, why: str) -> ArtifactTruncated:
    return ArtifactTruncated(
        what=f"the download of {wanted.label} is incomplete ({received} bytes)",
        where=wanted.where,
        why=why,
        fix="run this again: it continues there; if it fails again, check the log of the mirror or the proxy",
    )


def _stalled(wanted: Wanted, received: int) -> ArtifactUnreachable:
    return ArtifactUnreachable(
        f"the download of {wanted.label} has stalled",
        where=wanted.where,
        why=f"less than {LEAST // KIB} KiB in {PATIENCE:g} s, {received} bytes so far",
        fix="run this again: it continues there; or use a nearer source (mirror.url)",
    )
