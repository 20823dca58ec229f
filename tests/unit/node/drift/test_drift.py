# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drift over time: who repairs, who is left alone, what a tick costs, and what a sandbox can't read."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.check import check_drift
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.quick import check_due, looks_wrong
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import (
    CONTENDED,
    FOUND,
    REPAIRED,
    REPORTED,
    DriftRecord,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.checked import CHECKED
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host, PathState
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import AGENT_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.running import (
    CONFIRMED,
    confirm,
    runs_installed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from tests.unit.node.drift.conftest import Drifting
from tests.unit.node.drift.test_drift_table import OTHER, TABLE, TOML, stop, write
from tests.unit.node.fakes import BOOTED, PIDS, Machine
from tests.unit.node.sites import CONTAINERD, IDENTITY, KUBELET

APPLY = ("systemctl", "start", "--no-block", "aks-flex-node-apply.service")
TIMER = ("poll", "--hand-over")
RECORD = f"{DATA_DIR}/drift.json"


def ticks(on: Drifting, *options: str) -> tuple[int, list[tuple[str, ...]]]:
    """What the timer runs; exit status, and the commands that it started."""
    on.machine.commands.calls.clear()
    status = main([*TIMER, *options], on.machine.host)
    return status, on.machine.commands.calls


# -- the quick look of every tick --------------------------------------------------------------------------


def test_a_look_at_a_good_node_starts_no_process_and_writes_nothing(drifting: Drifting) -> None:
    host, store = drifting.machine.host, drifting.machine.store
    before = drifting.machine.snapshot("/")
    drifting.machine.commands.calls.clear()
    assert (looks_wrong(host, store), check_due(host, store)) == ("", False)
    assert drifting.machine.commands.calls == []
    assert drifting.machine.snapshot("/") == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("kubelet stopped", "kubelet.service does not run"),
        ("containerd failed", "containerd.service does not run"),
        ("masked", "kubelet.service is masked"),
        ("kubelet disabled", "kubelet.service is disabled"),
        ("binary replaced while it runs", "kubelet.service does not run /usr/local/bin/kubelet"),
        ("another binary runs", "containerd.service does not run /usr/local/bin/containerd"),
    ],
)
def test_a_tick_sees_at_once_what_keeps_a_node_from_working(
    drifting: Drifting, change: str, sentence: str
) -> None:
    TABLE[change].change(drifting)
    assert looks_wrong(drifting.machine.host, drifting.machine.store) == sentence
    status, calls = ticks(drifting)
    assert (status, calls[-1]) == (0, APPLY)
    assert drifting.record.items == (), "the apply service records it"
    assert main(["poll"], drifting.machine.host) == 0, "what the apply service runs"
    assert looks_wrong(drifting.machine.host, drifting.machine.store) == ""
    assert [item.state for item in drifting.record.items] == [REPAIRED]


def test_a_unit_that_systemd_restarts_by_itself_is_left_to_it(drifting: Drifting) -> None:
    stop(KUBELET, "activating")(drifting)
    assert looks_wrong(drifting.machine.host, drifting.machine.store) == ""


def test_a_machine_that_is_no_node_has_no_drift(debian: Machine) -> None:
    assert looks_wrong(debian.host, debian.store) == ""
    assert not check_due(debian.host, debian.store)
    debian.put(f"{DATA_DIR}/state.json", "{")
    assert looks_wrong(debian.host, debian.store) == ""


def test_the_whole_check_is_due_after_the_interval_and_after_a_boot(drifting: Drifting) -> None:
    host, store = drifting.machine.host, drifting.machine.store
    drifting.machine.clock.time += 149
    assert not check_due(host, store)
    drifting.machine.clock.time += 2
    assert check_due(host, store)
    assert ticks(drifting)[0] == 1  # it polls no URL
    assert not check_due(host, store)
    drifting.machine.path(CHECKED).unlink()
    assert check_due(host, store)


def test_a_check_that_finds_nothing_writes_nothing_to_disk(drifting: Drifting) -> None:
    drifting.machine.clock.time += 200
    before = drifting.machine.snapshot()
    assert drifting.check() == (0, "")
    assert drifting.machine.snapshot() == before
    assert not drifting.machine.path(RECORD).exists()


