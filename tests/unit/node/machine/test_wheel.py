# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wheels are unpacked without pip, and only as plain files below their directory."""

from __future__ import annotations

import io
import stat
import zipfile

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.wheel import Unsafe, unpack_wheel
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import a_wheel

TARGET = "/opt/x"


def unpacked(machine: Machine, content: bytes) -> dict[str, str]:
    machine.put("/cache/wheel", content)
    return unpack_wheel(machine.host, "/cache/wheel", TARGET)


def test_modules_are_unpacked_and_tests_and_scripts_are_not(machine: Machine) -> None:
    files = {
        "a/b/c.py": "x = 1\n",
        "ansible_test/y.py": "",
        "a-1.0.data/scripts/a": "",
        "a-1.0.dist-info/RECORD": "",
    }
    digests = unpacked(machine, a_wheel(files))
    assert sorted(digests) == ["a-1.0.dist-info/RECORD", "a/b/c.py"]
    assert machine.text(f"{TARGET}/a/b/c.py") == "x = 1\n"
    assert stat.S_IMODE(machine.path(f"{TARGET}/a/b/c.py").stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "a/../../evil", "a\\b.py", "a//b.py", "./a.py"])
def test_a_name_that_leaves_the_directory_is_refused(machine: Machine, name: str) -> None:
    with pytest.raises(Unsafe, match="it contains"):
        unpacked(machine, a_wheel({"good.py": "", name: "x"}))
    assert not machine.path("/etc/evil").exists()


def test_a_link_is_refused(machine: Machine) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        info = zipfile.ZipInfo("a.py")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        wheel.writestr(info, "/etc/passwd")
    with pytest.raises(Unsafe, match="not a regular file"):
        unpacked(machine, packed.getvalue())


def test_the_same_name_twice_an_empty_file_and_nonsense_are_refused(machine: Machine) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("a.py", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            wheel.writestr("a.py", "2")
    with pytest.raises(Unsafe, match="twice"):
        unpacked(machine, packed.getvalue())
    with pytest.raises(Unsafe, match="empty"):
        unpacked(machine, a_wheel({}))
    with pytest.raises(Unsafe, match="can't be read"):
        unpacked(machine, b"not a zip file")


def packed_with(packing: int) -> bytearray:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as wheel:
        wheel.writestr("a.py", "x = 1\n" * 500)
    return bytearray(packed.getvalue())


def damaged(packing: int) -> bytes:
    content = packed_with(packing)
    for place in range(36, 44):
        content[place] ^= 0xFF
    return bytes(content)


def encrypted() -> bytes:
    content = packed_with(zipfile.ZIP_DEFLATED)
    content[6] |= 1
    content[content.rfind(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (damaged(zipfile.ZIP_STORED), "can't be read"),
        (damaged(zipfile.ZIP_DEFLATED), "can't be read"),
        (encrypted(), "can't be read"),
        (bytes(packed_with(zipfile.ZIP_LZMA)), "compressed in a way"),
    ],
    ids=["damaged", "damaged, packed", "encrypted", "packed in another way"],
)
def test_what_can_not_be_unpacked_is_refused(machine: Machine, content: bytes, why: str) -> None:
    with pytest.raises(Unsafe, match=why):
        unpacked(machine, content)
