# SPDX-License-Identifier: GPL-3.0-or-later
"""Tarballs whose bytes depend only on what is in them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def tar_gz(target: Path, members: Mapping[str, Path]) -> None:
    """Pack executable files under these member names: sorted, owned by root, time 0."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for member, path in sorted(members.items()):
            entry = tarfile.TarInfo(member)
            entry.size = path.stat().st_size
            entry.mode = 0o755
            with path.open("rb") as content:
                archive.addfile(entry, content)


@dataclass(frozen=True)
class Entry:
    """A member of a tar in memory: bytes are a file, a text a symbolic link, None a directory."""

    content: bytes | str | None
    mode: int = 0o644
    owner: int = 0


def tar_bytes(members: Mapping[str, Entry]) -> bytes:
    """A plain tar in memory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, member in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.mode = member.mode
            entry.uid = entry.gid = member.owner
            if isinstance(member.content, bytes):
                entry.size = len(member.content)
                archive.addfile(entry, io.BytesIO(member.content))
                continue
            entry.type = tarfile.DIRTYPE if member.content is None else tarfile.SYMTYPE
            entry.linkname = member.content or ""
            archive.addfile(entry)
    return buffer.getvalue()