def test_a_tick_hands_over_what_a_check_found(drifting: Drifting, capsys: pytest.CaptureFixture[str]) -> None:
    write(TOML)(drifting)
    before = drifting.machine.snapshot()
    status, calls = ticks(drifting, "--drift")
    assert (status, calls[-1]) == (0, APPLY)
    assert f"update {TOML}: aks-flex-node-apply.service repairs it" in capsys.readouterr().out
    assert drifting.machine.snapshot() == before, "the sandbox changes nothing"
    assert check_due(drifting.machine.host, drifting.machine.store) is False
    drifting.machine.clock.time += 200
    assert main(["poll"], drifting.machine.host) == 0, "the apply service finds it, too: its check is due"
    assert drifting.item(f"file:{TOML}").state == REPAIRED


# -- modes -------------------------------------------------------------------------------------------------


def test_report_changes_nothing_but_the_record(drifting: Drifting) -> None:
    drifting.site.join({"node": {"taints": []}, "drift": {"mode": "report"}})
    drifting.node["spec"].pop("taints")
    write(TOML)(drifting)
    stop(KUBELET)(drifting)
    before = drifting.machine.snapshot("/etc", "/opt", "/usr")
    assert looks_wrong(drifting.machine.host, drifting.machine.store) == ""
    status, said = drifting.check()
    assert status == 0
    assert f"drift: update {TOML} (reported only)" in said
    assert {item.item: item.state for item in drifting.record.items} == {
        f"file:{TOML}": REPORTED,
        f"unit:{KUBELET}": REPORTED,
    }
    assert drifting.machine.snapshot("/etc", "/opt", "/usr") == before
    assert drifting.machine.commands.units[KUBELET] == "inactive"
    assert drifting.check() == (0, "")


def test_off_does_not_look(drifting: Drifting) -> None:
    drifting.site.join({"drift": {"mode": "off"}})
    stop(KUBELET)(drifting)
    drifting.machine.clock.time += 10_000
    host, store = drifting.machine.host, drifting.machine.store
    assert (looks_wrong(host, store), check_due(host, store)) == ("", False)
    assert drifting.check() == (0, "")
    assert not drifting.machine.path(RECORD).exists()


def test_the_interval_is_the_configured_one(drifting: Drifting) -> None:
    drifting.site.join({"drift": {"interval": 3600}})
    drifting.machine.clock.time += 3599
    assert not check_due(drifting.machine.host, drifting.machine.store)
    drifting.machine.clock.time += 2
    assert check_due(drifting.machine.host, drifting.machine.store)


# -- contended ---------------------------------------------------------------------------------------------


def fights(on: Drifting, rounds: int, seconds: float = 150) -> None:
    """Another process writes the file again, shortly after each repair."""
    for _ in range(rounds):
        write(TOML, "mine\n")(on)
        assert on.check()[0] == 0
        on.machine.clock.time += seconds


def test_a_fighting_process_ends_contended_and_is_left_alone(drifting: Drifting) -> None:
    key = f"file:{TOML}"
    fights(drifting, 3)
    assert (drifting.item(key).state, len(drifting.item(key).returns)) == (REPAIRED, 2)
    write(TOML, "mine\n")(drifting)
    status, said = drifting.check()
    assert (status, drifting.item(key).state) == (0, CONTENDED)
    assert "it came back 3 times in 10 minutes and is left alone" in said
    for _ in range(10):
        drifting.machine.clock.time += 150
        assert drifting.check() == (0, "")
    assert drifting.machine.text(TOML) == "mine\n"


def test_all_else_is_still_repaired(drifting: Drifting) -> None:
    fights(drifting, 4)
    stop(KUBELET)(drifting)
    drifting.node["metadata"]["labels"]["site"] = "x"
    assert drifting.check()[0] == 0
    assert drifting.machine.text(TOML) == "mine\n"
    assert drifting.machine.commands.units[KUBELET] == "active"
    assert drifting.node["metadata"]["labels"]["site"] == "lab-1"


def test_slow_returns_are_repaired_each_time(drifting: Drifting) -> None:
    fights(drifting, 6, seconds=301)
    assert drifting.item(f"file:{TOML}").state == REPAIRED


def test_a_contended_item_that_is_right_again_is_quiet_and_forgotten_after_ten_minutes(
    drifting: Drifting,
) -> None:
    good = drifting.machine.text(TOML)
    fights(drifting, 4)
    drifting.machine.put(TOML, good)
    drifting.check()
    assert drifting.item(f"file:{TOML}").state == REPAIRED
    write(TOML, "mine\n")(drifting)
    drifting.check()
    assert drifting.item(f"file:{TOML}").state == CONTENDED, "it was not quiet for long"
    drifting.machine.put(TOML, good)
    drifting.check()
    drifting.machine.clock.time += 601
    drifting.check()
    assert not drifting.machine.path(RECORD).exists()


