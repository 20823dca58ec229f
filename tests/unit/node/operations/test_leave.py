# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Leave: the Node is deleted and the host is as before."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.every import PREPARED
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import CommandFailed, ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import machine_id
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import leave as leaving
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.checks import Expected
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leaving.runtime_users import (
    SANDBOXES,
)
from tests.unit.node.config.test_samples import CLUSTER
from tests.unit.node.engine.test_places import many_disks
from tests.unit.node.fake_api import a_node, a_pod
from tests.unit.node.fakes import Machine
from tests.unit.node.sites import CONTAINERD, KUBELET, NPD, Killed, Site

PLACES = ("/etc", "/opt", "/usr", "/var", "/proc")


def test_after_joining_and_leaving_the_machine_is_as_before(site: Site) -> None:
    site.machine.put("/etc/containerd/config.toml", "theirs", 0o640)
    site.machine.put("/var/lib/kubelet/theirs", "keep me")
    site.machine.put("/etc/default/kubelet", "THEIRS=1\n")
    before = site.machine.snapshot(*PLACES)
    site.join()
    site.machine.put("/var/lib/kubelet/pods/1/volumes/x", "a pod's")
    site.machine.put("/var/lib/containerd/io.containerd/x", "an image")
    site.machine.put("/run/containerd/containerd.sock")
    report = leave(site.machine.host)
    assert (report.remains, report.node, report.node_remains) == ([], "edge-1", "")
    after = site.machine.snapshot(*PLACES)
    assert {name for name in after if before.get(name) != after[name] and "proc/sys" not in name} == set()
    assert set(before) == set(after)
    assert {
        name: what[0] for name, what in after.items() if "proc/sys" in name and what[0] != "directory"
    } == {
        name: ((what[0][0].strip(), 0) if after[name][0][0] != what[0][0] else what[0])  # type: ignore[index]
        for name, what in before.items()
        if "proc/sys" in name and what[0] != "directory"
    }
    assert (site.api.nodes, site.machine.commands.units[KUBELET]) == ({}, "inactive")
    assert not site.machine.path(DATA_DIR).exists()
    again = leave(site.machine.host)
    assert (again.changed, again.remains) == (False, [])
    site.join()  # and it can join again
    assert site.machine.store.state()["phase"] == "NodeJoined"


def test_a_systemd_that_does_not_answer_stops_the_uninstall_before_anything_is_removed(site: Site) -> None:
    """Nobody knows what runs then: files under running services would be removed."""
    site.join()
    site.machine.commands.busy = 10**6
    with pytest.raises(CommandFailed, match="Connection timed out"):
        leave(site.machine.host)
    assert site.machine.path("/etc/systemd/system/kubelet.service").exists()
    assert site.machine.commands.units[KUBELET] == "active"
    site.machine.commands.busy = 0
    assert leave(site.machine.host).remains == []
    assert not site.machine.path(DATA_DIR).exists()


def test_a_systemd_that_is_busy_for_a_while_is_asked_again(site: Site) -> None:
    site.join()
    site.machine.commands.busy = 3
    assert leave(site.machine.host).remains == []
    assert site.machine.commands.units[KUBELET] == "inactive"


def test_a_service_that_does_not_stop_is_stopped_by_the_next_run(site: Site) -> None:
    site.join({"npd": {"version": "1.36.0"}})
    site.machine.commands.statuses["systemctl stop"] = 1
    remains = leave(site.machine.host).remains
    assert [line for line in remains if line.startswith(f"unit:{NPD}: ")], remains
    assert site.machine.commands.units[NPD] == "active"
    del site.machine.commands.statuses["systemctl stop"]
    assert leave(site.machine.host).remains == []
    assert {site.machine.commands.units[unit] for unit in (NPD, KUBELET, CONTAINERD)} == {"inactive"}
    assert not site.machine.path(DATA_DIR).exists()


