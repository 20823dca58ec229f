# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rollback and crashes: the previous generation, and runs that are killed anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import (
    make_plan,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.prune import clear_staging
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.record import Record, Stage
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.rollback import roll_back
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.transaction import (
    Timings,
    execute,
    prove,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    ForeignPath,
    KernelLacks,
    NodeNotReady,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import AGENT_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.modules import KernelModule
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.settings import Sysctl
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import Program
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import place_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from tests.unit.node.engine.an_app import (
    APP,
    RETURNS,
    SIDE,
    Killed,
    Stager,
    Watching,
    a_tree,
    an_app,
    refuse,
    run,
)
from tests.unit.node.fakes import Machine


@pytest.fixture
def host(machine: Machine) -> Host:
    machine.path("/etc/systemd/system").mkdir(parents=True)
    return machine.host


def test_a_failure_in_the_middle_rolls_back_to_the_byte(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", b"theirs \xff", 0o751)
    machine.put("/etc/app/second", "theirs")
    machine.put("/proc/sys/kernel/panic", "0\n")
    before = machine.snapshot("/etc", "/proc")
    machine.commands.statuses["modprobe"] = 1
    with pytest.raises(KernelLacks) as caught:
        run(machine, [Sysctl("kernel.panic", "10"), *an_app(), Directory("/etc/new"), KernelModule("x")])
    assert caught.value.outcome == "all changes were rolled back"
    after = machine.snapshot("/etc", "/proc")
    assert after.pop("proc/sys/kernel/panic")[0] == (b"0", 0)
    before.pop("proc/sys/kernel/panic")
    assert after == before
    assert machine.commands.times("systemctl", "restart") == 0
    assert machine.store.transaction() is None


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_an_obstacle_is_named_and_what_came_before_it_is_rolled_back(
    machine: Machine, host: Host, obstacle: str
) -> None:
    if obstacle == "file":
        machine.put("/etc/blocked", "theirs")
    else:
        machine.path("/etc/blocked").symlink_to("/nowhere")
    before = machine.snapshot("/etc")
    with pytest.raises(ForeignPath, match="something else exists"):
        run(machine, [File("/etc/first", "x"), Directory("/etc/blocked", 0o755, ours=True)])
    assert machine.snapshot("/etc") == before


def test_a_failed_gate_leaves_all_in_place_for_the_next_run(machine: Machine, host: Host) -> None:
    with pytest.raises(NodeNotReady):
        run(machine, an_app(), [Watching(refuse)])
    assert machine.text("/etc/app/config") == "one"
    assert machine.commands.units[APP] == "active"
    assert machine.store.transaction() is not None
    machine.commands.calls.clear()
    plan, _ = run(machine, an_app())
    assert (plan.changed, machine.commands.changing()) == (False, [])


def test_a_failed_gate_of_an_update_rolls_back_and_restarts(machine: Machine, host: Host) -> None:
    run(machine, an_app("one"))
    before = machine.snapshot("/etc", "/opt", "/usr")
    machine.commands.calls.clear()
    with pytest.raises(NodeNotReady):
        run(machine, an_app("two"), [Watching(refuse)], around=RETURNS)
    assert machine.snapshot("/etc", "/opt", "/usr") == before
    assert machine.commands.times("systemctl", "restart", APP) == 2
    assert machine.store.transaction() is None
    plan, _ = run(machine, an_app("one"))
    assert not plan.changed


def test_a_rollback_never_empties_a_directory(machine: Machine, host: Host) -> None:
    def pod_starts_then_gate_fails() -> None:
        machine.put("/etc/pods/pod", "alive")
        refuse()

    gate = Watching(pod_starts_then_gate_fails)
    with pytest.raises(NodeNotReady):
        run(machine, [Directory("/etc/pods", 0o755, ours=True)], [gate], around=RETURNS)
    assert machine.text("/etc/pods/pod") == "alive"


def test_what_a_killed_run_changed_is_no_generation_to_return_to(machine: Machine, host: Host) -> None:
    """The plug is pulled after the change, and the next run finds that it does not work."""
    run(machine, an_app("one"))
    before = machine.snapshot("/etc", "/usr")
    killed_before(machine, an_app("two"), 1)
    with pytest.raises(NodeNotReady, match="rolled back"):
        run(machine, an_app("two"), [Watching(refuse)], around=RETURNS)
    assert machine.snapshot("/etc", "/usr") == before
    assert machine.store.transaction() is None


def test_an_unreachable_api_server_is_no_reason_to_roll_back(machine: Machine, host: Host) -> None:
    def cut_off() -> None:
        raise ApiUnreachable("no answer", why="the line is cut")

    run(machine, an_app("one"))
    before = machine.snapshot("/etc", "/usr")
    with pytest.raises(ApiUnreachable, match="stays in place"):
        run(machine, an_app("two"), [Watching(cut_off)], around=RETURNS)
    assert machine.text("/etc/app/config") == "two"
    record = Record.of(machine.store.transaction())
    assert record is not None
    assert record.stage is Stage.PROVING
    with pytest.raises(NodeNotReady):  # the line is back, and the gate fails: the generation is still known
        prove(
            [Watching(refuse)],
            record,
            host,
            machine.store,
            timings=Timings(host),
            progress=print,
            around=RETURNS,
        )
    assert machine.snapshot("/etc", "/usr") == before


def test_a_rollback_goes_on_past_an_item_that_fails_and_both_errors_are_told(
    machine: Machine, host: Host
) -> None:
    run(machine, an_app("one"))
    machine.commands.calls.clear()

    def loses_what_was_kept() -> None:
        for file in machine.path(f"{DATA_DIR}/origins").iterdir():
            if file.read_bytes() == b"one":
                file.unlink()
        refuse()

    changed = [*an_app("two"), File("/etc/app/third", "new")]
    with pytest.raises(NodeNotReady, match="not Ready") as caught:
        run(machine, changed, [Watching(loses_what_was_kept)], around=RETURNS)
    assert "the rollback is not complete" in caught.value.why
    assert "is lost or damaged" in caught.value.why
    assert not machine.path("/etc/app/third").exists(), "what can be restored is restored"
    assert machine.commands.times("systemctl", "restart", APP) == 2
    record = Record.of(machine.store.transaction())
    assert record is not None
    assert record.stage is Stage.ROLLING_BACK
    machine.store.journal.keep(b"one")
    assert roll_back(record, host, machine.store, print) == []
    assert machine.text("/etc/app/config") == "one"


def test_a_repaired_program_stays(machine: Machine, host: Host) -> None:
    """Its path contains its digest. A rollback that removed it would stop the kubelet's exec plugin."""
    program = Program(AGENT_DIR, {"run": b"x"}, "run")
    link = Link("/usr/bin/run", f"{program.path}/run")
    run(machine, [*an_app("one"), program, link])
    machine.path(f"{program.path}/run").write_bytes(b"damaged")
    with pytest.raises(NodeNotReady):
        run(machine, [*an_app("two"), program, link], [Watching(refuse)], around=RETURNS)
    assert machine.path(f"{program.path}/run").exists()
    assert machine.path(f"{program.path}/run").read_bytes() == b"x"


def test_other_bytes_of_the_same_version_leave_the_old_ones(machine: Machine, host: Host) -> None:
    """A mirror's own build, for example. The links lead back to what ran before."""
    old = a_tree()
    new_artifact = replace(old.artifact, sha256="0" * 64)
    new = replace(old, path=place_of(new_artifact), artifact=new_artifact)
    run(machine, [old, Link("/usr/bin/tool", f"{old.path}/tool")])
    with pytest.raises(NodeNotReady):
        run(machine, [new, Link("/usr/bin/tool", f"{new.path}/tool")], [Watching(refuse)], around=RETURNS)
    assert (old.observe(host), machine.host.stat("/usr/bin/tool").target) == ("complete", f"{old.path}/tool")


def test_a_unit_that_did_not_run_before_is_stopped(machine: Machine, host: Host) -> None:
    run(machine, an_app("one"))
    side = File("/etc/systemd/system/side.service", "[Service]\n", restarts=(SIDE,))
    with pytest.raises(NodeNotReady):
        run(machine, [*an_app("one"), side, Unit(SIDE)], [Watching(refuse)], around=RETURNS)
    assert machine.commands.units[SIDE] == "inactive"
    assert machine.commands.units[APP] == "active"
    assert not machine.path("/etc/systemd/system/side.service").exists()


@dataclass(frozen=True)
class Deadly:
    """A resource whose application kills the run."""

    resource: Resource

    def __getattr__(self, name: str) -> Any:
        return getattr(self.resource, name)

    def apply(self, host: Host) -> None:
        raise Killed


def killed_before(machine: Machine, resources: Sequence[Resource], place: int) -> None:
    """Run, and die before this step is applied."""
    plan = make_plan(resources, machine.host, machine.store)
    steps = list(plan.steps)
    steps[place] = replace(steps[place], resource=Deadly(steps[place].resource))  # type: ignore[arg-type]
    deadly = replace(plan, steps=tuple(steps))
    with pytest.raises(Killed):
        execute(deadly, machine.host, machine.store, Stager(machine), [], timings=Timings(machine.host))


def killed_at_restart(machine: Machine, resources: Sequence[Resource]) -> None:
    """Run, and die when all is applied and nothing restarted."""

    def progress(sentence: str) -> None:
        if sentence.startswith("start "):
            raise Killed

    plan = make_plan(resources, machine.host, machine.store)
    with pytest.raises(Killed):
        execute(
            plan,
            machine.host,
            machine.store,
            Stager(machine),
            [],
            timings=Timings(machine.host),
            progress=progress,
        )


def test_killed_between_apply_and_restart_the_next_plan_owes_the_restart(
    machine: Machine, host: Host
) -> None:
    run(machine, an_app("one"))
    machine.commands.calls.clear()
    killed_at_restart(machine, an_app("two"))
    plan = make_plan(an_app("two"), host, machine.store)
    assert (plan.steps, plan.restarts) == ((), (APP,))
    assert plan.sentences == [f"restart {APP} (an earlier run was interrupted)"]
    run(machine, an_app("two"))
    assert machine.commands.changing() == [("systemctl", "restart", APP)]
    assert machine.store.transaction() is None
    assert not make_plan(an_app("two"), host, machine.store).changed


def test_an_owed_restart_survives_a_run_that_fails(machine: Machine, host: Host) -> None:
    run(machine, an_app("one"))
    killed_at_restart(machine, an_app("two"))
    machine.commands.statuses["modprobe"] = 1
    with pytest.raises(KernelLacks):
        run(machine, [*an_app("two"), KernelModule("x")])
    del machine.commands.statuses["modprobe"]
    machine.commands.calls.clear()
    run(machine, an_app("two"))
    assert machine.commands.times("systemctl", "restart", APP) == 1


def test_killed_anywhere_the_next_run_completes_and_all_can_be_taken_back(
    machine: Machine, host: Host
) -> None:
    machine.put("/etc/app/config", "theirs", 0o640)
    untouched = machine.snapshot("/etc", "/opt", "/usr")
    for place in range(len(make_plan(an_app(), host, machine.store).steps)):
        killed_before(machine, an_app(), place)
        run(machine, an_app())
        assert machine.commands.units[APP] == "active"
        assert not make_plan(an_app(), host, machine.store).changed
        restore_host(host, machine.store)
        assert machine.snapshot("/etc", "/opt", "/usr") == untouched, place
        machine.store.forget()


def test_killed_anywhere_what_was_done_can_be_taken_back_at_once(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", "theirs", 0o640)
    untouched = machine.snapshot("/etc", "/opt", "/usr")
    for place in range(len(make_plan(an_app(), host, machine.store).steps)):
        killed_before(machine, an_app(), place)
        clear_staging(host)
        restore_host(host, machine.store)
        restore_host(host, machine.store)
        assert machine.snapshot("/etc", "/opt", "/usr") == untouched, place
        machine.store.forget()
