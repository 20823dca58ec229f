# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The engine: plans, one transaction, one restart, rollback, crash recovery, and the way back."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.fetch import clear_staging
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.transaction import (
    Gate,
    Plan,
    Timings,
    execute,
    make_plan,
    take_back,
    with_parents,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArtifactUnreachable,
    FlexNodeError,
    ForeignPath,
    KernelLacks,
    NodeNotReady,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import version_dir
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource, key_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel import KernelModule, Sysctl
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Manifest, Tree
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from tests.unit.node.fakes import Machine

APP, SIDE = "app.service", "side.service"
UNIT_FILE = "/etc/systemd/system/app.service"


class Killed(BaseException):
    """kill -9, as near as a test can get: nothing catches it."""


@dataclass
class Stager:
    """Stands in for the fetcher; `fails` is what it raises."""

    machine: Machine
    fails: FlexNodeError | None = None
    calls_before: list[tuple[str, ...]] = field(default_factory=list)

    def stage(self, trees: Iterable[Tree]) -> None:
        self.calls_before = self.machine.commands.changing()
        if self.fails:
            raise self.fails
        for tree in trees:
            for _, name in tree.members:
                self.machine.put(f"{tree.staging}/{name}", name, 0o755)
            digests = {name: self.machine.host.sha256(f"{tree.staging}/{name}") for _, name in tree.members}
            Manifest.write(self.machine.host, tree.staging, tree.artifact.sha256, digests)


@dataclass
class Watching:
    """A gate that does what it is told."""

    act: Callable[[], None]

    def pass_(self, host: Host) -> None:
        self.act()


def refuse() -> None:
    raise NodeNotReady("not Ready")


def run(
    machine: Machine, resources: Sequence[Resource], gates: Sequence[Gate] = (), **options: Any
) -> tuple[Plan, list[str]]:
    """Plan and execute."""
    told: list[str] = []
    plan = make_plan(resources, machine.host, machine.store)
    if plan.changed:
        stager = options.pop("stager", None) or Stager(machine)
        timings = Timings(machine.host)
        execute(
            plan, machine.host, machine.store, stager, gates, timings=timings, tell=told.append, **options
        )
    return plan, told


def a_tree(name: str = "tool") -> Tree:
    artifact = Artifact(name, "1.0.0", "amd64", f"https://x.example/{name}", name[0] * 64, "binary")
    return Tree(version_dir(name, "1.0.0"), artifact, (("", name),))


def an_app(content: str = "one") -> list[Resource]:
    """A program with its link, its file, its unit, and something beside it."""
    return [
        Directory("/opt", 0o755, ours=True),
        a_tree(),
        Link("/usr/bin/tool", f"{version_dir('tool', '1.0.0')}/tool", (APP,)),
        File("/etc/app/config", content, restarts=(APP,)),
        File("/etc/app/second", content, restarts=(APP,)),
        File(UNIT_FILE, "[Service]\nExecStart=/usr/bin/tool\n", restarts=(APP,)),
        Unit(APP),
    ]


@pytest.fixture
def host(machine: Machine) -> Host:
    machine.path("/etc/systemd/system").mkdir(parents=True)
    return machine.host


# -- plans -------------------------------------------------------------------------------------------------


def test_what_is_so_makes_an_empty_plan_and_looking_changes_nothing(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", "one")
    before = machine.snapshot("/")
    plan = make_plan([File("/etc/app/config", "one")], host, machine.store)
    assert (plan.changed, plan.sentences, plan.diff, plan.trees) == (False, [], [], [])
    assert machine.snapshot("/") == before
    assert machine.commands.changing() == []


def test_a_second_run_has_nothing_to_do_and_restarts_nothing(machine: Machine, host: Host) -> None:
    run(machine, an_app())
    calls = machine.commands.changing()
    state = machine.snapshot("/")
    plan, told = run(machine, an_app())
    assert (plan.changed, told) == (False, [])
    assert machine.commands.changing() == calls
    assert machine.snapshot("/") == state


def test_a_plan_reads_in_the_order_it_is_done(machine: Machine, host: Host) -> None:
    plan = make_plan(an_app(), host, machine.store)
    assert plan.sentences == [
        "create directory /opt",
        "create directory /opt/aks-flex-node",
        "create directory /opt/aks-flex-node/versions",
        "create directory /opt/aks-flex-node/versions/tool",
        "install tool 1.0.0",
        "create directory /usr",
        "create directory /usr/bin",
        "link /usr/bin/tool to /opt/aks-flex-node/versions/tool/1.0.0/tool",
        "create directory /etc/app",
        "create /etc/app/config",
        "create /etc/app/second",
        f"create {UNIT_FILE}",
        f"start {APP}",
    ]
    assert [tree.name for tree in plan.trees] == [version_dir("tool", "1.0.0")]
    assert plan.diff[9] == {
        "before_header": "file:/etc/app/config",
        "after_header": "file:/etc/app/config",
        "before": "",
        "after": "mode 0644, owner 0:0\none",
    }


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
RESOURCES = st.lists(
    PATHS.map(Directory) | PATHS.map(lambda path: File(path + "/file", "x")) | st.just(KernelModule("m")),
    unique_by=key_of,
)


@given(RESOURCES)
def test_every_parent_comes_before_its_first_child_and_nothing_twice(resources: list[Resource]) -> None:
    listed = with_parents(resources)
    names = [resource.name for resource in listed]
    assert len({key_of(resource) for resource in listed}) == len(listed)
    assert [resource for resource in listed if not isinstance(resource, Directory)] == [
        resource for resource in resources if not isinstance(resource, Directory)
    ]
    assert set(resources) <= set(listed)  # those given are kept, with their modes
    for place, name in enumerate(names):
        parent = posixpath.dirname(name)
        assert not name.startswith("/") or parent == "/" or parent in names[:place]


# -- carrying out ------------------------------------------------------------------------------------------


def test_preparing_a_machine_starts_nothing(machine: Machine, host: Host) -> None:
    run(machine, [item for item in an_app() if not isinstance(item, Unit)])
    assert machine.commands.changing() == [("systemctl", "daemon-reload")]
    assert machine.commands.units == {}


def test_a_join_reloads_and_starts_once(machine: Machine, host: Host) -> None:
    _, told = run(machine, an_app())
    assert machine.commands.changing() == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "restart", APP),
    ]
    assert told == [
        "fetch tool 1.0.0",
        "apply 13 change(s)",
        f"start {APP}",
        "wait until all is well",
    ]
    assert machine.store.transaction() is None


