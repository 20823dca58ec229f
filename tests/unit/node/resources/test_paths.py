# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Files, links and directories: seen, changed, and given back to the byte."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ForeignPath
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import (
    HIDDEN,
    Resource,
    key_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import (
    Directory,
    File,
    Link,
    path_mark,
)
from tests.unit.node.fakes import Machine

PATH = "/etc/app/item"
OTHERS_TIME = 1_234_567_890_123_456_789
Before = Callable[[Machine], None]


def absent(machine: Machine) -> None:
    machine.path("/etc/app").mkdir(parents=True)


def a_file(machine: Machine) -> None:
    place = machine.put(PATH, b"theirs \xff\n", 0o751)
    os.chown(place, 7, 8)
    os.utime(place, ns=(OTHERS_TIME, OTHERS_TIME))


def an_empty_file(machine: Machine) -> None:
    machine.put(PATH, "", 0o400)


def a_link(machine: Machine) -> None:
    absent(machine)
    machine.path(PATH).symlink_to("../other")


def a_dangling_link(machine: Machine) -> None:
    absent(machine)
    machine.path(PATH).symlink_to("/nowhere")


BEFORE = [absent, a_file, an_empty_file, a_link, a_dangling_link]
RESOURCES: list[Resource] = [File(PATH, "ours\n", 0o600), Link(PATH, "/opt/ours")]


def difference(resource: Resource, machine: Machine) -> str | None:
    change = resource.difference(resource.observe(machine.host))
    return change.sentence if change else None


def apply(resource: Resource, machine: Machine) -> None:
    """What the engine does for one resource."""
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True, exist_ok=True)
    machine.store.journal.record([resource])
    resource.apply(machine.host)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("resource", RESOURCES, ids=["file", "link"])
def test_applied_is_converged_and_restored_is_as_before(
    machine: Machine, before: Before, resource: Resource
) -> None:
    before(machine)
    was = machine.snapshot("/etc")
    assert difference(resource, machine)
    apply(resource, machine)
    assert difference(resource, machine) is None
    assert resource.mark_now(machine.host, PATH) == resource.mark
    taken = restore_host(machine.host, machine.store)
    assert [item.key for item in taken] == [key_of(resource)]
    assert machine.snapshot("/etc") == was
    assert restore_host(machine.host, machine.store) == []  # a second time there is nothing to do
    assert machine.snapshot("/etc") == was


def edit(machine: Machine) -> None:
    machine.host.write(PATH, b"edited", 0o600)


def chmod(machine: Machine) -> None:
    machine.path(PATH).chmod(0o666)


def chown(machine: Machine) -> None:
    os.chown(machine.path(PATH), 5, 5)


def relink(machine: Machine) -> None:
    machine.host.link(PATH, "/elsewhere")


def delete(machine: Machine) -> None:
    machine.path(PATH).unlink()


@pytest.mark.parametrize("change", [edit, chmod, chown, relink, delete])
def test_what_someone_changed_since_is_left_alone(machine: Machine, change: Before) -> None:
    a_file(machine)
    apply(File(PATH, "ours\n", 0o600), machine)
    change(machine)
    now = path_mark(machine.host, PATH)
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, taken.why) == ("left", "changed outside this collection")
    assert path_mark(machine.host, PATH) == now


def test_what_was_absent_and_is_gone_again_is_no_news(machine: Machine) -> None:
    absent(machine)
    apply(File(PATH, "ours\n"), machine)
    delete(machine)
    assert restore_host(machine.host, machine.store) == []


def test_every_content_that_was_ours_counts_as_ours(machine: Machine) -> None:
    a_file(machine)
    was = machine.snapshot("/etc")
    apply(File(PATH, "first\n"), machine)
    apply(File(PATH, "second\n"), machine)
    apply(File(PATH, "first\n"), machine)  # a rollback to an earlier generation
    restore_host(machine.host, machine.store)
    assert machine.snapshot("/etc") == was


@pytest.mark.parametrize(
    ("before", "sentence"),
    [(absent, f"create {PATH}"), (a_file, f"update {PATH}"), (a_link, f"update {PATH}")],
)
def test_a_file_says_what_it_would_do(machine: Machine, before: Before, sentence: str) -> None:
    before(machine)
    assert difference(File(PATH, "ours\n"), machine) == sentence


def test_a_file_with_another_mode_or_owner_differs(machine: Machine) -> None:
    resource = File(PATH, "ours\n", 0o644)
    machine.put(PATH, "ours\n", 0o644)
    assert difference(resource, machine) is None
    machine.path(PATH).chmod(0o600)
    assert difference(resource, machine) == f"set mode of {PATH}"
    machine.path(PATH).chmod(0o644)
    os.chown(machine.path(PATH), 1, 0)
    assert difference(resource, machine) == f"set mode of {PATH}"


