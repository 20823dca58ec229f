# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a configuration no longer asks for goes, and what was there before comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import Plan, make_plan
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.transaction import Timings, execute
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import KernelLacks, NodeNotReady
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import stored_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import reconcile
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import (
    Ownership,
    Resource,
    key_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.modules import KernelModule
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from tests.unit.node.engine.an_app import RETURNS, Watching, a_tree, refuse
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import CONTAINERD, KUBECONFIG, KUBELET, Site, a_site

APP, CLOCK = "app.service", "clock.timer"
PROXY = {"proxy": {"http": "http://u:s3cret@127.0.0.1:9", "no": ["127.0.0.1"]}}
MIRROR = {"registryMirrors": {"docker.io": {"endpoints": ["https://mirror.example/hub"]}}}
BRIDGE = {"cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"}}
FILES = {
    "proxy": ("/etc/containerd/proxy.env", "/etc/systemd/system/containerd.service.d/10-proxy.conf"),
    "mirror": ("/etc/containerd/certs.d/docker.io/hosts.toml", "/etc/containerd/certs.d/docker.io"),
    "bridge": ("/etc/cni/net.d/10-flexnode.conflist",),
}


@pytest.fixture
def host(machine: Machine) -> Host:
    machine.path("/etc/systemd/system").mkdir(parents=True)
    return machine.host


def owned(resources: Sequence[Resource], *by: str) -> Ownership:
    names = frozenset(by or ("app",))
    return Ownership(names, {key_of(item): names for item in resources})


def run(machine: Machine, resources: Sequence[Resource], *by: str, gates: Any = (), **options: Any) -> Plan:
    plan = make_plan(resources, machine.host, machine.store, owned(resources, *by))
    machine.store.journal.release(plan.settled)
    if plan.changed:
        execute(plan, machine.host, machine.store, None, gates, timings=Timings(machine.host), **options)
        machine.store.finish()
    return plan


SETTING = File("/etc/app/extra/setting", "ours", restarts=(APP,))
BASE: list[Resource] = [File("/etc/app/base", "x"), Unit(APP)]


def test_what_is_not_asked_for_any_more_goes_with_its_directory_and_its_reader_notices(
    machine: Machine, host: Host
) -> None:
    before = machine.snapshot("/etc")
    run(machine, [*BASE, SETTING])
    machine.commands.calls.clear()
    plan = run(machine, BASE)
    assert plan.sentences == [
        "remove /etc/app/extra/setting (no longer in the configuration)",
        "remove directory /etc/app/extra (no longer in the configuration)",
    ]
    assert plan.diff[0]["before"] == "mode 0644, owner 0:0\nours"
    assert machine.commands.changing() == [("systemctl", "restart", APP)]
    assert not machine.path("/etc/app/extra").exists()
    assert not run(machine, BASE).changed
    restore_host(host, machine.store)
    assert machine.snapshot("/etc") == before


def test_what_was_there_before_comes_back_and_is_kept_anew_the_next_time(
    machine: Machine, host: Host
) -> None:
    machine.put("/etc/app/extra/setting", "theirs", 0o640)
    run(machine, [*BASE, SETTING])
    assert run(machine, BASE).sentences == ["restore /etc/app/extra/setting (no longer in the configuration)"]
    assert machine.text("/etc/app/extra/setting") == "theirs"
    machine.put("/etc/app/extra/setting", "theirs, newer", 0o640)
    run(machine, [*BASE, SETTING])
    assert machine.text("/etc/app/extra/setting") == "ours"
    restore_host(host, machine.store)
    assert machine.text("/etc/app/extra/setting") == "theirs, newer"


def test_what_someone_changed_since_is_left_and_told(machine: Machine, host: Host) -> None:
    run(machine, [*BASE, SETTING])
    machine.put("/etc/app/extra/setting", "edited")
    plan = run(machine, BASE)
    assert not plan.changed
    (told,) = plan.left
    assert told.startswith("file:/etc/app/extra/setting: ")
    assert machine.text("/etc/app/extra/setting") == "edited"


def test_a_secret_that_goes_is_not_shown(machine: Machine, host: Host) -> None:
    run(machine, [*BASE, File("/etc/app/password", "s3cret", 0o600, secret=True)])
    assert "s3cret" not in repr(run(machine, BASE).diff)


