# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""containerd's database, as two versions of containerd wrote it: namespaces are read without containerd."""

from __future__ import annotations

import gzip
from base64 import b64decode
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leaving.bolt import bucket_names

GOLDEN = Path(__file__).parents[1] / "golden"
SMALL, LARGE = "1.7.32", "2.3.4"  # the second has 150 namespaces more, so that its tree has branches


def database(version: str) -> bytes:
    """k8s.io with an image and a container, moby with an image."""
    return gzip.decompress(b64decode((GOLDEN / f"containerd-{version}-meta.db.gz.b64").read_text()))


def test_buckets_are_found_by_their_path() -> None:
    assert bucket_names(database(SMALL)) == [b"v1"]
    assert bucket_names(database(SMALL), b"v1") == [b"k8s.io", b"moby"]
    assert b"images" in bucket_names(database(SMALL), b"v1", b"moby")
    assert bucket_names(database(SMALL), b"v1", b"nothing") == []


def test_a_tree_with_branches_is_read_whole() -> None:
    others = {f"other-{number}".encode() for number in range(1, 151)}
    assert set(bucket_names(database(LARGE), b"v1")) == {b"k8s.io", b"moby", *others}


def test_a_torn_meta_page_leaves_the_other_one() -> None:
    content = bytearray(database(SMALL))
    found = bucket_names(bytes(content), b"v1")
    content[40] ^= 1  # in page 0: its checksum is wrong now
    assert bucket_names(bytes(content), b"v1") == found
    content[4096 + 40] ^= 1
    with pytest.raises(ValueError, match="no valid meta page"):
        bucket_names(bytes(content), b"v1")


@pytest.mark.parametrize("size", [0, 100, 4096, 8192])
def test_a_truncated_database_is_an_error_and_not_an_empty_one(size: int) -> None:
    with pytest.raises(ValueError, match=r"no valid meta page|truncated or damaged"):
        bucket_names(database(SMALL)[:size], b"v1")


def test_a_page_that_was_lost_is_an_error_and_not_an_empty_bucket() -> None:
    content = database(SMALL)
    for page in range(2, len(content) // 4096):
        zeros = content[: page * 4096] + bytes(4096) + content[(page + 1) * 4096 :]
        try:
            assert bucket_names(zeros, b"v1") == [b"k8s.io", b"moby"]
        except ValueError:
            continue


def test_damage_of_any_byte_is_an_error_or_an_answer_and_nothing_else() -> None:
    whole = database(SMALL)
    for at in range(0, 200_000, 1009):
        content = bytearray(whole)
        content[at] ^= 0xFF
        try:
            bucket_names(bytes(content), b"v1")
        except ValueError:
            continue