def test_an_administrator_tries_again(drifting: Drifting) -> None:
    fights(drifting, 4)
    assert main(["update"], drifting.machine.host) == 0
    assert "mine" not in drifting.machine.text(TOML)
    assert not drifting.machine.path(RECORD).exists()


def test_a_kubelet_that_is_stopped_again_and_again_is_left_stopped(drifting: Drifting) -> None:
    for _ in range(4):
        stop(KUBELET)(drifting)
        drifting.check()
        drifting.machine.clock.time += 30
    assert drifting.item(f"unit:{KUBELET}").state == CONTENDED
    assert looks_wrong(drifting.machine.host, drifting.machine.store) == ""
    write(TOML)(drifting)
    assert drifting.check()[0] == 0, "the rest is repaired without the gate that needs a kubelet"
    assert "edited" not in drifting.machine.text(TOML)
    assert drifting.machine.commands.units[KUBELET] == "inactive"


def test_beside_a_contended_kubelet_a_stopped_containerd_runs_again(drifting: Drifting) -> None:
    """Only the unit of the other owner is left alone; what is called repaired was repaired."""
    for _ in range(4):
        stop(KUBELET)(drifting)
        drifting.check()
        drifting.machine.clock.time += 30
    assert drifting.item(f"unit:{KUBELET}").state == CONTENDED
    stop(CONTAINERD)(drifting)
    write(TOML)(drifting)
    status, said = drifting.check()
    assert status == 0
    assert "2 items repaired" in said
    assert drifting.machine.commands.units[CONTAINERD] == "active"
    assert drifting.machine.commands.units[KUBELET] == "inactive", "the other owner wants it so"
    assert drifting.item(f"unit:{CONTAINERD}").state == REPAIRED
    assert "edited" not in drifting.machine.text(TOML)


def test_what_a_repair_without_gates_does_not_reach_is_not_called_repaired(drifting: Drifting) -> None:
    for _ in range(4):
        stop(KUBELET)(drifting)
        drifting.check()
        drifting.machine.clock.time += 30
    drifting.node["metadata"]["labels"]["site"] = "other"
    status, said = drifting.check()
    assert (status, "label site" in said) == (0, False), "nothing is announced that is not done"
    assert drifting.node["metadata"]["labels"]["site"] == "other"
    assert drifting.item("label:site").state == FOUND


def test_a_contended_label_is_left_to_the_other(drifting: Drifting) -> None:
    for _ in range(4):
        drifting.node["metadata"]["labels"]["site"] = "theirs"
        drifting.check()
        drifting.machine.clock.time += 60
    assert drifting.item("label:site").state == CONTENDED
    write(TOML)(drifting)
    assert drifting.check()[0] == 0
    assert drifting.node["metadata"]["labels"]["site"] == "theirs"


# -- what belongs to others --------------------------------------------------------------------------------


def test_a_drop_in_of_a_gpu_operator_survives(drifting: Drifting) -> None:
    gpu = "/etc/containerd/conf.d/99-nvidia.toml"
    drifting.machine.put(gpu, 'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\n')
    drifting.machine.put("/etc/containerd/certs.d/ghcr.io/hosts.toml", "server = 'x'\n")
    write(TOML)(drifting)
    drifting.check()
    assert [item.item for item in drifting.record.items] == [f"file:{TOML}"]
    assert drifting.machine.path(gpu).exists()


def test_a_unit_drop_in_of_another_owner_is_reported_until_it_is_gone(drifting: Drifting) -> None:
    drifting.machine.put(OTHER, "[Service]\nNice=5\n")
    drifting.machine.put(f"/run/systemd/system/{CONTAINERD}.d/50-limits.conf", "[Service]\n")
    drifting.check()
    assert len(drifting.record.items) == 2
    drifting.machine.path(OTHER).unlink()
    drifting.check()
    assert [item.item for item in drifting.record.items] == [
        f"drop-in:/run/systemd/system/{CONTAINERD}.d/50-limits.conf"
    ]


