# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's package: downloaded, verified by its digest, removed only if this collection installed it."""

from __future__ import annotations

import hashlib
import http.client
import os
import re

from ...engine.fetch import LARGEST
from ...engine.restarts import Progress
from ...errors import ArtifactTooLarge, ArtifactTruncated, ArtifactUnreachable, DigestMismatch
from ...machine.disk import explained
from ...machine.host import CHUNK, Host
from ...net.answer import HttpFailure, shown
from ...net.download import MIB
from ...net.http_client import HttpClient
from .errors import ArcPackageFailed

NAME = "azcmagent"
SECONDS = 600.0
LOCK_SECONDS = 900.0  # unattended upgrades of a slow machine hold the lock for many minutes
LOCKED = re.compile(r"(frontend|status database)[^\n]*lock|lock[^\n]*(frontend|database)", re.IGNORECASE)


def fetch(
    host: Host,
    client: HttpClient,
    url: str,
    sha256: str,
    directory: str,
    *,
    largest: int = LARGEST["binary"],
) -> str:
    """A verified package file in a temporary directory; of more than `largest` bytes none is kept."""
    target = f"{directory}/{NAME}-{sha256[:16]}.deb"
    if host.stat(target).is_ == "file" and host.sha256(target) == sha256:
        return target
    host.make_directories(directory, 0o700)
    digest, received = hashlib.sha256(), 0
    partial = f"{target}.part"
    try:
        with client.open("GET", url) as answer, explained(partial):
            announced = int(answer.headers.get("Content-Length") or 0)
            _refuse_above(largest, announced, url)
            with open(host.path(partial), "wb", opener=_private) as file:
                while block := answer.read(CHUNK):
                    received += len(block)
                    _refuse_above(largest, received, url)  # the digest is known at the end only
                    digest.update(block)
                    file.write(block)
        if received < announced:
            raise _truncated(url, f"the connection closed after {received} of {announced} bytes")
        if digest.hexdigest() != sha256:
            raise DigestMismatch(
                "digest of the Arc agent's package differs",
                where=shown(url),
                why=f"expected sha256 {sha256}, got {digest.hexdigest()}",
                fix="check flexnode_arc_package_url and flexnode_arc_package_sha256: they belong together",
            )
        host.move(partial, target)
    except HttpFailure as failure:
        raise ArtifactUnreachable(
            "the Arc agent's package can't be downloaded",
            where=failure.url,
            why=failure.reason,
            fix=failure.advice
            or "check flexnode_arc_package_url, the network and the proxy, then run this again",
        ) from failure
    except http.client.HTTPException as error:
        raise _truncated(url, str(error)) from error
    finally:
        host.remove(partial)
    return target


def install(host: Host, package: str, progress: Progress) -> None:
    """Install a package file with dpkg; wait while another process holds its lock."""
    _dpkg(host, ["dpkg", "--install", host.path(package)], "the Arc agent can't be installed", progress)


def purge(host: Host, progress: Progress) -> None:
    """Remove the package and its settings. dpkg also removes an empty /opt."""
    _dpkg(host, ["dpkg", "--purge", NAME], "the Arc agent can't be removed", progress)
    if host.stat("/opt").is_ == "absent":
        host.make_directory("/opt", 0o755)


def _dpkg(host: Host, argv: list[str], what: str, progress: Progress) -> None:
    deadline = host.clock.monotonic() + LOCK_SECONDS
    waits = False
    while True:
        done = host.run(argv, timeout=SECONDS, check=False)
        if done.status == 0:
            return
        locked = LOCKED.search(done.stderr) is not None
        if not locked or host.clock.monotonic() >= deadline:
            break
        if not waits:
            progress("waiting until another process has installed its packages")
        waits = True
        host.clock.sleep(5)
    output = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it printed no reason"]
    raise ArcPackageFailed(
        what,
        where=" ".join(argv[:2]),
        why=" / ".join(output[-3:])[:500],
        fix=f"another process has been installing packages for {LOCK_SECONDS / 60:.0f} min (unattended "
        "upgrades?): wait until it has ended, then run this again"
        if locked
        else "if packages are missing: apt-get --fix-broken install; see `dpkg --audit`, then run this again",
    )


def _refuse_above(largest: int, size: int, url: str) -> None:
    if size > largest:
        raise ArtifactTooLarge(
            "the Arc agent's package is too large",
            where=shown(url),
            why=f"{size / MIB:.0f} MiB or more, at most {largest / MIB:.0f} MiB are accepted",
            fix="check flexnode_arc_package_url: this is probably another file",
        )


def _truncated(url: str, why: str) -> ArtifactTruncated:
    return ArtifactTruncated(
        "the download of the Arc agent's package is incomplete", where=shown(url), why=why
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