@pytest.mark.parametrize(
    ("unit_file", "said"),
    [
        ("enabled", "it ran before the join and does not start"),
        ("", "removed or masked since"),
        ("masked", "removed or masked since"),
    ],
)
def test_a_service_from_before_the_join_that_does_not_start_again_is_reported(
    site: Site, unit_file: str, said: str
) -> None:
    commands = site.machine.commands
    commands.units[CONTAINERD], commands.unit_files[CONTAINERD] = "active", "enabled"
    site.machine.put("/usr/lib/systemd/system/containerd.service", "[Service]\n")
    site.join({"takeover": True})
    commands.unit_files[CONTAINERD] = unit_file
    commands.on_start[CONTAINERD] = lambda: commands.units.update({CONTAINERD: "failed"})
    (line,) = leave(site.machine.host).remains
    assert line.startswith(f"unit:{CONTAINERD}: ")
    assert said in line
    commands.on_start.clear()
    assert leave(site.machine.host).remains == []
    assert not site.machine.path(DATA_DIR).exists()


def test_files_that_are_parked_beside_those_that_load_modules_are_no_matter(site: Site) -> None:
    site.machine.put("/etc/modules-load.d/disabled/overlay.conf", "overlay\n")
    site.machine.put("/etc/modules-load.d/overlay.conf.bak", "overlay\n")
    site.join()
    assert leave(site.machine.host).remains == []


def test_an_item_whose_state_cannot_be_read_does_not_keep_the_others_from_being_restored(site: Site) -> None:
    site.join()
    count = site.machine.path("/sys/module/overlay/refcnt")
    count.unlink(missing_ok=True)
    count.mkdir(parents=True)  # no kernel does that; something else does something like it
    (line,) = leave(site.machine.host).remains
    assert line.startswith("module:overlay: ")
    assert not site.machine.path("/etc/systemd/system/kubelet.service").exists()
    count.rmdir()
    count.write_text("0\n")
    assert leave(site.machine.host).remains == []
    assert not site.machine.path(DATA_DIR).exists()


def test_leaving_drains_stops_deletes_and_unmounts_in_this_order(site: Site) -> None:
    site.join()
    site.api.pods = [a_pod("a")]
    site.machine.commands.calls.clear()
    answers = site.machine.commands.answers
    answers["ctr", "-n", "k8s.io", "tasks", "ls", "-q"] = "pod1 task1 pod2 task2\n"
    answers["ctr", "-n", "k8s.io", "containers", "ls", "-q", SANDBOXES] = "pod1 pod2\n"
    site.machine.mount(
        "/",
        "/var/lib/kubelet/pods/1/v",
        "/var/lib/kubelet/pods/1/v/deep",
        "/run/containerd/io.containerd.grpc.v1.cri/x",
    )
    site.machine.put("/var/lib/kubelet/pods/1/v/deep/file", "keep me")
    site.machine.put("/run/netns/cni-1")
    site.machine.put("/run/netns/theirs")
    told: list[str] = []
    report = leave(site.machine.host, progress=told.append)
    assert told[:4] == ["drain edge-1", "stop kubelet", "delete Node edge-1", "stop all pods"]
    assert site.api.pods == []
    calls = site.machine.commands.changing()
    order = [
        ("systemctl", "stop", KUBELET),
        # The other way round, the shims of these pods would run on, with nothing to do.
        ("ctr", "-n", "k8s.io", "tasks", "rm", "-f", "task1", "task2", "pod1", "pod2"),
        ("systemctl", "stop", CONTAINERD),
        ("umount", "--", "/var/lib/kubelet/pods/1/v/deep"),
        ("umount", "--", "/var/lib/kubelet/pods/1/v"),
        ("umount", "--", "/run/containerd/io.containerd.grpc.v1.cri/x"),
        ("umount", "--", "/run/netns/cni-1"),
        ("systemctl", "daemon-reload"),
    ]
    assert [call for call in calls if call in order] == order
    assert site.machine.host.names("/run/netns") == ("theirs",)
    # The fake does not really unmount: what is still mounted is kept and named.
    assert any("/var/lib/kubelet/pods/1/v" in line for line in report.remains)
    assert site.machine.text("/var/lib/kubelet/pods/1/v/deep/file") == "keep me"


def test_without_an_api_server_the_machine_is_given_back_all_the_same(site: Site) -> None:
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.join()
    site.api.refuse[""] = 503
    report = leave(site.machine.host)
    assert report.node_remains
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before