def test_docker_beside_a_node_is_reported_and_does_not_keep_it_from_repairs(
    drifting: Drifting,
) -> None:
    docker = "/usr/lib/systemd/system/docker.service"
    drifting.machine.put(docker)
    write(TOML)(drifting)
    drifting.check()
    assert [(item.item, item.state) for item in drifting.record.items] == [
        (f"file:{TOML}", "repaired"),
        (f"rival:{docker}", "reported"),
    ]
    drifting.machine.path(docker).unlink()
    drifting.check()
    assert [item.item for item in drifting.record.items] == [f"file:{TOML}"]


# -- failures ----------------------------------------------------------------------------------------------


def test_a_repair_that_fails_is_recorded_and_tried_again_later(drifting: Drifting) -> None:
    start = drifting.machine.commands.on_start.pop(KUBELET)
    drifting.site.join({"upgrade": {"gateSeconds": 10}})
    drifting.machine.commands.statuses["systemctl restart"] = 1
    stop(KUBELET)(drifting)
    status, said = drifting.check()
    assert (status, drifting.item(f"unit:{KUBELET}").state) == (3, FOUND), said
    assert "drift is not repaired" in said
    failure = drifting.record.failure
    assert failure is not None
    assert (failure.code, failure.attempts) == ("FLEX-1501", 1)
    drifting.machine.store.finish()  # the transaction that the next poll would complete first
    assert looks_wrong(drifting.machine.host, drifting.machine.store) == "", "not at every tick"
    drifting.machine.clock.time += 61
    assert looks_wrong(drifting.machine.host, drifting.machine.store) != ""
    drifting.machine.commands.statuses.clear()
    drifting.machine.commands.on_start[KUBELET] = start
    assert drifting.check()[0] == 0
    assert drifting.record.failure is None


NEW_TOKEN = {"azure": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}
UNAUTHORIZED = "E1115 cannot create certificate signing request: Unauthorized\n"


def after_a_cut_line(drifting: Drifting, *changes: dict[str, Any]) -> Path:
    """The last run failed because of a line that was cut; then the API server rejects every certificate.

    Something is to be repaired, and a kubelet without a certificate gets none. Returns its certificate.
    """
    drifting.site.join({"upgrade": {"gateSeconds": 30}}, *changes)
    drifting.site.api.refuse["GET /api"] = 503
    assert main(["update"], drifting.machine.host) != 0
    drifting.site.api.refuse.clear()
    assert drifting.machine.store.state()["phase"] == "NodeFailed"
    drifting.site.api.knows = lambda: False
    drifting.machine.commands.on_start[KUBELET] = lambda: None
    drifting.machine.clock.time += 200
    write(TOML)(drifting)
    return drifting.machine.path(IDENTITY)


def test_a_moment_of_unauthorized_costs_no_certificate(drifting: Drifting) -> None:
    """The token of the join is used up: a certificate that is removed here would be the last one."""
    certificate = after_a_cut_line(drifting)
    assert drifting.check()[0] == 3
    assert certificate.exists()
    drifting.site.api.knows = lambda: True
    drifting.machine.clock.time += 3600
    assert drifting.check()[0] == 0
    assert (certificate.exists(), drifting.machine.store.state()["phase"]) == (True, "NodeJoined")


@pytest.mark.parametrize("log", ["", UNAUTHORIZED], ids=["no-answer", "token-refused"])
def test_a_repair_that_brings_no_new_certificate_returns_the_old_one(drifting: Drifting, log: str) -> None:
    """There is a token that nobody has used; it does not work either."""
    certificate = after_a_cut_line(drifting, NEW_TOKEN)
    drifting.machine.commands.logs[KUBELET] = log
    seen: list[bool] = []
    drifting.machine.commands.on_start[KUBELET] = lambda: seen.append(certificate.exists())
    status, said = drifting.check()
    assert (status, certificate.exists()) == (3, True), said
    assert seen == [False, True], "the kubelet starts without it, and again with it"
    assert "the kubelet has its earlier certificate again" in said.replace("The kubelet", "the kubelet")
    assert drifting.machine.commands.units[KUBELET] == "active"
    drifting.site.api.knows = lambda: True
    drifting.machine.commands.logs.clear()
    drifting.machine.clock.time += 3600
    assert drifting.check()[0] == 0
    assert (certificate.exists(), drifting.machine.store.state()["phase"]) == (True, "NodeJoined")


