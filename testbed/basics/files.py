# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are either whole or absent, and locks between processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.basics.progress import say


def write(path: Path, content: str | bytes, mode: int = 0o644) -> bool:
    """Write a file atomically; say whether it changed."""
    data = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == data and path.stat().st_mode & 0o777 == mode:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        os.fchmod(descriptor, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True


def once(path: Path, make: Callable[[], str | bytes], mode: int = 0o600) -> bytes:
    """What a file holds, made if it does not exist yet; whoever asks at the same time gets the same."""
    if not path.is_file():
        made = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as beside:
            ready = Path(beside) / "ready"
            write(ready, made, mode)
            with suppress(FileExistsError):  # another one was first: theirs is in use already
                path.hardlink_to(ready)
    return path.read_bytes()


def sha256(path: Path) -> str:
    """The hex digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def lock(path: Path, waiting_for: str | None = None) -> Iterator[None]:
    """Hold an exclusive lock; the kernel releases it when the process ends, also when it is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting_for:
                say(f"... waiting for {waiting_for}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold a lock together with others who do: `try_lock` gets it when nobody does any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        yield


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock without waiting for it; False: another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
