# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Updates of a joined node: what is refused, what is rolled back and remembered, what drains."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    Blocked,
    ConfigInvalid,
    Downgrade,
    FlexNodeError,
    NodeNotReady,
    NotDrained,
    NotInCatalogue,
    RollbackIncomplete,
    StateNewer,
    UnitFailed,
    VersionSkew,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.join_record import JoinRecord
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.fake_api import a_node, a_pod
from tests.unit.node.servers import Pki
from tests.unit.node.sites import (
    CONFIG,
    DRAINED,
    KUBELET,
    MORE,
    SHORT,
    Site,
    also,
    distrusted,
    exits_from_now_on,
    killed_at,
)

# -- rollback ----------------------------------------------------------------------------------------------


def test_settings_that_kill_the_kubelet_are_rolled_back_remembered_and_blocked(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")
    exits_from_now_on(site)
    began = site.machine.clock.time
    with pytest.raises(UnitFailed, match="eviction threshold") as caught:
        site.join(MORE)
    rolled_back = "the update failed and was rolled back; the Node is Ready with its earlier configuration"
    assert str(caught.value).startswith(
        f"FLEX-1501: {rolled_back}. With the new configuration {KUBELET} failed"
    )
    what, log = caught.value.fix.split("\n  ")
    correct = "correct it where the configuration comes from, then run playbook aks.flexnode.update again"
    assert what == f"this update changed node.maxPods: {correct}"
    assert re.fullmatch(rf"see .* on edge-1: `journalctl -u {KUBELET} -n 50 --until=@\d+`", log)
    assert (caught.value.rolled_back, caught.value.changed) == (True, False)
    assert site.machine.clock.time - began < 30
    assert site.machine.snapshot("/etc", "/usr") == before
    store = site.machine.store
    assert store.transaction() is None
    assert store.current_config() == store.applied_config()
    assert store.refused()["document"]["node"]["maxPods"] == 50
    status = status_of(site.machine.host)
    assert status["node"]["ready"]
    assert status["config"]["refused"]["code"] == "FLEX-1501"
    calls = site.machine.commands.changing()
    with pytest.raises(Blocked, match="eviction threshold"):
        site.join(MORE)
    assert site.machine.commands.changing() == calls, "it is not tried again"
    with pytest.raises(UnitFailed):
        site.join(MORE, retry=True)
    assert site.join().summary == "unchanged"
    assert site.machine.store.refused() == {}


def test_the_earlier_configuration_has_as_long_as_a_gate_to_be_ready_again(site: Site) -> None:
    """On a slow machine the kubelet of the earlier configuration is Ready after minutes, too."""
    slow = {"upgrade": {"gateSeconds": 600}}
    site.join(slow)
    exits_from_now_on(site)
    clock = site.machine.clock

    def rolls_back(sentence: str) -> None:
        if "with the earlier configuration" not in sentence:
            return
        began = clock.time
        site.api.nodes["edge-1"] = a_node(ready=False)

        def passes() -> None:
            if clock.time - began > 400:
                site.api.nodes["edge-1"] = a_node()

        clock.then = passes

    with pytest.raises(UnitFailed) as caught:
        site.join(slow, MORE, progress=rolls_back)
    assert caught.value.outcome.endswith("the Node is Ready with its earlier configuration")


def test_another_document_than_the_blocked_one_is_tried(site: Site) -> None:
    site.join()
    exits_from_now_on(site)
    with pytest.raises(UnitFailed):
        site.join(MORE)
    assert site.join({"node": {"maxPods": 60}}).summary == "updated (maxPods)"
    assert site.machine.store.refused() == {}


def test_a_rollback_that_can_not_be_completed_is_an_error(site: Site) -> None:
    site.join()
    exits_from_now_on(site)

    kept, lost = site.machine.path(f"{DATA_DIR}/origins"), site.machine.path("/lost")

    def loses_what_was_kept(sentence: str) -> None:
        if "rolling back" in sentence:
            kept.rename(lost)

    with pytest.raises(UnitFailed, match="eviction threshold") as caught:
        site.join(MORE, progress=loses_what_was_kept)
    assert "The rollback is not complete" in caught.value.why
    assert caught.value.changed
    with pytest.raises(RollbackIncomplete, match="eviction threshold"):
        site.join()
    lost.rename(kept)
    assert site.join().summary == "unchanged"
    assert '"maxPods": 110' in site.machine.text(CONFIG)


def test_the_command_retries_what_was_rolled_back(site: Site) -> None:
    site.join()
    exits_from_now_on(site)
    with pytest.raises(UnitFailed):
        site.join(MORE)
    site.machine.commands.on_start.clear()  # the cause is mended
    assert main(["update", "--retry"], site.machine.host) == 0
    assert '"maxPods": 50' in site.machine.text(CONFIG)
    assert site.machine.store.refused() == {}


@pytest.mark.parametrize("change", [{"cni": {"mode": "none"}}, also("1.4.4", "runc")], ids=["cni", "runc"])
def test_a_change_without_a_restart_needs_a_report_from_after_it(site: Site, change: dict[str, Any]) -> None:
    bridge = {"cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"}}
    site.join(bridge)
    site.machine.clock.time += 3600
    reported = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(site.machine.clock.time - 3))
    site.api.nodes["edge-1"] = a_node(beat=reported)
    with pytest.raises(NodeNotReady, match="has not reported since") as caught:
        site.join({"cni": {"podCIDR": None}} if "cni" in change else bridge, change, SHORT)
    assert caught.value.rolled_back