def test_several_changed_files_restart_a_running_unit_once_in_order(machine: Machine, host: Host) -> None:
    run(machine, [*an_app(), Unit(SIDE)])
    machine.commands.calls.clear()
    both = File("/etc/side", "x", restarts=(SIDE, APP))
    run(machine, [*an_app("two"), both, Unit(SIDE)])
    assert machine.commands.changing() == [("systemctl", "restart", APP, SIDE)]


def test_only_a_unit_file_asks_for_a_reload(machine: Machine, host: Host) -> None:
    run(machine, an_app())
    machine.commands.calls.clear()
    run(machine, [File("/etc/other", "x"), File("/etc/systemd/system/app.service.d/10.conf", "[Service]\n")])
    assert machine.commands.changing() == [("systemctl", "daemon-reload")]
    machine.commands.calls.clear()
    run(machine, [File("/etc/other", "y")])
    assert machine.commands.changing() == []


def test_nothing_is_stopped_or_written_before_everything_is_staged(machine: Machine, host: Host) -> None:
    machine.commands.units[APP] = "active"
    before = machine.snapshot("/etc", "/opt", "/usr")
    stager = Stager(machine, fails=ArtifactUnreachable("no such mirror"))
    with pytest.raises(ArtifactUnreachable):
        run(machine, an_app(), stager=stager)
    assert machine.commands.changing() == []
    assert machine.snapshot("/etc", "/opt", "/usr") == before
    assert machine.store.transaction() is None
    stager = Stager(machine)
    run(machine, an_app(), stager=stager)
    assert stager.calls_before == []


def test_seconds_of_every_part_are_kept(machine: Machine, host: Host) -> None:
    timings = Timings(host)
    plan = make_plan(an_app(), host, machine.store)
    gate = Watching(lambda: machine.clock.sleep(1.5))
    execute(plan, host, machine.store, Stager(machine), [gate], timings=timings)
    assert timings.seconds == {"fetch": 0.0, "apply": 0.0, "start": 0.0, "gate": 1.5}


# -- when it goes wrong ------------------------------------------------------------------------------------


