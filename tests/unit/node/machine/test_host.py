# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The machine: atomic writes, careful removal, disk troubles as errors that say what to do."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    CommandFailed,
    DiskFull,
    FileUnusable,
    FlexNodeError,
    ReadOnlyTarget,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.disk import explained
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from tests.unit.node.fakes import Machine


def names(machine: Machine, path: str) -> list[str]:
    return sorted(os.listdir(machine.path(path)))


# -- commands ----------------------------------------------------------------------------------------------


def test_a_failed_command_is_an_error_that_quotes_it(machine: Machine) -> None:
    machine.commands.statuses["systemctl"] = 5
    with pytest.raises(CommandFailed) as caught:
        machine.host.run(["systemctl", "stop", "x.service"])
    assert caught.value.where == "systemctl stop x.service"
    assert "it went wrong" in caught.value.why
    assert machine.host.run(["systemctl", "stop", "x.service"], check=False).status == 5


# -- looking -----------------------------------------------------------------------------------------------


def test_looking_never_follows_a_link(machine: Machine) -> None:
    machine.put("/file", "x", 0o640)
    machine.path("/link").symlink_to("/file")
    machine.path("/dangling").symlink_to("/nowhere")
    os.mkfifo(machine.path("/pipe"))
    look = machine.host.stat
    assert (look("/file").is_, look("/file").mode, look("/file").size) == ("file", 0o640, 1)
    assert (look("/link").is_, look("/link").target) == ("link", "/file")
    assert (look("/").is_, look("/pipe").is_) == ("directory", "other")
    assert look("/nothing").absent
    assert look("/file/below").absent
    assert not machine.host.exists("/dangling")


def test_reading_what_is_not_there(machine: Machine) -> None:
    machine.put("/file", b"\xff\n")
    host = machine.host
    assert (host.read("/nothing"), host.text("/nothing"), host.names("/nothing")) == (None, "", ())
    assert (host.read("/file/below"), host.names("/file")) == (None, ())
    assert host.text("/file") == "\ufffd\n"


@pytest.mark.parametrize(
    ("escaped", "real"),
    [
        ("/data/plain", "/data/plain"),
        ("/data/with\\040space", "/data/with space"),
        ("/data/back\\134slash", "/data/back\\slash"),
        ("/data/Gerät", "/data/Gerät"),
    ],
)
def test_mount_points_are_read_as_the_kernel_writes_them(machine: Machine, escaped: str, real: str) -> None:
    machine.mount("/", "/data", "/database", escaped)
    assert machine.host.mounts_below("/data") == (real, "/data")


# -- writing -----------------------------------------------------------------------------------------------


def test_a_written_file_has_exactly_this_content_mode_owner_and_time(machine: Machine) -> None:
    machine.host.write("/file", b"content", 0o640, uid=12, gid=34, mtime_ns=1_000_000_007)
    seen = machine.path("/file").stat()
    assert machine.path("/file").read_bytes() == b"content"
    assert (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid) == (0o640, 12, 34)
    assert seen.st_mtime_ns == 1_000_000_007


def test_a_reader_keeps_the_old_content_and_a_link_is_replaced_not_followed(machine: Machine) -> None:
    machine.put("/target", "old")
    machine.path("/link").symlink_to(machine.path("/target"))
    with machine.path("/target").open() as reader:
        machine.host.write("/target", b"new", 0o644)
        assert reader.read() == "old"
    machine.host.write("/link", b"mine", 0o600)
    assert not machine.path("/link").is_symlink()
    assert machine.text("/target") == "new"


def test_a_failed_write_leaves_no_temporary_file(machine: Machine) -> None:
    machine.path("/directory").mkdir()
    machine.put("/directory/inside")
    with pytest.raises(FileUnusable, match="directory"):
        machine.host.write("/directory", b"x", 0o644)  # a directory can't be replaced by a file
    with pytest.raises(FileUnusable, match="directory"):
        machine.host.link("/directory", "/target")
    assert names(machine, "/") == ["directory"]


@pytest.mark.parametrize(
    ("number", "error", "fix"),
    [
        (errno.ENOSPC, DiskFull, "df -i"),
        (errno.EDQUOT, DiskFull, "df -h"),
        (errno.EROFS, ReadOnlyTarget, "remount"),
        (errno.EACCES, ReadOnlyTarget, "remount"),
        (errno.EPERM, ReadOnlyTarget, "lsattr"),
        (errno.EIO, FileUnusable, "ls -la"),
    ],
)
def test_disk_troubles_say_where_and_what_to_do(number: int, error: type[FlexNodeError], fix: str) -> None:
    with pytest.raises(error) as caught, explained("/var/lib/x"):
        raise OSError(number, os.strerror(number))
    assert caught.value.where == "/var/lib/x"
    assert fix in caught.value.fix


def test_what_no_file_system_explains_is_no_trouble_of_a_file() -> None:
    with pytest.raises(ValueError, match="other"), explained("/x"):
        raise ValueError("other")


def test_a_full_disk_for_real(machine: Machine) -> None:
    machine.path("/dev").mkdir()
    machine.path("/dev/full").symlink_to("/dev/full")
    with pytest.raises(DiskFull):
        machine.host.set_value("/dev/full", "1")


