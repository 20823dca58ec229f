# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Token cache between runs: in memory (/run), readable by root only, renewed before expiry."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import stat
import threading

from ..dataclass import dataclass
from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.layout import RUN_DIR  # a tmpfs: no token is written to disk, and a reboot removes them all
from ..secret import Secret
from .errors import IdentityRefused, TokenSourceUnreachable
from .token import ASK_AGAIN, AccessToken, Issued, Source, margin

DIRECTORY = f"{RUN_DIR}/tokens"
HANDOVER = f"{RUN_DIR}/azcmagent.json"  # the installer's token, while the Arc agent reads it
MOST = 64 << 10
HURRY_SECONDS = 8.0  # limit of a whole refresh, with DNS and connections, while the cached token is valid


@dataclass(frozen=True)
class Kept:
    """A cached token: its lifetime, and when it started by two clocks."""

    value: Secret
    seconds: float
    since_boot: float
    wall: float

    def remaining(self, host: Host) -> float:
        """Seconds left by the monotonic clock, which can't be set but stops while the machine sleeps."""
        return self.seconds - (host.clock.monotonic() - self.since_boot)

    def remaining_at_worst(self, host: Host) -> float:
        """Seconds left by the wall clock, which counts sleep."""
        return min(self.remaining(host), self.seconds - (host.clock.now() - self.wall))


class Cached:
    """An identity with cached tokens. A valid token is used during an outage of its source."""

    def __init__(self, source: Source, host: Host, *, hurry: bool = False) -> None:
        """hurry: make one short attempt only, also without a cached token: the next poll is soon."""
        self._source = source
        self._host = host
        self._hurry = hurry
        self.refusal: IdentityRefused | None = None  # the cached token is used although its source says no

    @property
    def name(self) -> str:
        """The identity in words."""
        return self._source.name

    def token(self, audience: str) -> AccessToken:
        """From the cache while it is valid, else a new one."""
        kept = self._kept(audience)
        if kept and kept.remaining_at_worst(self._host) > margin(kept.seconds):
            return self._of(kept)
        try:
            hurry = self._hurry or kept is not None
            issued = self._hurried(audience) if hurry else self._source.issue(audience, hurry=False)
        except FlexNodeError as error:
            if kept is None or kept.remaining(self._host) <= 0:
                raise
            self.refusal = error if isinstance(error, IdentityRefused) else None
            return self._of(kept)
        return self._of(self._keep(audience, issued))

    def forget(self, audience: str) -> None:
        """Delete a cached token: the server that it is for does not accept it."""
        self._host.remove(self._path(audience))

    def _hurried(self, audience: str) -> Issued:
        """A new token within one time limit. A daemon thread: a hanging resolver must not block the exit."""
        done: queue.SimpleQueue[Issued | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                done.put(self._source.issue(audience, hurry=True))
            except Exception as error:  # noqa: BLE001 - raised again below, in the calling thread
                done.put(error)

        threading.Thread(target=ask, name="token", daemon=True).start()
        try:
            answer = done.get(timeout=HURRY_SECONDS)
        except queue.Empty:
            raise TokenSourceUnreachable(
                f"no new token for the {self.name}", why=f"no answer within {HURRY_SECONDS:g} s"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _of(self, kept: Kept) -> AccessToken:
        now, left = self._host.clock.now(), kept.remaining(self._host)
        ahead = margin(kept.seconds)
        # In an outage `left` is less than the margin: retry soon, and at expiry at the latest.
        return AccessToken(kept.value, now + left, now + max(left - ahead, min(left, ASK_AGAIN)))

    def _path(self, audience: str) -> str:
        named = hashlib.sha256("\0".join((self._source.key, audience)).encode())
        return f"{DIRECTORY}/{named.hexdigest()}"

    def _kept(self, audience: str) -> Kept | None:
        """The cached token if it is valid; anything else in the file is ignored."""
        content = private_file(self._host, self._path(audience))
        try:
            found = json.loads(content or b"null")
            kept = Kept(
                Secret(found["token"]),
                float(found["seconds"]),
                float(found["sinceBoot"]),
                float(found["wall"]),
            )
        except (ValueError, TypeError, KeyError):
            return None
        ours = kept.since_boot <= self._host.clock.monotonic()  # otherwise it is from before the last boot
        return kept if ours and kept.remaining(self._host) > 0 else None

    def _keep(self, audience: str, issued: Issued) -> Kept:
        clock = self._host.clock
        kept = Kept(issued.value, issued.seconds, clock.monotonic(), clock.now())
        content = {
            "token": kept.value.reveal(),
            "seconds": kept.seconds,
            "sinceBoot": kept.since_boot,
            "wall": kept.wall,
        }
        with contextlib.suppress(FlexNodeError):  # a full /run only costs the next run a request
            self._host.make_directories(RUN_DIR, 0o700)
            self._host.make_directory(DIRECTORY, 0o700)
            self._host.write(self._path(audience), json.dumps(content).encode(), 0o600, durable=False)
        return kept


def forget_tokens(host: Host) -> None:
    """Delete all tokens: the identity of this machine is about to change."""
    host.remove_tree(DIRECTORY)
    directory, _slash, handover = HANDOVER.rpartition("/")
    for name in host.names(directory):  # a killed run may leave the installer's token, or a part of it
        if handover in name:
            host.remove(f"{directory}/{name}")


def private_file(host: Host, path: str) -> bytes | None:
    """The content of a file that only root can write and read; None for any other file."""
    try:
        descriptor = os.open(host.path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        seen = os.fstat(descriptor)
        private = stat.S_ISREG(seen.st_mode) and seen.st_uid == 0 and not seen.st_mode & 0o077
        return os.read(descriptor, MOST) if private else None
    finally:
        os.close(descriptor)
