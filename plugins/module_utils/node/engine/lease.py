# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time: the operation lease; and one ansible-pull at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator

from ..dataclass import asdict, dataclass
from ..errors import LeaseHeld
from ..machine.host import Host
from ..machine.layout import RUN_DIR  # a reboot ends every operation, and clears /run
from ..machine.program import COMMAND

GAP = 10.0  # seconds between the calls of one operation, in which no other operation may begin
PULL_LOCK = f"{RUN_DIR}/pull.lock"
PATIENCE = 30.0  # more than GAP: the run after an abandoned one waits that long, then proceeds
OWN_RUNS = (f"{COMMAND} poll", "ansible-pull")  # owners that are the node itself, whom no person started


@dataclass(frozen=True)
class Lease:
    """The operation that may change this machine, and until when."""

    operation: str
    owner: str
    pid: int
    expires: float

    def __str__(self) -> str:
        return f"{self.owner} (process {self.pid})"

    @property
    def began(self) -> float:
        """When the call that holds it began: `expires` is written then, and again when the call ends."""
        return self.expires - GAP


def holder(host: Host) -> str:
    """Who changes this machine now, in words; empty: no one."""
    lease = _read(host)
    return lease.owner if lease else ""


def new_operation() -> str:
    """A name for one play, poll or manual run."""
    return os.urandom(8).hex()


@contextlib.contextmanager
def held(
    host: Host,
    operation: str,
    owner: str,
    *,
    keep: bool = False,
    patience: float = PATIENCE,
    own_run: Callable[[], float] | None = None,
) -> Iterator[str]:
    """Hold the lease while the block runs; with `keep` also until the operation's next call.

    own_run: seconds that a run of the node itself may take. Such a run is waited for that long: it applies
    what its source offers, which a push applies too. It is asked again, as the run may change the answer.
    Yields which run of the node this one has waited for, in words; empty: for none.

    Two things protect the machine: a lock that the kernel frees when a process dies, for the calls
    themselves, and the lease file for the gaps between the calls of one operation.
    """
    host.make_directories(RUN_DIR, 0o700)
    descriptor = os.open(
        host.path(f"{RUN_DIR}/lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        waited = _acquire(host, descriptor, operation, patience, own_run)
        _write(host, operation, owner)
        try:
            yield waited
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


def _acquire(
    host: Host, descriptor: int, operation: str, patience: float, own_run: Callable[[], float] | None
) -> str:
    start, waited_for = host.clock.monotonic(), ""
    while True:
        holder = _read(host)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            holder, now = _read(host), host.clock.monotonic()
            if holder is None or holder.operation == operation or holder.expires <= now:
                return f"{waited_for}, {now - start:.0f} s" if waited_for else ""
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        now = host.clock.monotonic()
        own = holder if holder and holder.owner in OWN_RUNS else None
        waited_for = str(own or waited_for)
        if now >= start + patience:
            limit = own_run() if own and own_run else 0.0
            if own is None or now >= own.began + limit:
                raise _busy(host, holder, limit)
        host.clock.sleep(0.2)


def _busy(host: Host, holder: Lease | None, limit: float) -> LeaseHeld:
    """limit: seconds that were granted to a run of the node itself."""
    why = f"{holder or 'another process'} holds the operation lease"
    fix = "wait until it has finished, then retry; the lease of a dead process expires by itself"
    if holder and limit:
        spent = host.clock.monotonic() - holder.began
        why += f" for {spent:.0f} s; a run of this node takes {limit:.0f} s at most, so it hangs"
        fix = f"see what it does: journalctl -t {COMMAND}; end it: kill {holder.pid}; then run this again"
    return LeaseHeld(
        "this machine is being changed by another process",
        where=host.path(f"{RUN_DIR}/lease.json"),
        why=why,
        fix=fix,
    )


def _read(host: Host) -> Lease | None:
    try:
        return Lease(**json.loads(host.text(f"{RUN_DIR}/lease.json")))
    except (ValueError, TypeError):
        return None


def _write(host: Host, operation: str, owner: str) -> None:
    # Monotonic time starts at boot, as does /run: setting the clock has no effect.
    lease = Lease(operation, owner, os.getpid(), host.clock.monotonic() + GAP)
    host.write(f"{RUN_DIR}/lease.json", json.dumps(asdict(lease)).encode(), 0o600)


# -- ansible-pull --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def alone(host: Host) -> Iterator[None]:
    """One pull at a time. It does not hold the operation lease: the tasks of a playbook take that."""
    with _pull_lock(host) as (descriptor, pid):
        if pid is not None:
            raise LeaseHeld(
                "another ansible-pull is running",
                where=PULL_LOCK,
                why=f"process {pid or 'unknown'} runs the playbooks of the repository",
                fix="wait until it has finished, or watch it: journalctl --follow --unit aks-flex-node-pull",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield


def end_pull(host: Host) -> None:
    """End an ansible-pull that an administrator started; not the one that this process is a task of."""
    from signal import SIGTERM  # not needed by a poll

    deadline, asked = host.clock.monotonic() + PATIENCE, 0
    while True:
        with _pull_lock(host) as (_descriptor, pid):
            if pid is None or (pid and pid in _ancestors(host)):
                return
        if pid and pid != asked:
            asked = pid
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SIGTERM)  # it ends its playbook, too
        if host.clock.monotonic() >= deadline:
            raise LeaseHeld(
                "an ansible-pull still runs on this machine",
                where=PULL_LOCK,
                why=f"process {pid or 'unknown'} did not end within {PATIENCE:g} s",
                fix=f"end it (kill -9 {pid}), then run this again" if pid else "wait, then run this again",
            )
        host.clock.sleep(0.2)


@contextlib.contextmanager
def _pull_lock(host: Host) -> Iterator[tuple[int, int | None]]:
    """The lock of ansible-pull, open; and who has it: None: this process now, 0: unknown."""
    host.make_directories(RUN_DIR, 0o700)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(host.path(PULL_LOCK), flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 20).strip()
            yield descriptor, int(pid) if pid.isdigit() else 0
        else:
            yield descriptor, None
    finally:
        os.close(descriptor)


def _ancestors(host: Host) -> Iterator[int]:
    """The processes that this one is a child of, the nearest first."""
    pid = os.getppid()
    while pid > 0:
        yield pid
        after_name = host.text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        pid = int(after_name[1]) if len(after_name) > 1 else 0
