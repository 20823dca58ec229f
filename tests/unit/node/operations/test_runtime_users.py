# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""docker and nerdctl on our containerd: their data stays when the machine leaves, and is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from tests.unit.node.operations.test_bolt import SMALL, database
from tests.unit.node.sites import CONTAINERD, Site

DATA = "/var/lib/containerd"
DATABASE = f"{DATA}/io.containerd.metadata.v1.bolt/meta.db"
BLOB = f"{DATA}/io.containerd.content.v1.content/blobs/sha256/1"
TASKS = "/run/containerd/io.containerd.runtime.v2.task"
K8S = ("ctr", "-n", "k8s.io")


def in_use(site: Site, *namespaces: str) -> None:
    """containerd has data, and answers who it is of."""
    site.machine.put(DATABASE, database(SMALL))
    site.machine.put(BLOB, "a layer")
    answers = site.machine.commands.answers
    answers["ctr", "namespaces", "ls", "-q"] = "".join(f"{name}\n" for name in namespaces)
    answers[(*K8S, "containers", "ls", "-q")] = "pod1\npod2\n"
    answers[(*K8S, "images", "ls", "-q")] = "registry.example/pause:3\n"


def kept(remains: list[str]) -> str:
    """What is said about containerd's data; nothing else is left."""
    (line,) = remains
    assert line.startswith(f"directory:{DATA}: ")
    return line


def test_data_of_docker_stays_that_of_kubernetes_goes_and_it_is_named(site: Site) -> None:
    site.join()
    in_use(site, "k8s.io", "moby", "default")
    site.machine.commands.calls.clear()
    report = leave(site.machine.host)
    assert site.machine.path(BLOB).exists()
    line = kept(report.remains)
    assert "namespaces default, moby" in line
    assert f"rm -rf --one-file-system {DATA}" in line
    assert "not stopped" not in line
    assert site.machine.text(BLOB) == "a layer"
    calls = site.machine.commands.changing()
    order = [
        (*K8S, "containers", "rm", "pod1", "pod2"),
        (*K8S, "images", "rm", "--sync", "registry.example/pause:3"),
        ("ctr", "namespaces", "rm", "k8s.io"),
        ("systemctl", "stop", CONTAINERD),
    ]
    assert [call for call in calls if call in order] == order
    assert not any(call[:3] == ("ctr", "-n", "moby") for call in calls)
    assert not site.machine.path("/etc/containerd").exists()
    assert not site.machine.path("/opt/aks-flex-node").exists()


def test_a_containerd_of_kubernetes_alone_goes_with_its_data(site: Site) -> None:
    site.join()
    in_use(site, "k8s.io")
    report = leave(site.machine.host)
    assert report.remains == []
    assert not site.machine.path(DATA).exists()
    assert not any(call[:3] == K8S and "rm" in call for call in site.machine.commands.calls)


def test_their_containers_keep_running_and_are_named(site: Site) -> None:
    site.join()
    in_use(site, "k8s.io", "moby")
    for container in ("moby/web", "k8s.io/pod1"):
        site.machine.put(f"{TASKS}/{container}/config.json")
    report = leave(site.machine.host)
    assert "their containers were not stopped: moby/web." in kept(report.remains)
    assert site.machine.host.names(TASKS) == ("moby",)
    stopped = [call for call in site.machine.commands.calls if "tasks" in call and "moby" in call]
    assert stopped == []


@pytest.mark.parametrize("stopped", [True, False])
def test_when_containerd_does_not_answer_its_database_does(site: Site, stopped: bool) -> None:
    site.join()
    in_use(site, "never asked")
    if stopped:
        site.machine.commands.units[CONTAINERD] = "inactive"
    else:
        site.machine.commands.statuses["ctr"] = 1
    report = leave(site.machine.host)
    assert "namespaces moby" in next(line for line in report.remains if DATA in line)
    assert site.machine.text(BLOB) == "a layer"


def test_what_can_not_be_known_is_kept(site: Site) -> None:
    site.join()
    in_use(site)
    site.machine.put(DATABASE, database(SMALL)[:5000])
    site.machine.commands.units[CONTAINERD] = "failed"
    line = kept(leave(site.machine.host).remains)
    assert "it may contain data of other users" in line
    assert DATABASE in line
    assert site.machine.text(BLOB) == "a layer"


def test_a_containerd_that_never_ran_leaves_nothing(site: Site) -> None:
    site.join()
    site.machine.commands.units[CONTAINERD] = "inactive"
    assert leave(site.machine.host).remains == []
    assert not site.machine.path(DATA).exists()


def test_data_that_is_older_than_the_join_stays_without_a_word(site: Site) -> None:
    in_use(site, "k8s.io", "moby")
    site.join()
    report = leave(site.machine.host)
    assert report.remains == []
    assert site.machine.text(BLOB) == "a layer"
    assert not any(call[:2] == ("ctr", "namespaces") for call in site.machine.commands.calls)


def test_what_containerd_refuses_to_remove_is_reported_and_the_rest_goes_on(site: Site) -> None:
    site.join()
    in_use(site, "k8s.io", "moby")
    site.machine.commands.statuses["ctr -n"] = 1
    first, second = leave(site.machine.host).remains
    assert first.startswith("remove images and containers of Kubernetes: ctr failed with status 1")
    assert kept([second])
    assert site.machine.commands.units[CONTAINERD] == "inactive"


def test_containerd_of_a_package_serves_its_users_again(site: Site) -> None:
    """docker's package brought one after the join; our unit file hid it."""
    site.join()
    in_use(site, "moby")
    site.machine.commands.unit_files[CONTAINERD] = "enabled"
    report = leave(site.machine.host)
    assert "start containerd of another owner" in report.actions
    calls = [call for call in site.machine.commands.calls if call[0] != "sync"]
    assert calls[-1] == ("systemctl", "start", CONTAINERD)
    assert kept(report.remains)


def test_shims_of_kubernetes_that_outlived_containerd_end_and_those_of_others_run_on(site: Site) -> None:
    """containerd was stopped, or does not start any more: it can't end them."""
    site.join()
    site.machine.commands.units[CONTAINERD] = "inactive"
    idle = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(idle) as ours, subprocess.Popen(idle) as theirs:
        try:
            for process, namespace in ((ours, "k8s.io"), (theirs, "moby")):
                words = ("containerd-shim-runc-v2", "-namespace", namespace, "-id", "1")
                site.machine.put(f"/proc/{process.pid}/cmdline", "\0".join(words))
            group = f"/sys/fs/cgroup/system.slice/{CONTAINERD}/cgroup.procs"
            site.machine.put(group, f"{ours.pid}\n{theirs.pid}\n")
            leave(site.machine.host)
            assert ours.wait(10) == -9
            assert theirs.poll() is None
        finally:
            ours.kill()
            theirs.kill()