def test_a_directory_with_others_things_in_it_stays_until_the_end(machine: Machine, host: Host) -> None:
    ours: list[Resource] = [*BASE, Directory("/etc/app/extra", 0o755, ours=True), SETTING]
    run(machine, ours)
    machine.put("/etc/app/extra/by-a-daemon", "x")
    run(machine, BASE)
    assert host.names("/etc/app/extra") == ("by-a-daemon",)
    assert not run(machine, BASE).changed
    restore_host(host, machine.store)
    assert host.stat("/etc/app").absent


def test_versions_stay_for_a_rollback(machine: Machine, host: Host) -> None:
    tree = a_tree()
    machine.put(f"{tree.staging}/tool", "x", 0o755)
    run(machine, [*BASE, tree])
    assert not run(machine, BASE).changed
    assert machine.path(tree.path).exists()


def test_one_component_does_not_judge_what_others_asked_for(machine: Machine, host: Host) -> None:
    shared = File("/etc/shared", "x")
    run(machine, [shared], "one", "two")
    run(machine, [shared, SETTING], "one")
    assert not run(machine, [], "two").changed  # one of its owners is not asked
    assert run(machine, [], "one").sentences[0].startswith("remove /etc/app/extra/setting")
    assert machine.path("/etc/shared").exists()
    assert len(run(machine, [], "one", "two").steps) == 1
    assert not machine.path("/etc/shared").exists()


def test_items_of_nobody_are_left_alone(machine: Machine, host: Host) -> None:
    """Those of an older journal, and units that were only restarted."""
    resources = [*BASE, SETTING]
    plan = make_plan(resources, host, machine.store)
    execute(plan, host, machine.store, None, [], timings=Timings(host))
    assert not run(machine, BASE).changed


def test_an_item_of_an_unknown_kind_is_left_and_told(machine: Machine, host: Host) -> None:
    """A newer version wrote it. A run of this one goes on without it."""
    run(machine, [*BASE, SETTING])
    host.append(
        f"{DATA_DIR}/journal",
        b'{"key": "quota:/data", "mark": "x", "was": "absent", "origin": {}, "of": ["app"]}\n',
    )
    plan = run(machine, BASE)
    assert plan.sentences[0].startswith("remove /etc/app/extra/setting")
    assert plan.left == ("quota:/data: this version does not know how to restore it",)


def test_a_file_that_becomes_a_link_is_no_orphan(machine: Machine, host: Host) -> None:
    run(machine, [File("/etc/app/x", "ours")])
    assert run(machine, [Link("/etc/app/x", "/dev/null")]).sentences == ["switch /etc/app/x to /dev/null"]
    assert not run(machine, [Link("/etc/app/x", "/dev/null")]).changed


A_CLOCK: list[Resource] = [
    File("/etc/systemd/system/clock.timer", "[Timer]\n", restarts=(CLOCK,)),
    Link("/etc/systemd/system/timers.target.wants/clock.timer", "/etc/systemd/system/clock.timer"),
    Unit(CLOCK, last=True),
]


def test_a_unit_goes_before_its_files(machine: Machine, host: Host) -> None:
    run(machine, [*BASE, *A_CLOCK])
    machine.commands.calls.clear()
    plan = run(machine, BASE)
    assert [sentence.split(" (")[0] for sentence in plan.sentences] == [
        f"stop {CLOCK}",
        "remove /etc/systemd/system/timers.target.wants/clock.timer",
        "remove directory /etc/systemd/system/timers.target.wants",
        "remove /etc/systemd/system/clock.timer",
    ]
    assert machine.commands.changing() == [("systemctl", "stop", CLOCK), ("systemctl", "daemon-reload")]
    assert not run(machine, BASE).changed


def test_what_comes_last_starts_when_all_is_well(machine: Machine, host: Host) -> None:
    seen: list[str | None] = []
    gate = Watching(lambda: seen.append(machine.commands.units.get(CLOCK)))
    run(machine, [*BASE, *A_CLOCK], gates=[gate])
    assert (seen, machine.commands.units[CLOCK]) == ([None], "active")
    assert machine.commands.changing() == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "restart", APP),
        ("systemctl", "restart", CLOCK),
    ]


def test_when_it_does_not_get_well_it_is_not_started(machine: Machine, host: Host) -> None:
    with pytest.raises(NodeNotReady):
        run(machine, [*BASE, *A_CLOCK], gates=[Watching(refuse)])
    assert CLOCK not in machine.commands.units
    run(machine, [*BASE, *A_CLOCK])
    assert machine.commands.units[CLOCK] == "active"


def failing_gate(machine: Machine) -> None:
    with pytest.raises(NodeNotReady):
        run(machine, BASE, gates=[Watching(refuse)], around=RETURNS)


