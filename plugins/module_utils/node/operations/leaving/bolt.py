# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read bucket names from a bbolt database (containerd's metadata) whose owner is not running.

The format, little-endian: pages of one size, with a header of 16 bytes (number, flags, count of elements,
number of overflow pages). Pages 0 and 1 are meta pages: the valid one with the higher transaction counts.
A bucket is a B+ tree of branch and leaf pages. The value of a nested bucket names its root page; a small
bucket has no page of its own (0), and its leaf follows in the value itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC, VERSION = 0xED0CDAED, 2
BRANCH, LEAF = 0x01, 0x02
IS_BUCKET = 0x01
HEADER = struct.Struct("<QHHI")  # page number, flags, elements, overflow pages
META = struct.Struct("<IIII QQ QQQ")  # magic, version, page size, flags; root, sequence; freelist, end, txid
BRANCH_ELEMENT = struct.Struct("<IIQ")  # position, size of the key; page
LEAF_ELEMENT = struct.Struct("<IIII")  # flags, position, size of the key, size of the value
BUCKET = struct.Struct("<QQ")  # root page, sequence
Place = tuple[memoryview, int]  # the bytes that a page is in, and where it starts
PAGE_SIZES = tuple(1 << power for power in range(9, 17))


def bucket_names(content: bytes, *path: bytes) -> list[bytes]:
    """The names of the buckets in the bucket at `path`; ValueError: this can't be read as a database."""
    try:
        size, root = _newest_meta(content)
        database = memoryview(content)
        place: Place = (database, root * size)
        for name in path:
            found = dict(_buckets(database, size, place)).get(name)
            if found is None:
                return []
            place = found
        return [name for name, _place in _buckets(database, size, place)]
    except struct.error as error:
        raise ValueError(f"it is truncated or damaged: {error}") from error


def _newest_meta(database: bytes) -> tuple[int, int]:
    """Page size, and the root page of the newest complete transaction."""
    found = []
    for start in (0, *PAGE_SIZES):
        end = start + HEADER.size + META.size
        if len(database) < end + 8:
            break
        magic, version, size, _flags, root, _sequence, _free, _end, txid = META.unpack(
            database[start + HEADER.size : end]
        )
        checksum = int.from_bytes(database[end : end + 8], "little")
        if (magic, version) == (MAGIC, VERSION) and checksum == _fnv(database[start + HEADER.size : end]):
            found.append((txid, size, root))
    if not found:
        raise ValueError("it has no valid meta page")
    _txid, size, root = max(found)
    return size, root


def _buckets(database: memoryview, size: int, root: Place) -> Iterator[tuple[bytes, Place]]:
    """The buckets in a tree of pages, each with the place of its root page."""
    seen = set()
    todo = [root]
    while todo:
        within, start = todo.pop()
        number, flags, count, _overflow = HEADER.unpack_from(within, start)
        if flags not in (BRANCH, LEAF) or number * size != (start if within is database else 0):
            raise ValueError("a page of its tree is another page")
        for index in range(count):
            if flags & BRANCH:
                at = start + HEADER.size + index * BRANCH_ELEMENT.size
                page = BRANCH_ELEMENT.unpack_from(within, at)[2]
                if page in seen:
                    raise ValueError("its pages form a circle")
                seen.add(page)
                todo.append((database, page * size))
            else:
                at = start + HEADER.size + index * LEAF_ELEMENT.size
                kind, position, key, value = LEAF_ELEMENT.unpack_from(within, at)
                if kind & IS_BUCKET:
                    name = bytes(within[at + position : at + position + key])
                    content = within[at + position + key : at + position + key + value]
                    page = BUCKET.unpack_from(content)[0]
                    yield name, (database, page * size) if page else (content, BUCKET.size)


def _fnv(content: bytes) -> int:
    """The checksum of a meta page: FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value