def test_a_token_that_was_refused_in_a_repair_is_not_tried_again(drifting: Drifting) -> None:
    certificate = after_a_cut_line(drifting, NEW_TOKEN)
    drifting.machine.commands.logs[KUBELET] = UNAUTHORIZED
    drifting.check()
    assert drifting.machine.store.join()["outcome"] == "refused"
    without: list[bool] = []
    drifting.machine.commands.on_start[KUBELET] = lambda: without.append(not certificate.exists())
    for _hour in range(3):
        drifting.machine.clock.time += 3600
        drifting.check()
    assert not any(without)


def test_without_the_api_server_labels_are_not_judged(drifting: Drifting) -> None:
    drifting.node["spec"].pop("taints")
    drifting.check()
    drifting.site.api.refuse["GET"] = 503
    drifting.machine.put("/proc/sys/kernel/panic", "0\n")
    drift = check_drift(drifting.machine.host, drifting.machine.store, drifting.machine.clock.now())
    assert drift.repairs == {"sysctl:kernel.panic"}
    assert {item.item: item.state for item in drift.record.items}["taint:plant:NoSchedule"] == REPORTED


def test_an_error_of_the_check_itself_is_reported(drifting: Drifting) -> None:
    drifting.machine.put("/etc/real-fstab/x", "")
    drifting.machine.path("/etc/fstab").unlink()
    drifting.machine.path("/etc/fstab").symlink_to("/dev/null")
    drifting.machine.put(f"{DATA_DIR}/applied-config.json", json.dumps({"nonsense": 1}))
    status, _said = drifting.check()
    assert status == 0
    assert drifting.item("check:all").what.startswith("FLEX-1101")