def failing_step(machine: Machine) -> None:
    machine.commands.statuses["modprobe"] = 1
    with pytest.raises(KernelLacks):
        run(machine, [*BASE, KernelModule("x")])


@pytest.mark.parametrize("fails", [failing_gate, failing_step])
def test_a_rollback_brings_it_back(machine: Machine, host: Host, fails: Callable[[Machine], None]) -> None:
    machine.put("/etc/app/extra/theirs", "theirs")
    resources = [*BASE, SETTING, File("/etc/app/deep/er/x", "x"), *A_CLOCK]
    run(machine, resources)
    before = machine.snapshot("/etc", times=False)
    fails(machine)
    assert machine.snapshot("/etc", times=False) == before
    assert machine.commands.units[CLOCK] == "active"
    assert not run(machine, resources).changed


# -- on a node ---------------------------------------------------------------------------------------------


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    with a_site(debian, pki) as made:
        yield made


@pytest.mark.parametrize(
    ("setting", "name", "restarts"),
    [(PROXY, "proxy", (CONTAINERD,)), (MIRROR, "mirror", ()), (BRIDGE, "bridge", ())],
)
def test_a_setting_that_is_taken_out_leaves_nothing_behind(
    site: Site, setting: dict[str, Any], name: str, restarts: tuple[str, ...]
) -> None:
    site.join()
    before = site.machine.snapshot("/etc", times=False)
    site.join(setting)
    assert all(site.machine.path(path).exists() for path in FILES[name])
    checked = site.join(check=True)
    assert {f"remove {path} (no longer in the configuration)" for path in FILES[name][:1]} <= set(
        checked.actions
    )
    assert "s3cret" not in repr(checked.plan.diff)
    site.machine.commands.calls.clear()
    site.join()
    assert site.machine.snapshot("/etc", times=False) == before
    restarted = [call for call in site.machine.commands.changing() if call[:2] == ("systemctl", "restart")]
    assert restarted == ([("systemctl", "restart", *restarts)] if restarts else [])
    assert not site.join().changed


def test_preparing_again_takes_nothing_of_the_node_away(site: Site) -> None:
    site.join(PROXY, MIRROR, BRIDGE)
    for component in ("system_config", "runtime", "kubernetes", "cni", "agent"):
        assert not reconcile(
            stored_config(site.machine.host, purpose="prepare"), [component], machine="x86_64"
        ).changed


def test_a_part_is_given_back_by_its_own_component(site: Site) -> None:
    site.join(PROXY)
    assert not site.join(components=["cni", "kubelet"]).changed
    assert site.join(components=["runtime"]).changed
    assert not site.machine.path(FILES["proxy"][0]).exists()


def test_what_is_left_is_told_by_the_run(site: Site) -> None:
    site.join(MIRROR)
    site.machine.put(FILES["mirror"][0], "edited")
    run = site.join()
    assert (run.changed, len(run.warnings)) == (False, 1)
    assert FILES["mirror"][0] in run.warnings[0]


def test_a_new_address_of_the_cluster_reaches_a_kubelet_that_has_joined(site: Site) -> None:
    site.join()
    as_written = site.machine.text(KUBECONFIG)
    moved = site.api.server.url.replace("127.0.0.1", "localhost")
    change = {"node": {"kubelet": {"serverURL": moved}}}
    site.machine.commands.calls.clear()
    run = site.join(change)
    assert f"point {KUBECONFIG} at {moved}" in run.actions
    assert f'server: "{moved}"' in site.machine.text(KUBECONFIG)
    assert ("systemctl", "restart", KUBELET) in site.machine.commands.changing()
    assert not site.join(change).changed
    site.join()  # and back again
    assert site.api.server.url in site.machine.text(KUBECONFIG)
    assert site.machine.text(KUBECONFIG) != as_written
    assert leave(site.machine.host).remains == []
    assert not site.machine.path("/var/lib/kubelet").exists()


def test_a_new_address_that_does_not_work_is_rolled_back(site: Site) -> None:
    site.join()
    before = site.machine.text(KUBECONFIG)
    site.api.nodes["edge-1"]["status"]["conditions"] = []
    moved = {"node": {"kubelet": {"serverURL": site.api.server.url.replace("127.0.0.1", "localhost")}}}
    with pytest.raises(NodeNotReady):
        site.join(moved, {"upgrade": {"gateSeconds": 10}})
    assert site.machine.text(KUBECONFIG) == before