def test_a_kubelet_that_a_reboot_started_again_does_not_leave_its_node_behind(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leave that was interrupted after it had deleted the Node: the kubelet is still enabled."""
    site.join()

    def power_cut(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as now:
        now.setattr(leaving, "stop_pods", power_cut)
        with pytest.raises(Killed):
            leave(site.machine.host)
    assert "edge-1" not in site.api.nodes
    site.machine.host.run(["systemctl", "start", KUBELET])
    site.api.nodes["edge-1"] = a_node("edge-1")
    report = leave(site.machine.host)
    assert "edge-1" not in site.api.nodes
    assert (report.node_remains, report.remains) == ("", [])


def test_leaving_goes_by_what_the_machine_is_not_by_what_it_was_told_last(site: Site) -> None:
    site.join()
    told = merge(site.document, {"agent": {"nodeName": "edge-2"}})
    told["node"]["kubelet"]["serverURL"] = "https://127.0.0.1:1"
    site.machine.store.set_current_config(told, None)  # and never applied
    site.api.nodes["edge-2"] = a_node("edge-2")
    report = leave(site.machine.host)
    assert (report.node, report.node_remains) == ("edge-1", "")
    assert set(site.api.nodes) == {"edge-2"}


UNUSABLE = pytest.mark.parametrize("damage", [b"{", b"{}", b'{"unknown": 1}'])


@UNUSABLE
def test_where_the_applied_document_is_unusable_the_current_one_is_enough(site: Site, damage: bytes) -> None:
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.join()
    site.machine.put(f"{DATA_DIR}/applied-config.json", damage)
    report = leave(site.machine.host)
    assert (report.node, report.complaints, site.api.nodes) == ("edge-1", [], {})
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before


@UNUSABLE
@pytest.mark.parametrize("name", ["edge-1", "other-name"])
def test_without_a_usable_document_the_kubelet_stops_before_its_pods_and_the_node_is_named(
    site: Site, damage: bytes, name: str
) -> None:
    """A kubelet that runs would start the pods again that are stopped."""
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.api.nodes[name] = a_node(name)
    site.join({"agent": {"nodeName": name}})
    for document in ("current", "applied"):
        site.machine.put(f"{DATA_DIR}/{document}-config.json", damage)
    site.machine.commands.calls.clear()
    report = leave(site.machine.host)
    assert report.actions.index("stop kubelet") < report.actions.index("stop all pods")
    calls = site.machine.commands.calls
    stopped = calls.index(("systemctl", "stop", KUBELET))
    assert stopped < calls.index(("systemctl", "stop", "kubepods.slice"))
    assert report.node == name
    assert name in site.api.nodes
    assert report.complaints[0].startswith(f"left: Node {name} (it was neither drained nor deleted: ")
    assert report.complaints[0].endswith(f"delete it: kubectl delete node {name}")
    assert any("the stored configuration can't be used" in line for line in report.remains)
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before
    assert not site.machine.path(DATA_DIR).exists()


def test_documents_that_someone_removed_do_not_let_the_kubelet_run_on(site: Site) -> None:
    site.join()
    for document in ("current", "applied"):
        site.machine.path(f"{DATA_DIR}/{document}-config.json").unlink()
    report = leave(site.machine.host)
    assert report.actions.index("stop kubelet") < report.actions.index("stop all pods")
    assert (report.node, len(report.complaints)) == ("edge-1", 1)


def test_a_leave_that_was_killed_while_it_removed_its_records_blames_no_node(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.join()
    remove_tree = Host.remove_tree

    def power_cut(host: Host, path: str, *rest: Any) -> list[str]:
        if path.endswith("/journal"):
            raise Killed
        return remove_tree(host, path, *rest)

    with monkeypatch.context() as now:
        now.setattr(Host, "remove_tree", power_cut)
        with pytest.raises(Killed):
            leave(site.machine.host)
    assert site.machine.host.names(DATA_DIR) == ("journal",)
    report = leave(site.machine.host)
    assert (report.node, report.complaints) == ("", [])
    assert not site.machine.path(DATA_DIR).exists()


def test_a_current_document_of_another_node_is_not_used_instead(site: Site) -> None:
    site.join()
    site.machine.store.set_current_config(merge(site.document, {"agent": {"nodeName": "edge-2"}}), None)
    site.machine.put(f"{DATA_DIR}/applied-config.json", "{")
    site.api.nodes["edge-2"] = a_node("edge-2")
    report = leave(site.machine.host)
    assert (report.node, set(site.api.nodes)) == ("edge-1", {"edge-1", "edge-2"})
    assert report.node_remains
    assert "stop kubelet" in report.actions


def test_a_prepared_machine_with_an_unusable_document_is_blamed_for_no_node(site: Site) -> None:
    site.join(components=PREPARED)
    site.machine.put(f"{DATA_DIR}/current-config.json", "{")
    report = leave(site.machine.host)
    assert (report.node, report.node_remains) == ("", "")
    assert "stop kubelet" not in report.actions


@pytest.mark.parametrize("damage", [b"{", b"", b"[]", b"{}", b'{"phase": 7}', b"\xff\xfe"])
def test_a_damaged_state_does_not_stop_the_way_back_and_is_told(site: Site, damage: bytes) -> None:
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.join()
    site.machine.put(f"{DATA_DIR}/state.json", damage)
    told: list[str] = []
    report = leave(site.machine.host, progress=told.append)
    assert (report.remains, report.node_remains, site.api.nodes) == ([], "", {})
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before
    assert not site.machine.path(DATA_DIR).exists()
    unreadable = damage not in (b"{}", b'{"phase": 7}')
    assert any("state.json, which is damaged" in line for line in told) == unreadable
    assert any("state.json, which is damaged" in line for line in report.actions) == unreadable


def test_a_damaged_document_without_a_journal_is_removed(debian: Machine) -> None:
    debian.put(f"{DATA_DIR}/current-config.json", "{")
    assert leave(debian.host).remains == []
    assert not debian.path(DATA_DIR).exists()


def test_an_item_of_an_unknown_kind_is_left_and_the_rest_goes_on(site: Site) -> None:
    """A newer version wrote it: its record stays for that version."""
    before = site.machine.snapshot("/etc", "/opt", "/usr")
    site.join()
    journal = site.machine.path(f"{DATA_DIR}/journal")
    line = '{"key": "timer:theirs", "mark": "x", "was": "absent", "origin": {"is": "absent"}}\n'
    journal.write_text(journal.read_text() + line)
    report = leave(site.machine.host)
    (left,) = report.complaints
    assert left.startswith("left: timer:theirs: this version does not know how to restore it")
    assert site.machine.snapshot("/etc", "/opt", "/usr") == before
    assert line in journal.read_text()


def test_pods_behind_a_link_are_unmounted_where_they_really_are(site: Site) -> None:
    site.machine.path("/data/kubelet").mkdir(parents=True)
    site.machine.path("/var/lib/kubelet").symlink_to(site.machine.path("/data/kubelet"))
    site.join()
    site.machine.put("/var/lib/kubelet/pods/1/secret", "a pod's")
    site.machine.mount("/", "/data/kubelet/pods/1/v")
    report = leave(site.machine.host)
    assert ("umount", "--", "/data/kubelet/pods/1/v") in site.machine.commands.calls
    assert report.remains == []
    assert site.machine.host.names("/data/kubelet") == ()
    assert site.machine.host.stat("/var/lib/kubelet").is_ == "link"


def test_directories_above_a_moved_data_directory_go_with_it(site: Site) -> None:
    before = site.machine.snapshot("/", times=False)
    site.join({"paths": {"dataDir": "/data/flex", "cni": {"binDir": "/data/cni/bin"}}})
    assert leave(site.machine.host).remains == []
    assert not site.machine.path("/data").exists()
    after = site.machine.snapshot("/", times=False)
    assert {name for name in set(after) - set(before) if not name.startswith(("run", "sys"))} == set()


def test_a_run_that_was_killed_before_anything_was_stored_is_undone(site: Site) -> None:
    site.machine.put("/etc/aks-flex-node/data-dir-above", "/data\n")
    site.machine.put("/etc/aks-flex-node/data-dir", "/data/flex\n")
    site.machine.path("/data").mkdir()
    report = leave(site.machine.host)
    assert (report.changed, report.remains) == (False, [])
    assert not site.machine.path("/data").exists()
    assert not site.machine.path("/etc/aks-flex-node").exists()


def test_every_file_system_that_was_changed_is_synced_before_the_journal_goes_and_after(site: Site) -> None:
    host = many_disks(site.machine, "/usr/local", "/var/log", "/var/lib/containerd", "/data", "/plugins")
    site.machine.mount(*host.mounted)
    for point in host.mounted:
        site.machine.path(point).mkdir(parents=True, exist_ok=True)
    site.join({"paths": {"dataDir": "/data/flex", "cni": {"binDir": "/plugins/cni/bin"}}})
    leave(host)
    assert host.synced == [set(range(6))] * 2
    assert host.stat("/data/flex").absent


def test_leaving_in_check_mode_only_tells(site: Site) -> None:
    site.join()
    before, calls = site.machine.snapshot("/"), site.machine.commands.changing()
    report = leave(site.machine.host, check=True)
    assert report.actions[0] == "leave the cluster"
    assert "restore /etc/default/kubelet" in report.actions
    assert site.machine.snapshot("/") == before
    assert site.machine.commands.changing() == calls


def test_leaving_a_machine_that_was_never_a_node(debian: Machine) -> None:
    before = debian.snapshot("/")
    report = leave(debian.host)
    assert (report.changed, report.remains) == (False, [])
    assert debian.snapshot("/") == before


def test_what_someone_changed_since_is_reported(site: Site) -> None:
    site.join()
    site.machine.put("/etc/default/kubelet", "edited by hand")
    report = leave(site.machine.host)
    assert "file:/etc/default/kubelet: changed outside this collection" in report.remains
    assert site.machine.text("/etc/default/kubelet") == "edited by hand"


POOLED = {"azure": {"targetAgentPoolName": "edge"}}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("expected", "document", "sentence"),
    [
        (
            Expected(node="edge-9"),
            {},
            'agent.nodeName is "edge-9", but this machine is Node edge-1. Set edge-1',
        ),
        (
            Expected("edge-1", f"{CLUSTER}-2"),
            {},
            f"flexnode_cluster_id is {CLUSTER}-2, but this machine is a node of another cluster. "
            f"Set {CLUSTER}",
        ),
        (
            Expected("edge-1", CLUSTER, "shop"),
            POOLED,
            'flexnode_pool is "shop", but this machine is in pool edge. Set edge',
        ),
        (
            Expected("edge-1", CLUSTER, "shop"),
            {},
            'flexnode_pool is "shop", but this machine is in no pool. '
            "Set flexnode_config_source to what it joined with",
        ),
    ],
    ids=["name", "cluster", "pool", "no pool"],
)
def test_another_node_than_the_inventory_says_does_not_leave(
    site: Site, check: bool, expected: Expected, document: dict[str, Any], sentence: str
) -> None:
    """Its blob and its machine in Azure would be looked for by names that are not its own."""
    site.join(document)
    before = site.machine.snapshot("/")
    with pytest.raises(ConfigInvalid) as refused:
        leave(site.machine.host, check=check, expected=expected)
    assert [str(problem) for problem in refused.value.problems] == [sentence]
    assert "Nothing was changed on the machine" in str(refused.value)
    assert site.machine.snapshot("/") == before
    assert list(site.api.nodes) == ["edge-1"]


@pytest.mark.parametrize(
    "expected",
    [Expected(), Expected("edge-1", CLUSTER.upper(), "Edge"), Expected("EDGE-1")],
    ids=["nothing is known", "all of it", "letters"],
)
def test_the_node_that_the_inventory_says_leaves(site: Site, expected: Expected) -> None:
    site.join(POOLED)
    report = leave(site.machine.host, expected=expected)
    assert (report.remains, report.node, report.pool) == ([], "edge-1", "edge")
    assert site.api.nodes == {}


def test_a_machine_that_is_no_node_may_have_any_name(site: Site) -> None:
    expected = Expected("edge-9", f"{CLUSTER}-2", "shop")
    assert not leave(site.machine.host, expected=expected).changed
    site.join(components=("runtime",))
    assert leave(site.machine.host, expected=expected).changed


def test_a_machine_whose_configuration_is_lost_is_known_by_its_kubelet(site: Site) -> None:
    site.join()
    for name in ("applied", "current"):
        site.machine.put(f"{DATA_DIR}/{name}-config.json", "{", 0o600)
    with pytest.raises(ConfigInvalid, match="this machine is Node edge-1"):
        leave(site.machine.host, expected=Expected("edge-9"))
    report = leave(site.machine.host, expected=Expected("edge-1"))
    assert report.changed
    assert (report.node, report.machine) == ("edge-1", {"machine_id": machine_id(site.machine.host)})
    assert "no stored configuration can be used" in report.node_remains