def test_a_failure_in_the_middle_rolls_back_to_the_byte(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", b"theirs \xff", 0o751)
    machine.put("/etc/app/second", "theirs")
    machine.put("/proc/sys/kernel/panic", "0\n")
    before = machine.snapshot("/etc", "/proc")
    machine.commands.statuses["modprobe"] = 1
    with pytest.raises(KernelLacks) as caught:
        run(machine, [Sysctl("kernel.panic", "10"), *an_app(), Directory("/etc/new"), KernelModule("x")])
    assert "what had been changed is as it was" in caught.value.why
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
    with pytest.raises(ForeignPath, match="in the way"):
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
        run(machine, an_app("two"), [Watching(refuse)], roll_back=True)
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
        run(machine, [Directory("/etc/pods", 0o755, ours=True)], [gate], roll_back=True)
    assert machine.text("/etc/pods/pod") == "alive"


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

    def tell(sentence: str) -> None:
        if sentence.startswith("start "):
            raise Killed

    plan = make_plan(resources, machine.host, machine.store)
    with pytest.raises(Killed):
        execute(
            plan, machine.host, machine.store, Stager(machine), [], timings=Timings(machine.host), tell=tell
        )


def test_killed_between_apply_and_restart_the_next_plan_owes_the_restart(
    machine: Machine, host: Host
) -> None:
    run(machine, an_app("one"))
    machine.commands.calls.clear()
    killed_at_restart(machine, an_app("two"))
    plan = make_plan(an_app("two"), host, machine.store)
    assert (plan.steps, plan.restarts) == ((), (APP,))
    assert plan.sentences == [f"restart {APP} (an earlier run was cut off)"]
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
        take_back(host, machine.store)
        assert machine.snapshot("/etc", "/opt", "/usr") == untouched, place
        machine.store.forget()


def test_killed_anywhere_what_was_done_can_be_taken_back_at_once(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", "theirs", 0o640)
    untouched = machine.snapshot("/etc", "/opt", "/usr")
    for place in range(len(make_plan(an_app(), host, machine.store).steps)):
        killed_before(machine, an_app(), place)
        clear_staging(host)
        take_back(host, machine.store)
        take_back(host, machine.store)
        assert machine.snapshot("/etc", "/opt", "/usr") == untouched, place
        machine.store.forget()


# -- the way back ------------------------------------------------------------------------------------------


def test_items_are_taken_back_in_reverse_and_a_second_time_nothing_is_left(
    machine: Machine, host: Host
) -> None:
    untouched = machine.snapshot("/etc", "/opt", "/usr")
    run(machine, an_app())
    told: list[str] = []
    taken = take_back(host, machine.store, told.append)
    assert [item.key for item in taken][:3] == [f"unit:{APP}", f"file:{UNIT_FILE}", "file:/etc/app/second"]
    assert taken[-1].key == "directory:/opt"
    assert {item.outcome for item in taken} == {"removed", "restored"}
    assert told[0] == f"restore {APP}"
    assert machine.commands.units[APP] == "inactive"
    assert machine.commands.changing()[-1] == ("systemctl", "daemon-reload")
    assert machine.snapshot("/etc", "/opt", "/usr") == untouched
    before = machine.commands.times("systemctl", "stop")
    assert [item for item in take_back(host, machine.store) if not item.key.startswith("directory:")] == []
    assert machine.commands.times("systemctl", "stop") == before


def test_a_unit_that_ran_before_us_runs_again_with_its_own_files(machine: Machine, host: Host) -> None:
    machine.put(UNIT_FILE, "[Service]\nExecStart=/usr/bin/theirs\n")
    machine.commands.units[APP] = "active"
    run(machine, an_app())
    machine.commands.calls.clear()
    seen: list[str] = []
    machine.commands.on_start[APP] = lambda: seen.append(machine.text(UNIT_FILE))
    take_back(host, machine.store)
    assert machine.commands.changing() == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "restart", APP),
    ]
    assert seen == ["[Service]\nExecStart=/usr/bin/theirs\n"]
    assert machine.commands.units[APP] == "active"


@pytest.mark.parametrize("mode", [None, 0o755])
def test_a_directory_of_ours_that_was_already_there_is_cleaned_too(
    machine: Machine, host: Host, mode: int | None
) -> None:
    machine.put("/etc/app/theirs", "keep me")
    before = machine.snapshot("/etc")
    resources: list[Resource] = [Directory("/etc/app", mode, ours=True), File("/etc/app/config", "x")]
    run(machine, resources)
    machine.put("/etc/app/made-by-a-daemon/deep", "x")
    take_back(host, machine.store)
    assert machine.snapshot("/etc") == before


def test_a_lost_original_is_reported_and_the_rest_goes_on(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", "theirs")
    run(machine, an_app())
    machine.host.remove_tree("/var/lib/aks-flex-node/origins")
    left = [item for item in take_back(host, machine.store) if item.outcome == "failed"]
    assert [item.key for item in left] == ["file:/etc/app/config"]
    assert "lost or damaged" in left[0].why
    assert machine.text("/etc/app/config") == "one"
    assert not machine.path(UNIT_FILE).exists()