def test_a_repair_is_not_rolled_back_to_the_damage(site: Site) -> None:
    site.join()
    site.machine.put(CONFIG, "{}", 0o600)
    site.api.nodes["edge-1"] = a_node(ready=False)
    with pytest.raises(NodeNotReady):
        site.join()
    assert '"maxPods": 110' in site.machine.text(CONFIG)


# -- refused before anything is changed --------------------------------------------------------------------

REFUSALS: list[tuple[dict[str, Any], type[FlexNodeError]]] = [
    ({"containerd": {"version": "2.9.9"}}, NotInCatalogue),
    (also("1.36.1"), VersionSkew),
    (also("1.33.1"), Downgrade),
    ({"node": {"maxPods": -1}}, ConfigInvalid),
]


@pytest.mark.parametrize(("change", "error"), REFUSALS)
def test_a_refused_document_does_not_replace_the_working_one(
    site: Site, change: dict[str, Any], error: type[FlexNodeError]
) -> None:
    site.join()
    before, calls = site.machine.snapshot("/etc", "/usr", "/opt"), site.machine.commands.changing()
    with pytest.raises(error):
        site.join(change)
    store = site.machine.store
    assert store.current_config() == store.applied_config()
    assert store.refused()["code"] == error.code, "it is kept beside, with the reason"
    assert site.machine.snapshot("/etc", "/usr", "/opt") == before
    assert site.machine.commands.changing() == calls
    assert status_of(site.machine.host)["node"]["status"] == "Ready"
    run = site.join()
    assert (run.changed, run.summary) == (False, "unchanged")


def test_a_joined_node_gets_no_kubelet_that_its_api_server_does_not_support(site: Site) -> None:
    site.join()
    kubelet = site.machine.path("/usr/local/bin/kubelet")
    installed, site.api.version = kubelet.readlink(), "v1.34.9"
    site.machine.commands.on_start[KUBELET] = lambda: site.api.nodes.update(
        {"edge-1": a_node(version="1.36.1")}
    )
    with pytest.raises(VersionSkew, match=r"1\.36\.1"):
        site.join(also("1.36.1"))
    assert kubelet.readlink() == installed