def test_a_secret_file_shows_its_mode_but_not_its_content(machine: Machine) -> None:
    machine.put(PATH, "old-s3cret", 0o644)
    resource = File(PATH, "new-s3cret", 0o600, secret=True)
    change = resource.difference(resource.observe(machine.host))
    assert change is not None
    assert (change.before, change.after) == (
        f"mode 0644, owner 0:0\n{HIDDEN}\n",
        f"mode 0600, owner 0:0\n{HIDDEN}\n",
    )


@pytest.mark.parametrize(
    ("before", "sentence", "shown"),
    [
        (absent, f"link {PATH} to /opt/ours", ""),
        (a_link, f"switch {PATH} to /opt/ours", "link to ../other\n"),
        (a_file, f"switch {PATH} to /opt/ours", "a file\n"),
    ],
)
def test_a_link_says_what_it_would_do(machine: Machine, before: Before, sentence: str, shown: str) -> None:
    before(machine)
    resource = Link(PATH, "/opt/ours")
    change = resource.difference(resource.observe(machine.host))
    assert change is not None
    assert (change.sentence, change.before) == (sentence, shown)


@pytest.mark.parametrize("resource", RESOURCES, ids=["file", "link"])
def test_a_directory_in_the_way_is_refused_before_anything_is_touched(
    machine: Machine, resource: Resource
) -> None:
    machine.put(f"{PATH}/inside")
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True)
    with pytest.raises(ForeignPath, match="something else"):
        machine.store.journal.record([resource])
    assert machine.store.journal.entries() == []


# -- directories -------------------------------------------------------------------------------------------


def test_a_directory_that_was_not_there_goes_with_its_content(machine: Machine) -> None:
    machine.path("/var/lib").mkdir(parents=True)
    apply(Directory("/var/lib/app", 0o700, ours=True), machine)
    assert machine.host.stat("/var/lib/app").mode == 0o700
    machine.put("/var/lib/app/deep/inside")
    (taken,) = restore_host(machine.host, machine.store)
    assert taken.outcome == "removed"
    assert not machine.path("/var/lib/app").exists()
    restore_host(machine.host, machine.store)  # a second time nothing goes wrong


def test_a_directory_that_is_not_ours_goes_only_when_empty(machine: Machine) -> None:
    apply(Directory("/opt"), machine)
    machine.put("/opt/theirs")
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, "/opt/theirs" in taken.why) == ("left", True)
    machine.path("/opt/theirs").unlink()
    (taken,) = restore_host(machine.host, machine.store)
    assert taken.outcome == "removed"


def test_a_directory_with_entries_keeps_them_and_its_access(machine: Machine) -> None:
    machine.put("/etc/app/theirs", "keep me")
    os.chown(machine.path("/etc/app"), 3, 4)
    machine.path("/etc/app").chmod(0o750)
    was = machine.snapshot("/etc")
    apply(Directory("/etc/app", 0o755, ours=True), machine)
    assert difference(Directory("/etc/app", 0o755), machine) is None
    machine.put("/etc/app/new/deep")
    restore_host(machine.host, machine.store)
    assert machine.snapshot("/etc") == was


def test_a_mount_inside_stays_and_is_named(machine: Machine) -> None:
    machine.path("/var").mkdir()
    apply(Directory("/var/app", 0o755, ours=True), machine)
    machine.put("/var/app/volume/data", "keep me")
    machine.mount("/var/app/volume")
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, taken.why) == (
        "left",
        "still in use, or not created by this collection: /var/app/volume",
    )
    assert machine.text("/var/app/volume/data") == "keep me"


@pytest.mark.parametrize(("mode", "found"), [(None, 0o711), (0o755, 0o755)])
def test_a_mode_of_none_leaves_it_to_whoever_lives_there(
    machine: Machine, mode: int | None, found: int
) -> None:
    machine.path("/data").mkdir(mode=0o711)
    resource = Directory("/data", mode)
    assert (difference(resource, machine) is None) == (mode is None)
    if mode:
        apply(resource, machine)
    assert machine.host.stat("/data").mode == found


def test_a_directory_is_created_with_its_own_mode(machine: Machine) -> None:
    apply(Directory("/data", created=0o700), machine)
    assert machine.host.stat("/data").mode == 0o700


def test_a_link_to_a_directory_serves_as_well(machine: Machine) -> None:
    machine.path("/big").mkdir()
    machine.path("/data").symlink_to(machine.path("/big"))
    assert difference(Directory("/data", 0o755), machine) is None


