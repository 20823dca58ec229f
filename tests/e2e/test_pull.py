# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that run the team's own playbooks: real git over SSH, real wheels, on every platform."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed
from testbed.machine import Machine
from testbed.playbooks import ROOT, Play
from tests.e2e import fleet, following, pulling
from tests.e2e.conftest import MachineMaker
from tests.e2e.photograph import differences, photograph
from tests.e2e.pulling import PYTHONS, SERVICE, TIMER, Team
from tests.e2e.together import Said, together

NODES = {f"pull-{platform}": platform for platform in PYTHONS}
ANSIBLE = {"3.10": "2.17.", "3.11": "2.19.", "3.12": "2.21.", "3.13": "2.21."}
ROLLOUT = ROOT / "docs/examples/rollout.yaml"
KUBELET_FLAGS = "/etc/default/kubelet"
LOCAL = """- name: Our machines
  hosts: all
  gather_facts: false
  tasks:
    - name: Run our own role
      ansible.builtin.include_role:
        name: cameras
"""
RECONCILE = """    - name: Apply the stored configuration of the node
      aks.flexnode.flexnode_reconcile:
        source: stored
"""
ROLE = """- name: Write what our cameras need
  ansible.builtin.copy:
    content: "{text}\\n"
    dest: /etc/cameras.conf
    mode: "0644"
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pull")


@pytest.fixture(scope="module")
def team(machines: MachineMaker, directory: Path) -> Team:
    (server,) = machines(("pull-git", "debian12"))
    made = Team(server, directory).start()
    made.push({"README.md": "nothing to run yet\n"})
    return made


@pytest.fixture(scope="module")
def wheels(bed: Testbed) -> str:
    return pulling.publish_wheels(bed, *PYTHONS)


@pytest.fixture(scope="module")
def document(bed: Testbed) -> dict[str, Any]:
    """One for all runs: another one would have another token."""
    return fleet.join_document(bed)


def inventory_of(
    bed: Testbed,
    machines: list[Machine],
    path: Path,
    document: dict[str, Any],
    pull: dict[str, Any] | None,
    **variables: Any,
) -> Path:
    wanted = {**document, "pull": pull} if pull else document
    return fleet.write_inventory(bed, machines, path, flexnode_config=wanted, **variables)


@pytest.fixture(scope="module")
def fresh(machines: MachineMaker) -> list[Machine]:
    """Machines of all platforms without git, whose apt finds packages in a directory."""
    made = machines(*NODES.items())
    for machine in made:
        pulling.offer_packages(machine)
        assert machine.run(["which", "git"], check=False).returncode != 0
    return made


@pytest.fixture(scope="module")
def before(fresh: list[Machine]) -> dict[str, Any]:
    return {machine.name: photograph(machine) for machine in fresh}


@pytest.fixture(scope="module")
def bootstrap(
    bed: Testbed,
    fresh: list[Machine],
    before: dict[str, Any],
    team: Team,
    wheels: str,
    directory: Path,
    document: dict[str, Any],
) -> Play:
    inventory = inventory_of(bed, fresh, directory / "hosts.yml", document, team.settings(wheels))
    return fleet.succeeded(fleet.play("bootstrap", inventory))


@pytest.fixture(scope="module")
def nodes(fresh: list[Machine], bootstrap: Play) -> dict[str, Machine]:
    return {machine.platform: machine for machine in fresh}


@pytest.fixture(scope="module")
def rollouts(bed: Testbed) -> Iterator[None]:
    """Nodes may use the rollout record until they have left."""
    bed.cluster.kubectl("apply", "-f", str(ROLLOUT))
    yield
    bed.cluster.kubectl("delete", "-f", str(ROLLOUT), "--ignore-not-found")


def undisturbed(bed: Testbed, machine: Machine, pids: dict[str, str]) -> None:
    assert fleet.main_pids(machine) == pids
    assert fleet.is_ready(fleet.node(bed, machine.name))


def test_every_platform_pulls_on_its_timer_and_repairs_drift(
    bed: Testbed, nodes: dict[str, Machine], bootstrap: Play, team: Team
) -> None:
    """The default playbook: the repository has none."""
    commit = team.git("rev-parse", "HEAD")
    for platform, machine in nodes.items():
        assert pulling.pulled(machine, commit)["status"] == "Ok", pulling.journal(machine)
        version = machine.run(["/opt/aks-flex-node/ansible/bin/ansible", "--version"]).stdout
        assert f"core {ANSIBLE[PYTHONS[platform]]}" in version
        assert f"python version = {PYTHONS[platform]}." in version
        assert "PLAY RECAP" in pulling.journal(machine)
        # What belongs to root only, and no secret among the arguments of processes or in the journal.
        mode = machine.run(["stat", "--format=%a", "/var/lib/aks-flex-node/pull"]).stdout.strip()
        assert mode == "700"
        assert "PRIVATE KEY" not in pulling.journal(machine)
        right = machine.read(KUBELET_FLAGS)
        machine.run(["tee", "--append", KUBELET_FLAGS], input="# a hand-made change\n")
        fleet.eventually("the repair", partial(_reads, machine, right), 120)
        fleet.eventually("its recap", partial(_printed, machine, "changed=1"), 60)  # nothing else repaired it
        assert fleet.is_ready(fleet.node(bed, machine.name))
    assert all("aks.flexnode.flexnode_reconcile" in bootstrap.modules(name) for name in NODES)


def test_a_second_bootstrap_changes_nothing(
    bed: Testbed,
    nodes: dict[str, Machine],
    team: Team,
    wheels: str,
    directory: Path,
    document: dict[str, Any],
) -> None:
    every = list(nodes.values())
    inventory = inventory_of(bed, every, directory / "hosts.yml", document, team.settings(wheels))
    run = fleet.succeeded(fleet.play("bootstrap", inventory))
    assert {name: run.changed(name) for name in NODES} == dict.fromkeys(NODES, 0)


def test_the_role_of_the_team_runs_on_every_platform(nodes: dict[str, Machine], team: Team) -> None:
    commit = team.push({"local.yml": LOCAL, "roles/cameras/tasks/main.yml": ROLE.format(text="two cameras")})
    for machine in nodes.values():
        found = pulling.pulled(machine, commit)
        assert found["status"] == "Ok", pulling.journal(machine)
        assert machine.read("/etc/cameras.conf") == "two cameras\n"
        assert f"pull            Ok  commit {commit[:12]}" in machine.run(["aks-flex-node", "status"]).stdout


@pytest.mark.parametrize(("by", "why"), [("", "signature"), ("mallory", "not in pull.allowedSigners")])
def test_a_commit_that_nobody_allowed_signed_is_refused(
    bed: Testbed, nodes: dict[str, Machine], team: Team, by: str, why: str
) -> None:
    machine = nodes["debian12"]
    pids = fleet.main_pids(machine)
    bad = team.push({"roles/cameras/tasks/main.yml": ROLE.format(text=f"evil of {by}")}, by=by)
    found = pulling.pulled(machine, bad)
    assert (found["status"], found["code"]) == ("Refused", "FLEX-2003")
    assert why in found["message"] or "not signed" in found["message"]
    assert machine.read("/etc/cameras.conf") == "two cameras\n"
    assert "evil" not in machine.read("/var/lib/aks-flex-node/pull/checkout/roles/cameras/tasks/main.yml")
    assert following.status(machine)["reason"] == "FLEX-2003"
    undisturbed(bed, machine, pids)
    team.git("reset", "--quiet", "--hard", "HEAD~1")
    good = team.commit()
    assert pulling.pulled(machine, good)["status"] == "Ok"


def test_a_repository_that_is_away_empty_or_broken_leaves_the_node_alone(
    bed: Testbed, nodes: dict[str, Machine], team: Team
) -> None:
    machine = nodes["ubuntu2204"]
    pids = fleet.main_pids(machine)
    good = team.git("rev-parse", "HEAD")
    pulling.pulled(machine, good)
    team.serve(away=True)
    found = fleet.eventually("the reason", lambda: _with_code(machine, "FLEX-2001"), 90)
    assert found["lastGood"]["commit"] == good
    runs = pulling.journal(machine).count("PLAY RECAP")
    team.server.run(["git", "init", "--quiet", "--bare", pulling.PLACE])
    team.server.run(["chown", "--recursive", f"{team.server.ssh_user}:", pulling.PLACE])
    assert fleet.eventually("the reason", lambda: _with_code(machine, "FLEX-2002"), 90)
    assert pulling.journal(machine).count("PLAY RECAP") == runs
    undisturbed(bed, machine, pids)
    team.server.run(["rm", "-rf", pulling.PLACE])
    team.serve()
    broken = team.push({"local.yml": "this: [is no playbook\n"})
    assert pulling.pulled(machine, broken)["code"] == "FLEX-2004"
    undisturbed(bed, machine, pids)
    assert "FLEX-2004" in machine.run(["aks-flex-node", "status"], check=False).stdout
    team.push({"local.yml": LOCAL})


def test_an_older_signed_commit_is_not_run_again(nodes: dict[str, Machine], team: Team) -> None:
    """A server in wrong hands offers what was signed once; a team that means it pushes a revert."""
    machine = nodes["debian12"]
    runs = team.push({"roles/cameras/tasks/main.yml": ROLE.format(text="three cameras")})
    assert pulling.pulled(machine, runs)["status"] == "Ok"
    older = team.git("rev-parse", "HEAD~1")
    team.git("push", "--quiet", "--force", "origin", f"{older}:main")
    found = pulling.pulled(machine, older)
    assert (found["status"], found["code"]) == ("Refused", "FLEX-2007")
    assert machine.read("/etc/cameras.conf") == "three cameras\n"
    team.git("push", "--quiet", "origin", "HEAD:main")
    assert pulling.pulled(machine, runs)["status"] == "Ok"
    revert = team.push({"roles/cameras/tasks/main.yml": ROLE.format(text="two cameras")})
    assert pulling.pulled(machine, revert)["status"] == "Ok"
    assert machine.read("/etc/cameras.conf") == "two cameras\n"


def _printed(machine: Machine, text: str) -> bool:
    return text in pulling.journal(machine)


def _reads(machine: Machine, text: str) -> bool:
    return machine.read(KUBELET_FLAGS) == text


def _with_code(machine: Machine, code: str) -> dict[str, Any] | None:
    found = pulling.status(machine)
    return found if found.get("code") == code else None


def test_a_newer_release_of_this_collection_arrives_and_a_broken_one_does_not(
    bed: Testbed, nodes: dict[str, Machine], team: Team
) -> None:
    machine = nodes["debian13"]
    pids = fleet.main_pids(machine)
    pulling.vendor(team, "0.1.1")
    commit = team.push({"local.yml": LOCAL + RECONCILE})
    assert pulling.pulled(machine, commit, 240)["status"] == "Ok", pulling.journal(machine)
    assert machine.run(["aks-flex-node", "version"]).stdout.strip() == "0.1.1"
    undisturbed(bed, machine, pids)
    # A release whose installed command can't plan on the machine.
    pulling.vendor(team, "0.1.2")
    commands = "collections/ansible_collections/aks/flexnode/plugins/module_utils/node/commands/node.py"
    text = (team.work / commands).read_text()
    broken = text.replace(
        "def plan(options: argparse.Namespace, host: Host) -> int:\n",
        "def plan(options: argparse.Namespace, host: Host) -> int:\n    raise OSError('a bug')\n",
    )
    assert broken != text
    commit = team.push({commands: broken})
    found = pulling.pulled(machine, commit, 240)
    assert (found["status"], found["code"]) == ("Failed", "FLEX-2004")
    assert "FLEX-1405" in found["message"]
    assert machine.run(["aks-flex-node", "version"]).stdout.strip() == "0.1.1"
    undisturbed(bed, machine, pids)
    # And an older one neither replaces the newer command nor fails.
    pulling.vendor(team, "0.1.0")
    commit = team.commit()
    assert pulling.pulled(machine, commit, 240)["status"] == "Ok", pulling.journal(machine)
    assert machine.run(["aks-flex-node", "version"]).stdout.strip() == "0.1.1"


def test_push_pull_and_poll_at_once_twenty_times(
    bed: Testbed,
    nodes: dict[str, Machine],
    team: Team,
    wheels: str,
    directory: Path,
    document: dict[str, Any],
) -> None:
    """One works, the others wait or name it; nothing is half-done. All three take part in every round."""
    machine = nodes["ubuntu2404"]
    for node in nodes.values():  # the others only keep the processors busy
        node.run(["systemctl", "stop", TIMER])
    fleet.eventually("the end of all runs", lambda: not any(map(_runs, nodes.values())), 120)
    inventory = inventory_of(bed, [machine], directory / "busy.yml", document, team.settings(wheels))

    def by_hand(*argv: str) -> Said:
        done = machine.run(["aks-flex-node", *argv], check=False, timeout=300)
        return Said(argv[0], done.returncode, done.stdout + done.stderr)

    def push() -> Said:
        done = fleet.play("bootstrap", inventory)
        return Said("push", done.status, done.output)

    for number in range(20):
        machine.run(["tee", "--append", KUBELET_FLAGS], input=f"# change {number}\n")
        said = together(push, partial(by_hand, "pull"), partial(by_hand, "poll", "--drift"))
        assert {one.who for one in said} == {"push", "pull", "poll"}
        assert any(one.status == 0 for one in said if one.who != "poll"), said
        for one in said:
            assert one.status == 0 or "FLEX-1401" in one.output, one
            if one.status:
                named = ("holds the operation lease", "another ansible-pull")
                assert any(words in one.output for words in named), one
        assert f"# change {number}" not in machine.read(KUBELET_FLAGS)
    assert machine.run(["aks-flex-node", "plan"]).stdout.strip() == "nothing to do"
    assert machine.run(["ls", "/var/lib/aks-flex-node/transaction.json"], check=False).returncode != 0
    assert fleet.is_ready(fleet.node(bed, machine.name))
    for node in nodes.values():
        node.run(["systemctl", "start", TIMER])


def test_a_pull_names_the_push_that_waits_for_its_turn(
    bed: Testbed,
    nodes: dict[str, Machine],
    team: Team,
    wheels: str,
    directory: Path,
    document: dict[str, Any],
    rollouts: None,
) -> None:
    """A push keeps the machine while it waits for other nodes; the run after that one works again."""
    machine = nodes["ubuntu2204"]
    upgrade = {"maxUnavailable": 1, "waitSeconds": 90}
    document = {**document, "pull": team.settings(wheels), "upgrade": upgrade}

    def push(**kubelet: Any) -> Play:
        node = {**document["node"], "kubelet": {**document["node"]["kubelet"], **kubelet}}
        inventory = fleet.write_inventory(
            bed, [machine], directory / "turn.yml", flexnode_config={**document, "node": node}
        )
        return fleet.play("update", inventory)

    fleet.succeeded(push())
    held = {"since": "2026-01-01T00:00:00+00:00", "rollout": "", "what": "repair"}
    record = {"schema": 1, "nodes": {}, "holders": {"pull-elsewhere": held}, "rollouts": {}}
    place = ("configmap", "flexnode-rollout", "-n", "kube-system")

    def put(record: dict[str, Any]) -> None:
        patch = {"data": {"rollout.json": json.dumps(record)}}
        bed.cluster.kubectl("patch", *place, "--type=merge", "-p", json.dumps(patch))

    put(record)
    pids = fleet.main_pids(machine)
    with ThreadPoolExecutor(1) as pool:
        pushed = pool.submit(push, verbosity=3)
        found = fleet.eventually("a pull that met it", lambda: _with_code(machine, "FLEX-2004"), 150)
        run = pushed.result()
    assert "FLEX-1401" in found["message"]
    assert "Ansible (process " in found["message"]
    assert run.status != 0
    assert "FLEX-1522" in run.output
    assert "pull-elsewhere" in run.output
    undisturbed(bed, machine, pids)
    put({**record, "holders": {}})
    fleet.eventually("a pull that works", lambda: pulling.status(machine)["status"] == "Ok", 150)


def _runs(machine: Machine) -> bool:
    state = machine.run(["systemctl", "show", "--property=ActiveState", "--value", SERVICE]).stdout.strip()
    return state not in ("inactive", "failed")


def test_without_a_repository_it_is_removed_and_unbootstrap_leaves_no_trace(
    bed: Testbed,
    nodes: dict[str, Machine],
    before: dict[str, Any],
    directory: Path,
    document: dict[str, Any],
) -> None:
    machine = nodes["debian12"]
    inventory = inventory_of(bed, [machine], directory / "without.yml", document, None)
    fleet.succeeded(fleet.play("update", inventory))
    for path in ("/opt/aks-flex-node/ansible", f"/etc/systemd/system/{TIMER}", "/usr/bin/git"):
        assert machine.run(["ls", path], check=False).returncode != 0, path
    everything = inventory_of(bed, list(nodes.values()), directory / "all.yml", document, None)
    fleet.succeeded(fleet.play("unbootstrap", everything))
    for machine in nodes.values():
        changes = differences(before[machine.name], photograph(machine))
        # What the team's own role wrote is the team's; dpkg, apt and ldconfig keep records of their own.
        others = ("cameras", "/var/lib/dpkg", "/var/lib/apt", "/etc/ld.so.cache")
        assert [line for line in changes if not any(word in line for word in others)] == []
        assert not machine.run(["ls", "/usr/bin/git"], check=False).stdout


@pytest.fixture(scope="module")
def offline(machines: MachineMaker) -> Machine:
    (machine,) = machines(("pull-offline", "debian12"))
    pulling.offer_packages(machine)
    return machine


def test_a_machine_without_an_index_gets_its_wheels_from_the_controller(
    bed: Testbed, offline: Machine, team: Team, directory: Path, document: dict[str, Any]
) -> None:
    machine = offline
    settings = team.settings("https://127.0.0.1:9/nothing-here")
    wheelhouse = directory / "wheelhouse"
    inventory = inventory_of(bed, [machine], directory / "offline.yml", document, settings)
    run = fleet.succeeded(fleet.play("bootstrap", inventory))
    assert "FLEX-1201" in run.output  # a warning: the node is Ready without it
    assert fleet.is_ready(fleet.node(bed, machine.name))
    assert pulling.status(machine)["status"] == "NotInstalled"
    inventory = inventory_of(
        bed,
        [machine],
        directory / "offline.yml",
        document,
        settings,
        flexnode_pull_wheelhouse=str(wheelhouse),
    )
    start = time.monotonic()
    fleet.succeeded(fleet.play("bootstrap", inventory))
    commit = team.git("rev-parse", "HEAD")
    assert pulling.pulled(machine, commit)["status"] == "Ok", (
        pulling.journal(machine),
        time.monotonic() - start,
    )


def test_packages_that_others_need_by_now_stay(offline: Machine, directory: Path) -> None:
    """On the machine of the test before git came with this collection; something was installed since."""
    machine = offline
    pulling.install_package_that_needs(machine, "git", directory)
    said = machine.run(["aks-flex-node", "unbootstrap"], check=False)
    assert "package git (needed by now by needs-git)" in said.stdout + said.stderr
    assert machine.run(["git", "--version"]).stdout.startswith("git version")
    assert machine.run(["ls", "/opt/aks-flex-node"], check=False).returncode != 0