def test_something_else_that_answers_before_a_new_kubelet_is_not_the_fault_of_the_update(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A captive portal: another try may help, which is what ApiUnreachable says to whoever follows."""
    site.join()
    with (
        distrusted(site, monkeypatch, 19, "self-signed certificate in chain"),
        pytest.raises(ApiUnreachable, match="altered neither its address nor its CA"),
    ):
        site.join(also("1.34.5"))


def test_a_downgrade_must_be_allowed(site: Site) -> None:
    site.join()
    site.machine.commands.on_start[KUBELET] = lambda: site.api.nodes.update(
        {"edge-1": a_node(version="1.34.3", labels=site.api.nodes["edge-1"]["metadata"]["labels"])}
    )
    with pytest.raises(Downgrade, match=r"1\.34\.3 is older than the installed 1\.34\.4"):
        site.join(also("1.34.3"))
    run = site.join(also("1.34.3"), {"upgrade": {"allowDowngrade": True}})
    assert "kubernetes 1.34.4 -> 1.34.3" in run.summary


def applied_by_a_release_with(site: Site, containerd: str) -> None:
    """As another release leaves the node: the document names no version, and its default is another one."""
    state = site.machine.store.state()
    site.machine.store.note(versions={**state["versions"], "containerd": containerd})


def test_the_older_default_of_another_release_is_a_downgrade(site: Site) -> None:
    site.join()
    applied_by_a_release_with(site, containerd="2.9.9")
    with pytest.raises(Downgrade, match=r"2\.3\.4 is older than the installed 2\.9\.9"):
        site.join(check=True)


def test_a_new_major_of_containerd_by_default_drains(site: Site) -> None:
    site.join()
    applied_by_a_release_with(site, containerd="1.7.32")
    assert site.join(MORE, check=True).drains


def test_a_node_whose_document_this_release_refuses_takes_a_better_one(site: Site) -> None:
    site.join()
    for name in ("applied-config.json", "current-config.json"):
        old = json.loads(site.machine.text(f"{DATA_DIR}/{name}"))
        old["containerd"] = {"metricsAddress": "::1:10257"}
        site.machine.put(f"{DATA_DIR}/{name}", json.dumps(old), 0o600)
    run = site.join({"containerd": {"metricsAddress": "127.0.0.1:10257"}})
    assert run.outcome.kind == "updated"


# -- what happened, in words -------------------------------------------------------------------------------


def test_the_result_says_what_happened(site: Site) -> None:
    assert site.join().summary == "joined"
    assert site.join().summary == "unchanged"
    run = site.join({"node": {"maxPods": 50, "labels": {"rack": "7"}}})
    assert (run.summary, run.outcome.kind) == ("updated (labels, maxPods)", "updated")
    site.machine.put(CONFIG, "{}", 0o600)
    assert site.join({"node": {"maxPods": 50, "labels": {"rack": "7"}}}).summary == "repaired (1 item)"


@pytest.mark.parametrize(
    "change", [{"labels": {"rack": "7"}}, {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}]
)
def test_labels_and_taints_never_restart_the_kubelet(site: Site, change: dict[str, Any]) -> None:
    site.join()
    restarts = site.machine.commands.times("systemctl", "restart")
    assert site.join({"node": change}).changed
    assert site.machine.commands.times("systemctl", "restart") == restarts


def test_labels_of_an_update_that_was_killed_are_removed_by_the_next(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.join()
    with killed_at(monkeypatch, JoinRecord, "joined"):
        site.join({"node": {"labels": {"rack": "7"}}})
    assert site.api.nodes["edge-1"]["metadata"]["labels"]["rack"] == "7"
    site.join({"node": {"labels": {"row": "2"}}})
    labels = site.api.nodes["edge-1"]["metadata"]["labels"]
    assert (labels.get("rack"), labels["row"]) == (None, "2")


def test_taints_that_only_the_controller_can_change_are_returned_until_they_are_changed(site: Site) -> None:
    taint = {"key": "dedicated", "value": "edge", "effect": "NoSchedule"}
    site.join()
    assert site.join({"node": {"taints": [taint]}}).taints == {"set": [taint], "remove": []}
    assert site.join({"node": {"taints": [taint]}}).taints["set"] == [taint], "still not there"
    site.api.nodes["edge-1"]["spec"]["taints"] = [taint, {"key": "theirs", "effect": "NoExecute"}]
    assert site.join({"node": {"taints": [taint]}}).taints == {"set": [], "remove": []}
    assert site.join().taints == {"set": [], "remove": [{"key": "dedicated", "effect": "NoSchedule"}]}
    assert site.join().taints["remove"], "as long as it is there"
    site.api.nodes["edge-1"]["spec"]["taints"] = []
    assert site.join().taints == {"set": [], "remove": []}


# -- drain -------------------------------------------------------------------------------------------------


def test_pods_leave_after_the_fetch_and_before_the_change(site: Site) -> None:
    site.join()
    site.api.pods = [a_pod("web")]
    seen: list[bool] = []
    site.machine.commands.on_start[KUBELET] = lambda: seen.append(
        bool(site.api.nodes["edge-1"]["spec"].get("unschedulable")) and not site.api.pods
    )
    told: list[str] = []
    run = site.join(DRAINED, progress=told.append)
    assert run.drains
    assert seen == [True]
    assert not site.api.nodes["edge-1"]["spec"].get("unschedulable")
    assert "uncordon edge-1" in run.actions
    assert "cordoned" not in site.machine.store.state()


def test_a_node_that_someone_else_cordoned_stays_so(site: Site) -> None:
    site.join()
    site.api.nodes["edge-1"]["spec"]["unschedulable"] = True
    site.join(DRAINED)
    assert site.api.nodes["edge-1"]["spec"]["unschedulable"] is True


def test_pods_that_do_not_leave_end_the_update_before_anything_stops(site: Site) -> None:
    site.join()
    site.api.pods, site.api.protected = [a_pod("web")], {"web"}
    before, calls = site.machine.snapshot("/etc", "/usr"), site.machine.commands.changing()
    with pytest.raises(NotDrained, match="default/web"):
        site.join(DRAINED)
    assert site.machine.snapshot("/etc", "/usr") == before
    assert site.machine.commands.changing() == calls
    assert not site.api.nodes["edge-1"]["spec"].get("unschedulable")
    store = site.machine.store
    assert store.current_config() == store.applied_config()
    assert store.transaction() is None


def test_the_node_takes_pods_again_after_a_rollback(site: Site) -> None:
    site.join()
    exits_from_now_on(site)
    with pytest.raises(UnitFailed):
        site.join(DRAINED)
    assert not site.api.nodes["edge-1"]["spec"].get("unschedulable")
    assert "cordoned" not in site.machine.store.state()


@pytest.mark.parametrize(
    ("policy", "change", "drains"),
    [
        ("minor", MORE, False),
        ("minor", also("1.34.5"), False),
        ("minor", also("1.35.1"), True),
        ("never", also("1.35.1"), False),
        ("always", also("1.34.5"), True),
        ("always", MORE, True),
        ("always", {"node": {"labels": {"rack": "7"}}}, False),
        ("never", also("1.7.32", "containerd"), True),
        ("minor", also("2.2.9", "containerd"), False),
    ],
)
def test_when_a_node_is_drained(site: Site, policy: str, change: dict[str, Any], drains: bool) -> None:
    site.api.version = "v1.35.9"
    site.join()
    assert site.join(change, {"upgrade": {"drain": policy}}, check=True).drains is drains


# -- the version of the state ------------------------------------------------------------------------------


def state_files(site: Site) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in site.machine.path(DATA_DIR).iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["state.json", "journal"])
def test_state_of_a_newer_release_is_refused_and_nothing_is_lost(site: Site, name: str) -> None:
    site.join()
    path = site.machine.path(f"{DATA_DIR}/{name}")
    if name == "journal":
        path.write_text(json.dumps({"schema": 99, "writer": "9.0.0"}) + "\n" + path.read_text())
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99, "writer": "9.0.0"}))
    before = state_files(site)
    for act in (site.join, lambda: leave(site.machine.host)):
        with pytest.raises(StateNewer, match=r"aks\.flexnode 9\.0\.0"):
            act()
    assert state_files(site) == before


def test_state_without_a_version_is_migrated(site: Site) -> None:
    """As the releases before schemas wrote it."""
    site.join()
    for name in ("state.json", "journal"):
        path = site.machine.path(f"{DATA_DIR}/{name}")
        lines = [json.loads(line) for line in path.read_text().splitlines()] if name == "journal" else []
        if name == "journal":
            kept = [line for line in lines if "schema" not in line]
            path.write_text("".join(json.dumps(line) + "\n" for line in kept))
        else:
            old = {
                key: value
                for key, value in json.loads(path.read_text()).items()
                if key not in ("schema", "writer")
            }
            path.write_text(json.dumps(old))
    site.machine.put(
        f"{DATA_DIR}/transaction.json",
        json.dumps({"restarts": [KUBELET], "reload": False, "before": {}}),
        0o600,
    )
    assert site.join().actions == [f"restart {KUBELET} (an earlier run was interrupted)"]
    site.join(MORE)
    assert json.loads(site.machine.text(f"{DATA_DIR}/state.json"))["schema"] == 2
    assert '"schema": 2' in site.machine.text(f"{DATA_DIR}/journal")


def test_every_change_is_in_the_diff_and_no_secret(site: Site) -> None:
    site.join()
    pods = {
        "staticPodURL": "https://pods/x?sig=s3cret",
        "staticPodURLHeader": {"Authorization": ["Bearer s3cret"]},
    }
    overrides = {"kubelet": {"configOverrides": pods}}
    site.join(overrides)
    diff = json.dumps(site.join(overrides, MORE, check=True).plan.diff)
    assert '\\"maxPods\\": 110' in diff
    assert '\\"maxPods\\": 50' in diff
    assert "s3cret" not in diff


def test_the_previous_version_is_kept_and_no_older_one(site: Site, pki: Pki) -> None:
    site.api.version = "v1.35.9"
    for version in ("1.34.4", "1.34.5", "1.34.6"):

        def starts(version: str = version) -> None:
            site.kubelet_starts(pki)
            site.api.nodes["edge-1"] = a_node(version=version)

        site.machine.commands.on_start[KUBELET] = starts
        site.join(also(version))
    versions = [path.name for path in site.machine.path("/opt/aks-flex-node/versions/kubelet").iterdir()]
    assert sorted(name.partition("-")[0] for name in versions) == ["1.34.5", "1.34.6"]
    site.join(also("1.34.6"), MORE)
    assert len(list(site.machine.path("/opt/aks-flex-node/versions/kubelet").iterdir())) == 2


def test_an_older_release_does_not_put_its_own_program_back(site: Site) -> None:
    site.join()
    link = site.machine.path("/usr/local/bin/aks-flex-node")
    newer = site.machine.path("/opt/aks-flex-node/agent/newer")
    newer.mkdir()
    site.machine.put("/opt/aks-flex-node/agent/newer/flexnode/machine/program.py", 'VERSION = "9.1.0"\n')
    link.unlink()
    link.symlink_to("/opt/aks-flex-node/agent/newer/aks-flex-node")
    run = site.join(MORE)
    assert link.readlink().parent.name == "newer"
    assert run.summary == "updated (maxPods)"
    assert "the newer command stays" in run.warnings[0]
    assert newer.is_dir(), "nor is it pruned"


def test_services_restart_also_if_systemd_was_busy_when_it_was_asked_whether_they_run(site: Site) -> None:
    """No answer is not "it does not run": the change would be done, and nothing would use it."""
    site.machine.commands.processes = True  # that it runs the installed binaries is seen without systemd
    site.join()
    site.machine.commands.calls.clear()
    site.machine.commands.busy = 1
    site.join({"node": {"maxPods": 50}})
    assert site.machine.commands.times("systemctl", "restart") == 1