def used_behind_a_link(machine: Machine, target: str = "/big") -> None:
    """What a plan does with a directory that is a link: it is converged, and journaled."""
    machine.path(target).mkdir(parents=True, exist_ok=True)
    machine.path("/data").symlink_to(machine.path(target))
    assert difference(Directory("/data", 0o755, ours=True), machine) is None
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True)
    machine.store.journal.record([Directory("/data", 0o755, ours=True)])


def test_behind_a_link_only_our_content_goes_and_the_link_and_its_target_stay(machine: Machine) -> None:
    machine.put("/big/theirs/file", "keep me")
    machine.put("/elsewhere/file", "keep me")
    machine.path("/big").chmod(0o711)
    was = machine.snapshot("/big", "/elsewhere")
    used_behind_a_link(machine)
    machine.put("/data/pki/kubelet.key", "a private key")
    machine.put("/data/pods/1/secret", "a pod's")
    machine.path("/data/pods/out").symlink_to(machine.path("/elsewhere"))
    assert [item.outcome for item in restore_host(machine.host, machine.store)] == ["restored"]
    assert machine.snapshot("/big", "/elsewhere") == was
    assert machine.host.stat("/big").mode == 0o711
    assert machine.host.stat("/data").is_ == "link"


def test_a_file_that_was_edited_behind_a_link_stays(machine: Machine) -> None:
    used_behind_a_link(machine)
    apply(File("/data/edited", "ours"), machine)
    machine.put("/data/edited", "by hand")
    machine.put("/data/new")
    taken = {item.key: item.outcome for item in restore_host(machine.host, machine.store)}
    assert taken == {"file:/data/edited": "left", "directory:/data": "restored"}
    assert (machine.host.names("/big"), machine.text("/big/edited")) == (("edited",), "by hand")


def test_a_link_to_an_empty_directory_stays_with_that_directory(machine: Machine) -> None:
    used_behind_a_link(machine)
    machine.put("/data/new")
    restore_host(machine.host, machine.store)
    assert machine.host.stat("/data").is_ == "link"
    assert (machine.host.stat("/big").is_, machine.host.names("/big")) == ("directory", ())


def test_a_mount_behind_a_link_stays_and_is_named_as_the_kernel_names_it(machine: Machine) -> None:
    used_behind_a_link(machine)
    machine.put("/data/volume/file", "keep me")
    machine.put("/data/new")
    machine.mount("/big/volume")
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, "/big/volume" in taken.why) == ("left", True)
    assert (machine.host.names("/big"), machine.text("/big/volume/file")) == (("volume",), "keep me")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_points_elsewhere_since_the_join_is_left(machine: Machine, there: bool) -> None:
    used_behind_a_link(machine)
    if there:
        machine.put("/other/file", "keep me")
    machine.path("/data").unlink()
    machine.path("/data").symlink_to(machine.path("/other"))
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, "pointed elsewhere" in taken.why) == ("left", True)
    assert not there or machine.text("/other/file") == "keep me"


@pytest.mark.parametrize("before", [a_file, a_dangling_link])
def test_something_else_where_a_directory_belongs(machine: Machine, before: Before) -> None:
    before(machine)
    was = machine.snapshot("/etc")
    resource = Directory(PATH, 0o755, ours=True)
    assert difference(resource, machine)
    with pytest.raises(ForeignPath, match="something else exists"):
        apply(resource, machine)
    restore_host(machine.host, machine.store)
    assert machine.snapshot("/etc") == was


def to_a_bigger_disk(machine: Machine) -> None:
    machine.path("/data").rename(machine.path("/big"))
    machine.path("/data").symlink_to(machine.path("/big"))


def to_a_file(machine: Machine) -> None:
    machine.path("/data/inside").unlink()
    machine.path("/data").rmdir()
    machine.put("/data", "theirs")


def away(machine: Machine) -> None:
    machine.path("/data/inside").unlink()
    machine.path("/data").rmdir()


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("existed", [True, False])
@pytest.mark.parametrize("change", [to_a_bigger_disk, to_a_file, away])
def test_a_directory_that_someone_replaced_is_left_alone(
    machine: Machine, change: Before, existed: bool, ours: bool
) -> None:
    if existed:
        machine.path("/data").mkdir(mode=0o711)
    apply(Directory("/data", 0o755, ours=ours), machine)
    machine.put("/data/inside", "x")
    change(machine)
    now = machine.snapshot("/data", "/big"), path_mark(machine.host, "/data")
    taken = restore_host(machine.host, machine.store)
    assert (machine.snapshot("/data", "/big"), path_mark(machine.host, "/data")) == now
    assert change is away or [item.outcome for item in taken] == ["left"]