def test_appending_never_follows_a_link(machine: Machine) -> None:
    machine.host.append("/log", b"one\n")
    machine.host.append("/log", b"two\n")
    assert machine.text("/log") == "one\ntwo\n"
    assert stat.S_IMODE(machine.path("/log").stat().st_mode) == 0o600
    machine.path("/link").symlink_to("/log")
    with pytest.raises(FileUnusable, match="symbolic"):
        machine.host.append("/link", b"x")


def test_setting_access_refuses_a_link(machine: Machine) -> None:
    machine.put("/file", mode=0o600)
    machine.path("/link").symlink_to("file")
    with pytest.raises(FileUnusable, match="symbolic"):
        machine.host.set_access("/link", 0o777, 0, 0)
    assert machine.host.stat("/file").mode == 0o600


def test_a_directory_gets_its_mode_whatever_the_umask_and_keeps_its_content(machine: Machine) -> None:
    before = os.umask(0o077)
    try:
        machine.host.make_directory("/directory", 0o755)
        machine.put("/directory/inside", "x")
        machine.host.make_directory("/directory", 0o711, uid=1, gid=2)
    finally:
        os.umask(before)
    seen = machine.host.stat("/directory")
    assert (seen.mode, seen.uid, seen.gid, names(machine, "/directory")) == (0o711, 1, 2, ["inside"])


def test_directories_above_can_be_entered_whatever_the_umask(machine: Machine) -> None:
    machine.path("/theirs").mkdir(mode=0o711)
    before = os.umask(0o077)
    try:
        machine.host.make_directories("/theirs/a/b/c", 0o750)
        machine.host.make_directories("/theirs/a/b/c", 0o777)  # it exists: not touched
        machine.host.make_directories("/theirs/a/d")
    finally:
        os.umask(before)
    modes = {path: machine.host.stat(f"/theirs{path}").mode for path in ("", "/a", "/a/b", "/a/b/c", "/a/d")}
    assert modes == {"": 0o711, "/a": 0o755, "/a/b": 0o755, "/a/b/c": 0o750, "/a/d": 0o755}


def test_a_file_in_place_of_a_directory_is_an_error(machine: Machine) -> None:
    machine.put("/file", "theirs", 0o600)
    with pytest.raises(FileUnusable):
        machine.host.make_directories("/file/below")
    assert machine.host.stat("/file").mode == 0o600


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A place on another file system than tmp_path."""
    shm = Path("/dev/shm")
    assert shm.stat().st_dev != tmp_path.stat().st_dev, "needs a second file system: set TMPDIR elsewhere"
    with tempfile.TemporaryDirectory(prefix="flexnode-test-", dir=shm) as place:
        yield Path(place)


def test_moving_across_file_systems_copies_beside_the_target_first(elsewhere: Path, tmp_path: Path) -> None:
    host = Host(root="")
    source = elsewhere / "source"
    source.write_text("moved")
    source.chmod(0o640)
    host.move(str(source), str(tmp_path / "target"))
    assert (tmp_path / "target").read_text() == "moved"
    assert host.stat(str(tmp_path / "target")).mode == 0o640
    assert sorted(os.listdir(tmp_path)) == ["target"]
    assert os.listdir(elsewhere) == []


def test_a_whole_directory_moves_across_file_systems(elsewhere: Path, tmp_path: Path) -> None:
    host = Host(root="")
    (elsewhere / "tree/sub").mkdir(parents=True)
    (elsewhere / "tree/sub/file").write_text("moved")
    (elsewhere / "tree/sub/file").chmod(0o750)
    (elsewhere / "tree/link").symlink_to("sub/file")
    host.move(str(elsewhere / "tree"), str(tmp_path / "tree"))
    assert (tmp_path / "tree/link").read_text() == "moved"
    assert (tmp_path / "tree/link").is_symlink()
    assert host.stat(str(tmp_path / "tree/sub/file")).mode == 0o750
    assert os.listdir(tmp_path) == ["tree"]
    assert os.listdir(elsewhere) == []


def test_a_directory_that_can_not_be_moved_leaves_no_copy(elsewhere: Path, tmp_path: Path) -> None:
    (elsewhere / "tree").mkdir()
    (elsewhere / "tree/file").write_text("stays")
    (tmp_path / "target").write_text("a file is in the way")
    with pytest.raises(FileUnusable):
        Host(root="").move(str(elsewhere / "tree"), str(tmp_path / "target"))
    assert os.listdir(tmp_path) == ["target"]
    assert (elsewhere / "tree/file").read_text() == "stays"


def test_free_space_is_that_of_the_nearest_directory(machine: Machine) -> None:
    machine.path("/opt").mkdir()
    device, free = machine.host.free_space("/opt/not/there/yet")
    assert device == machine.root.stat().st_dev
    assert 0 < free <= os.statvfs(machine.root).f_blocks * os.statvfs(machine.root).f_frsize


# -- facts of the host -------------------------------------------------------------------------------------


def test_the_oom_score_may_be_lowered_unless_the_kernel_refuses(machine: Machine) -> None:
    assert machine.host.may_lower_oom_score()  # no such file: nothing forbids it
    machine.path("/proc/self/oom_score_adj").mkdir(parents=True)  # even root can't write to this one
    assert not machine.host.may_lower_oom_score()
