# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time: the operation lease."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator

from ..dataclass import asdict, dataclass
from ..errors import LeaseHeld
from ..machine.host import Host
from ..machine.layout import RUN_DIR  # a reboot ends every operation, and clears /run

GAP = 10.0  # seconds between the calls of one operation, in which no other operation may begin
PATIENCE = 30.0  # more than GAP: the run after an abandoned one waits that long, then proceeds


@dataclass(frozen=True)
class Lease:
    """The operation that may change this machine, and until when."""

    operation: str
    owner: str
    pid: int
    expires: float


def holder(host: Host) -> str:
    """Who changes this machine now, in words; empty: no one."""
    lease = _read(host)
    return lease.owner if lease else ""


def new_operation() -> str:
    """A name for one play, poll or manual run."""
    return os.urandom(8).hex()


@contextlib.contextmanager
def held(
    host: Host, operation: str, owner: str, *, keep: bool = False, patience: float = PATIENCE
) -> Iterator[None]:
    """Hold the lease while the block runs; with `keep` also until the operation's next call.

    Two things protect the machine: a lock that the kernel frees when a process dies, for the calls
    themselves, and the lease file for the gaps between the calls of one operation.
    """
    host.make_directories(RUN_DIR, 0o700)
    descriptor = os.open(
        host.path(f"{RUN_DIR}/lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        _acquire(host, descriptor, operation, patience)
        _write(host, operation, owner)
        try:
            yield
        except BaseException:
            keep = False
            raise
        finally:
            if keep:
                _write(host, operation, owner)
            else:
                host.remove(f"{RUN_DIR}/lease.json")
    finally:
        os.close(descriptor)


def _acquire(host: Host, descriptor: int, operation: str, patience: float) -> None:
    deadline = host.clock.monotonic() + patience
    while True:
        holder = _read(host)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            holder = _read(host)
            if holder is None or holder.operation == operation or holder.expires <= host.clock.monotonic():
                return
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        if host.clock.monotonic() >= deadline:
            owner_text = f"{holder.owner} (process {holder.pid})" if holder else "another process"
            raise LeaseHeld(
                "this machine is being changed by another process",
                where=host.path(f"{RUN_DIR}/lease.json"),
                why=f"{owner_text} holds the operation lease",
                fix="wait until it has finished, then retry; the lease of a dead process expires by itself",
            )
        host.clock.sleep(0.2)


def _read(host: Host) -> Lease | None:
    try:
        return Lease(**json.loads(host.text(f"{RUN_DIR}/lease.json")))
    except (ValueError, TypeError):
        return None


def _write(host: Host, operation: str, owner: str) -> None:
    # Monotonic time starts at boot, as does /run: setting the clock has no effect.
    lease = Lease(operation, owner, os.getpid(), host.clock.monotonic() + GAP)
    host.write(f"{RUN_DIR}/lease.json", json.dumps(asdict(lease)).encode(), 0o600)
