# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python wheel is a zip file: it is unpacked without pip, which Debian's Python does not have."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib

from .disk import explained
from .host import CHUNK, Host

# Not needed to run playbooks: half of all files of ansible-core, and its scripts (ours replace them).
LEFT_OUT = ("ansible_test/",)
SCRIPTS = ".data/"
MOST_FILES, MOST_BYTES = 20_000, 512 << 20  # several times what the largest wheel has
MODE = 0o644


class Unsafe(Exception):
    """A wheel that is not what it should be; the message says why."""


def unpack_wheel(host: Host, archive: str, target: str) -> dict[str, str]:
    """Unpack all modules of a wheel into a directory; returns the digest of each file."""
    digests: dict[str, str] = {}
    try:
        with zipfile.ZipFile(host.path(archive)) as wheel:
            members = [member for member in wheel.infolist() if not member.is_dir()]
            size = sum(member.file_size for member in members)
            if len(members) > MOST_FILES or size > MOST_BYTES:
                raise Unsafe(f"it has {len(members)} files of {size >> 20} MiB together")
            for member in members:
                name = safe_name(member)
                if name.startswith(LEFT_OUT) or f"{name.partition('/')[0]}/".endswith(SCRIPTS):
                    continue
                if name in digests:
                    raise Unsafe(f"it contains {name} twice")
                digests[name] = _write(host, wheel, member, f"{target}/{name}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Unsafe(f"it can't be read as a wheel: {error}") from error
    if not digests:
        raise Unsafe("it is empty")
    return digests


def safe_name(member: zipfile.ZipInfo) -> str:
    """The name of a member, which stays below its directory and is a plain file."""
    name = member.filename
    if name.startswith("/") or "\\" in name or {"", ".", ".."} & set(name.split("/")):
        raise Unsafe(f"it contains {name!r}")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind and kind != stat.S_IFREG:
        raise Unsafe(f"{name} is not a regular file")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Unsafe(f"{name} is compressed in a way that wheels do not use")
    return name


def _write(host: Host, wheel: zipfile.ZipFile, member: zipfile.ZipInfo, target: str) -> str:
    digest = hashlib.sha256()
    host.make_directories(os.path.dirname(target))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(host.path(target), flags, 0o600)
    with explained(target), wheel.open(member) as source, open(descriptor, "wb") as file:
        while block := source.read(CHUNK):
            digest.update(block)
            file.write(block)
        os.fchmod(file.fileno(), MODE)
    return digest.hexdigest()
