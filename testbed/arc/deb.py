# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages whose bytes depend only on what is in them."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from typing import Any

from testbed.artifacts.archive import Entry

HEADER = "!<arch>\n"


def build(fields: Mapping[str, str], scripts: Mapping[str, str], files: Mapping[str, Entry]) -> bytes:
    """A .deb: an ar archive of a version, the control files and the data."""
    control = "".join(f"{name}: {value}\n" for name, value in fields.items())
    about = {
        "control": Entry(control.encode()),
        **{name: Entry(text.encode(), 0o755) for name, text in scripts.items()},
    }
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar_gz(about),
        "data.tar.gz": _tar_gz(with_parents(files)),
    }
    packed = HEADER.encode()
    for name, data in parts.items():
        packed += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        packed += data + (b"\n" if len(data) % 2 else b"")
    return packed


def with_parents(files: Mapping[str, Entry]) -> dict[str, Entry]:
    """dpkg wants every directory that it is to remove again."""
    parents: dict[str, Entry] = {}
    for name in files:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            parents["/".join(parts[:depth])] = Entry(None, 0o755)
    return {**parents, **files}


def _tar_gz(members: Mapping[str, Entry]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=buffer, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, member in sorted(members.items()):
            archive.addfile(*_member(f"./{name}", member))
    return buffer.getvalue()


def _member(name: str, member: Entry) -> tuple[tarfile.TarInfo, Any]:
    info = tarfile.TarInfo(name)
    info.mode, info.uname, info.gname = member.mode, "root", "root"
    if isinstance(member.content, bytes):
        info.size = len(member.content)
        return info, io.BytesIO(member.content)
    info.type = tarfile.DIRTYPE if member.content is None else tarfile.SYMTYPE
    info.linkname = member.content or ""
    return info, None