def test_a_check_that_fails_itself_repairs_nothing_and_blames_no_item(
    drifting: Drifting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd does not answer for a moment, again and again: no other process has changed the file."""
    machine, now = drifting.machine, drifting.machine.clock.time

    def check() -> None:
        check_drift(machine.host, machine.store, now).record.keep(machine.store, now)

    def fails(*_arguments: object) -> None:
        raise FlexNodeError("systemctl failed", why="Connection timed out")

    write(TOML)(drifting)
    for _ in range(4):
        check()
        found = drifting.item(f"file:{TOML}")
        assert (found.state, found.returns) == (FOUND, ())
        with monkeypatch.context() as patched:
            patched.setattr(f"{check_drift.__module__}.look", fails)
            for _again in (1, 2):
                now += 30
                check()
                assert [item.item for item in drifting.record.items] == ["check:all", f"file:{TOML}"]
                assert drifting.item(f"file:{TOML}") == found
                assert not check_drift(machine.host, machine.store, now).repairs, "nothing is known now"
        now += 30


def test_a_damaged_record_is_written_anew(drifting: Drifting) -> None:
    drifting.machine.put(RECORD, "{")
    write(TOML)(drifting)
    assert drifting.check()[0] == 0
    assert drifting.item(f"file:{TOML}").state == REPAIRED


def test_another_run_goes_first(drifting: Drifting) -> None:
    """An unfinished transaction is completed before anything is compared."""
    write(TOML)(drifting)
    drifting.machine.store.begin({"stage": "proving"})
    status, said = drifting.check()
    assert (status, drifting.machine.store.transaction()) == (0, None)
    assert "an interrupted change is complete" in said
    assert drifting.record.items == ()


def test_a_repair_keeps_what_was_refused_and_applies_nothing_new(drifting: Drifting) -> None:
    store = drifting.machine.store
    applied = store.applied_config()
    assert applied is not None
    store.set_current_config({**applied, "node": {**applied["node"], "maxPods": 42}}, "18")
    store.refuse({"x": 1}, {"code": "FLEX-1101", "message": "m", "since": "", "version": "19"})
    write(TOML)(drifting)
    assert drifting.check()[0] == 0
    assert '"maxPods": 110' in drifting.machine.text("/etc/default/kubeletconfig.json")
    assert store.applied_config() == applied
    assert store.refused()["version"] == "19"


def test_leaving_removes_the_record(drifting: Drifting) -> None:
    write(TOML)(drifting)
    drifting.check()
    assert json.loads(drifting.machine.text(RECORD))["schema"] == 2
    leave(drifting.machine.host)
    assert not drifting.machine.path(DATA_DIR).exists()


# -- facts -------------------------------------------------------------------------------------------------


def test_facts_of_the_join_decide_whatever_is_seen_now(
    drifting: Drifting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new kernel shows a little less memory, a sandbox may not lower its OOM score, resolved is late."""
    drifting.machine.put("/etc/resolv.conf", "")
    drifting.machine.put("/proc/meminfo", "MemTotal: 4000000 kB\n")
    monkeypatch.setattr(Host, "may_lower_oom_score", lambda _self: False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    drifting.machine.put("/run/systemd/resolve/resolv.conf", "")
    assert drifting.plan() == "nothing to do\n"
    assert drifting.check() == (0, "")


def test_a_resolver_that_is_gone_is_replaced_when_an_administrator_asks(drifting: Drifting) -> None:
    store = drifting.machine.store
    store.note(facts={**store.state()["facts"], "resolv_conf": "/run/systemd/resolve/resolv.conf"})
    assert drifting.check()[0] == 0, "at boot it is missing for a moment: the stored one stays"
    assert "/run/systemd" in drifting.machine.text("/etc/default/kubeletconfig.json")
    assert main(["update"], drifting.machine.host) == 0
    assert '"resolvConf": "/etc/resolv.conf"' in drifting.machine.text("/etc/default/kubeletconfig.json")


def test_a_resolver_that_is_gone_is_reported_until_an_administrator_updates(drifting: Drifting) -> None:
    """No new pod starts then, and the Node stays Ready."""
    resolved, store = "/run/systemd/resolve/resolv.conf", drifting.machine.store
    drifting.machine.put("/etc/resolv.conf", "")
    drifting.machine.put(resolved, "")
    store.note(facts={**store.state()["facts"], "resolv_conf": resolved})
    assert main(["update"], drifting.machine.host) == 0
    assert drifting.check() == (0, "")
    drifting.machine.path(resolved).unlink()
    status, said = drifting.check()
    assert status == 0
    assert "run aks-flex-node update" in said
    assert drifting.item(f"resolver:{resolved}").state == REPORTED
    assert main(["update"], drifting.machine.host) == 0
    assert drifting.check() == (0, "")
    assert drifting.record.items == ()


def test_a_resolver_that_the_document_names_is_its_own_affair(drifting: Drifting) -> None:
    store = drifting.machine.store
    chosen = {"kubelet": {"configOverrides": {"resolvConf": "/etc/own-resolv.conf"}}}
    drifting.site.join(chosen)
    store.note(facts={**store.state()["facts"], "resolv_conf": "/run/systemd/resolve/resolv.conf"})
    assert drifting.check() == (0, "")


# -- a sandbox without capabilities ------------------------------------------------------------------------


class Sandboxed(Host):
    """Root without capabilities: it can't read what a process runs, nor the files of other users."""

    secrets: tuple[str, ...] = ()

    def stat(self, path: str) -> PathState:
        if path.endswith("/exe"):
            raise PermissionError(13, "Permission denied", path)
        return super().stat(path)

    def read(self, path: str) -> bytes | None:
        if path in self.secrets:
            raise PermissionError(13, "Permission denied", path)
        return super().read(path)


@pytest.fixture
def sandboxed(drifting: Drifting) -> Sandboxed:
    """The same machine, seen from the poll service, at the time at which its files were really written."""
    machine = drifting.machine
    machine.clock.time = time.time()
    machine.put("/proc/uptime", f"{time.time() - BOOTED:.2f} 0.00\n")
    machine.commands.ends(KUBELET)
    machine.commands.begins(KUBELET)
    return Sandboxed(str(machine.root), machine.commands, machine.clock)


def findings(host: Host, on: Drifting) -> list[tuple[str, str]]:
    drift = check_drift(host, on.machine.store, on.machine.clock.now())
    assert not drift.unsure
    return [(item.item, item.what) for item in drift.record.items]


@pytest.mark.parametrize("name", [None, "content", "kubelet stopped", "sysctl", "version changed", "masked"])
def test_the_sandbox_sees_what_root_sees(sandboxed: Sandboxed, drifting: Drifting, name: str | None) -> None:
    if name:
        TABLE[name].change(drifting)
    seen = findings(sandboxed, drifting)
    assert seen == findings(drifting.machine.host, drifting)
    assert bool(seen) == bool(name)


def test_a_file_that_only_another_user_may_read_is_checked_outside(
    sandboxed: Sandboxed, drifting: Drifting
) -> None:
    sandboxed.secrets = (TOML,)
    drift = check_drift(sandboxed, drifting.machine.store, drifting.machine.clock.now())
    assert drift.unsure == f"{TOML} can't be read here"
    drifting.machine.commands.calls.clear()
    assert main([*TIMER, "--drift"], sandboxed) == 0
    assert drifting.machine.commands.calls[-1] == APPLY
    assert drifting.check() == (0, "")


def test_a_binary_that_changed_after_the_start_counts_as_replaced(
    sandboxed: Sandboxed, drifting: Drifting
) -> None:
    machine, program, pid = drifting.machine, "/usr/local/bin/kubelet", PIDS[KUBELET]
    assert runs_installed(sandboxed, pid, program)
    link = machine.path(program)
    target = link.readlink()
    time.sleep(0.2)
    link.unlink()
    link.symlink_to(target)  # the same again: only who can read the process knows that nothing changed
    assert not runs_installed(sandboxed, pid, program)
    assert runs_installed(machine.host, pid, program)
    confirm(machine.host, pid, program)
    assert runs_installed(sandboxed, pid, program), "confirmed from outside"
    before = machine.path(CONFIRMED).stat().st_mtime_ns
    confirm(machine.host, pid, program)
    assert machine.path(CONFIRMED).stat().st_mtime_ns == before
    link.unlink()
    link.symlink_to("/usr/bin/kubelet")
    assert not runs_installed(sandboxed, pid, program), "and changed again since"


def test_a_check_from_outside_confirms(sandboxed: Sandboxed, drifting: Drifting) -> None:
    time.sleep(0.2)
    for name in ("kubelet", "containerd"):
        link = drifting.machine.path(f"/usr/local/bin/{name}")
        target = link.readlink()
        link.unlink()
        link.symlink_to(target)
    assert looks_wrong(sandboxed, drifting.machine.store) != ""
    assert drifting.check() == (0, "")
    assert looks_wrong(sandboxed, drifting.machine.store) == ""


def test_the_process_of_a_script_is_its_interpreter(drifting: Drifting) -> None:
    machine, program = drifting.machine, "/usr/local/bin/kubelet"
    machine.put(str(machine.path(program).readlink()), "#!/bin/sh\n", 0o755)
    machine.commands.ends(KUBELET)
    machine.commands.begins(KUBELET, "/usr/bin/dash")
    assert runs_installed(machine.host, PIDS[KUBELET], program)


def test_a_process_that_ended_is_no_difference(drifting: Drifting) -> None:
    assert runs_installed(drifting.machine.host, 4711, "/usr/local/bin/kubelet")


# -- our own command ---------------------------------------------------------------------------------------


def test_a_program_that_was_changed_does_not_take_itself_for_a_new_version(
    drifting: Drifting, tmp_path: Path
) -> None:
    """Run as it is installed, from a place that is named by the digest of other files."""
    (installed,) = drifting.machine.path(AGENT_DIR).iterdir()
    code = f"""
import sys
sys.path.insert(0, {str(installed)!r})
from flexnode.machine import layout
layout.AGENT_DIR = {str(installed.parent)!r}
from flexnode.components import agent
from flexnode.resources.program import Program
from flexnode.components.newest_program import altered_program
wanted = [Program(layout.AGENT_DIR, agent.sources(), "aks-flex-node")]
print(altered_program(wanted))
"""

    def altered() -> str:
        run = [sys.executable, "-I", "-B", "-c", code]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()

    assert altered() == ""
    with (installed / "flexnode/secret.py").open("a") as file:
        file.write("# mine\n")
    assert altered() == str(installed)


def test_the_record_of_a_store_that_has_none(machine: Machine) -> None:
    empty: Any = DriftRecord.of(machine.store)
    assert (empty.items, empty.failure, empty.left_alone) == ((), None, frozenset())


def test_a_file_name_that_is_no_utf8_stops_nothing(
    drifting: Drifting, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = drifting.machine.path("/etc/systemd/system/kubelet.service.d")
    directory.mkdir(parents=True, exist_ok=True)
    Path(os.fsdecode(os.fsencode(directory) + b"/\xff.conf")).touch()
    for arguments in (["poll", "--drift"], ["status"], ["status", "--json"]):
        written = io.BytesIO()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", io.TextIOWrapper(written, "utf-8", errors="strict"))
            assert main(arguments, drifting.machine.host) == 0, arguments
            sys.stdout.flush()
            assert b"udcff.conf" in written.getvalue(), arguments
