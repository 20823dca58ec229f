# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ansible-pull is installed after the node works, in a transaction of its own, and removed again."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue import wheels
from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.quick import looks_wrong
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import DriftRecord
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArtifactUnreachable,
    NotInCatalogue,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import stored_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull import install as pull_install
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.errors import PullNotPossible
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.install import (
    check_schedule,
    install,
    install_after,
    is_pending,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.package import Package
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.reasons import Verdict, verdict_of
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import DPKG, PYTHON, WHEEL_DIR, Apt, packages_of, real_host, small_wheels
from tests.unit.node.sites import Killed, Site, also, killed_at

REPOSITORY = "https://git.example/team.git"
ANSIBLE = "/opt/aks-flex-node/ansible"
VERSIONS = "/opt/aks-flex-node/versions"
TIMER = "aks-flex-node-pull.timer"
UNITS = "/etc/systemd/system"


def pulls(**settings: Any) -> dict[str, Any]:
    return {"pull": {"repository": REPOSITORY, "wheels": WHEEL_DIR, **settings}}


@pytest.fixture
def node(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    machine = site.machine
    vars(machine.commands)["_env"] = packages_of(machine)
    machine.put("/etc/ssl/certs/ca-certificates.crt", "")
    machine.put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    machine.put(f"/usr/bin/python{PYTHON}", "", 0o755)
    machine.path("/usr/bin/python3").symlink_to(f"python{PYTHON}")
    monkeypatch.setattr(wheels, "TABLE", small_wheels(machine))
    return site


def installed(node: Site) -> None:
    install(stored_config(node.machine.host), machine="x86_64")


def store_of(machine: Machine) -> Store:
    return Store(machine.host)


def test_a_join_does_not_wait_for_it(node: Site) -> None:
    run = node.join(pulls())
    assert run.node["ready"]
    assert not node.machine.path(ANSIBLE).exists()
    assert is_pending(stored_config(node.machine.host))


def test_it_is_a_venv_of_verified_wheels_with_a_timer(node: Site) -> None:
    node.join(pulls(schedule="daily", spreadSeconds=60))
    installed(node)
    machine = node.machine
    listed = machine.text(f"{ANSIBLE}/lib/python{PYTHON}/site-packages/aks-flex-node.pth").splitlines()
    assert [line.split("/")[4] for line in listed] == ["ansible-core", "jinja2"]
    assert machine.path(f"{listed[0]}/ansible_core/__init__.py").exists()
    assert machine.path(f"{ANSIBLE}/bin/python3").readlink().as_posix() == "/usr/bin/python3"
    assert machine.text(f"{ANSIBLE}/bin/ansible-pull").startswith(f"#!{ANSIBLE}/bin/python3 -Iu\n")
    timer = machine.text(f"{UNITS}/{TIMER}")
    assert "OnCalendar=daily\n" in timer
    assert "RandomizedDelaySec=60\nFixedRandomDelay=yes\n" in timer
    assert machine.commands.units[TIMER] == "active"
    assert machine.path("/usr/bin/git").exists()
    assert not is_pending(stored_config(machine.host))
    assert status_of(machine.host)["pull"] == {"status": "NotRun"}
    assert not install(stored_config(machine.host), machine="x86_64").changed


def test_uninstall_removes_all_of_it_with_the_packages_that_came(node: Site) -> None:
    before = node.machine.snapshot("/usr", "/opt", "/etc/cron.d")
    node.join(pulls())
    installed(node)
    node.machine.put("/var/lib/aks-flex-node/pull/checkout/local.yml", "[]")
    report = leave(node.machine.host, drain_seconds=0)
    assert report.remains == []
    assert node.machine.snapshot("/usr", "/opt", "/etc/cron.d") == before
    assert not node.machine.path("/var/lib/aks-flex-node").exists()
    assert ("systemctl", "stop", TIMER) in node.machine.commands.calls


HOLDER = """
import fcntl, os, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(f"{os.getpid()}\\n")
file.flush()
print("locked", flush=True)
time.sleep(300)
"""


def test_uninstall_ends_a_pull_that_was_started_by_hand(node: Site) -> None:
    """It would go on with its playbook, and write its result into a directory that is gone."""
    node.join(pulls())
    installed(node)
    lock = node.machine.path("/run/aks-flex-node/pull.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    node.machine.clock.then = lambda: time.sleep(0.02)
    argv = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"locked\n"
            assert leave(node.machine.host, drain_seconds=0).remains == []
            assert holder.wait(10) == -signal.SIGTERM
        finally:
            holder.kill()


def test_a_playbook_of_a_pull_that_uninstalls_is_not_ended(node: Site) -> None:
    node.join(pulls())
    installed(node)
    pull, above = 1 << 23, os.getppid()  # this process is a task of that pull; no process has such an id
    node.machine.put(f"/proc/{above}/stat", f"{above} (a (b) c) S {pull} 1 1\n")
    node.machine.put("/run/aks-flex-node/pull.lock", f"{pull}\n")
    with node.machine.path("/run/aks-flex-node/pull.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert leave(node.machine.host, drain_seconds=0).remains == []


def test_a_git_that_was_there_before_stays(node: Site) -> None:
    node.machine.put("/usr/bin/git", "", 0o755)
    node.join(pulls())
    installed(node)
    assert node.machine.commands.times("env") == 0
    leave(node.machine.host, drain_seconds=0)
    assert node.machine.path("/usr/bin/git").exists()


def test_a_repository_that_is_no_longer_configured_is_removed_with_its_data(node: Site) -> None:
    node.join(pulls())
    installed(node)
    store_of(node.machine).set_pulled({"outcome": "ok"})
    node.machine.put("/opt/aks-flex-node/wheels/jinja2.whl", "")  # by the role `pull`
    node.join()
    obtained = stored_config(node.machine.host)
    assert is_pending(obtained)
    installed(node)
    gone = (ANSIBLE, f"{UNITS}/{TIMER}", "/usr/bin/git", "/var/lib/aks-flex-node/pull.json")
    for path in (*gone, "/opt/aks-flex-node/wheels"):
        assert not node.machine.path(path).exists(), path
    assert not node.machine.path(f"{VERSIONS}/jinja2").exists()
    assert status_of(node.machine.host)["drift"] == []
    assert node.machine.path(f"{VERSIONS}/kubelet").exists()
    assert not is_pending(stored_config(node.machine.host))


DATA = "/var/lib/aks-flex-node"
LEFT = (f"{DATA}/pull", f"{DATA}/pull.json", "/opt/aks-flex-node/wheels")


def test_an_installation_that_never_worked_leaves_nothing_when_it_is_no_longer_wanted(node: Site) -> None:
    """No cron on this machine, so that the venv, by which an installation is recognised, was never made."""
    machine = node.machine
    node.join(pulls(scheduler="cron"))
    machine.put("/opt/aks-flex-node/wheels/jinja2.whl", "")  # by the role `pull`
    assert "FLEX-2006" in install_after(stored_config(machine.host), machine="x86_64")[0]
    node.join()
    assert status_of(machine.host)["drift"] == [], "nothing is to be installed any more"
    assert is_pending(stored_config(machine.host)), "so that a playbook removes what is left"
    would = install(stored_config(machine.host), check=True)
    assert machine.path(f"{DATA}/pull.json").exists()
    done = install(stored_config(machine.host), machine="x86_64")
    assert would.actions == done.actions == ["remove /opt/aks-flex-node/wheels", f"remove {DATA}/pull.json"]
    assert not any(machine.path(path).exists() for path in LEFT)
    assert not is_pending(stored_config(machine.host))
    assert not install(stored_config(machine.host), machine="x86_64").changed


def test_a_failed_installation_is_no_drift_without_a_repository(node: Site) -> None:
    """Otherwise each check repairs nothing, and reports it as contended after three of them."""
    machine = node.machine
    node.join(pulls(scheduler="cron"))
    assert install_after(stored_config(machine.host), machine="x86_64")
    node.join()
    for _check in range(4):
        assert main(["poll", "--drift"], machine.host) == 0
        machine.clock.time += 60
        assert DriftRecord.of(machine.store).items == ()


def test_a_removal_that_fails_is_one_item_of_drift_and_is_tried_again(node: Site) -> None:
    machine = node.machine
    node.join(pulls())
    installed(node)
    node.join()
    machine.commands.statuses["env"] = 100  # apt-get
    assert install_after(stored_config(machine.host), machine="x86_64")
    (found,) = status_of(machine.host)["drift"]
    assert found["item"] == "pull:install"
    assert found["what"].startswith("ansible-pull is not as configured: FLEX-")
    machine.commands.statuses.clear()
    assert main(["poll", "--drift"], machine.host) == 0
    assert status_of(machine.host)["drift"] == []
    assert not machine.path(ANSIBLE).exists()
    assert not any(machine.path(path).exists() for path in LEFT)


def test_a_removal_that_is_killed_leaves_no_credentials_and_is_completed(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when the installation is gone: no check for drift would find the rest."""
    machine = node.machine
    node.join(pulls())
    installed(node)
    machine.put(f"{DATA}/pull/ssh-key", "PRIVATE")
    store_of(machine).set_pulled({"outcome": "ok"})
    machine.put("/opt/aks-flex-node/wheels/jinja2.whl", "")
    node.join()
    with monkeypatch.context() as patched:
        patched.setattr(pull_install, "prune", killed)
        with pytest.raises(Killed):
            installed(node)
    assert not machine.path(ANSIBLE).exists()
    assert not machine.path(f"{DATA}/pull").exists()
    assert is_pending(stored_config(machine.host))
    assert install_after(stored_config(machine.host), machine="x86_64") == []
    assert not any(machine.path(path).exists() for path in LEFT)
    assert not machine.path(f"{VERSIONS}/jinja2").exists()
    assert status_of(machine.host)["drift"] == []


def killed(*_arguments: Any, **_more: Any) -> None:
    raise Killed


def test_a_package_that_others_need_stays_in_the_journal_until_unbootstrap(node: Site) -> None:
    apt = Apt(node.machine, {"git": ["git-man"], "git-lfs": ["git"]})
    vars(node.machine.commands)["_env"] = packages_of(node.machine, apt)
    node.join(pulls())
    installed(node)
    apt.mark("git-lfs")
    node.join()
    said: list[str] = []
    install(stored_config(node.machine.host), machine="x86_64", progress=said.append)
    assert [line for line in said if "left" in line] == [
        "left until unbootstrap: package git (needed by now by git-lfs)"
    ]
    assert set(apt.installed()) == {"git", "git-man", "git-lfs"}
    assert status_of(node.machine.host)["drift"] == [], "it is not removed again and again"
    assert not is_pending(stored_config(node.machine.host))
    node.machine.path(f"{DPKG}/git-lfs.list").unlink()
    assert leave(node.machine.host, drain_seconds=0).remains == []
    assert apt.installed() == {}


def test_a_failure_is_a_warning_and_the_node_works(node: Site) -> None:
    node.join(pulls(wheels="/srv/nothing"))
    (warning,) = install_after(stored_config(node.machine.host), machine="x86_64")
    assert "FLEX-1201" in warning
    status = status_of(node.machine.host)
    assert status["node"]["ready"]
    assert (status["pull"]["status"], status["pull"]["code"]) == ("NotInstalled", "FLEX-1201")
    assert status["reason"] == "FLEX-1201"
    assert [item["item"] for item in status["drift"]] == ["pull:install"], "and not each of its files"
    assert not node.machine.path(f"{ANSIBLE}/bin").exists()
    node.join(pulls())
    assert install_after(stored_config(node.machine.host), machine="x86_64") == []
    assert status_of(node.machine.host)["pull"] == {"status": "NotRun"}


def test_a_change_that_failed_is_the_reason_while_the_old_installation_runs_on(node: Site) -> None:
    node.join(pulls())
    installed(node)
    record = {"outcome": "ok", "commit": "c" * 40, "message": "ok=1", "time": "noon"}
    store_of(node.machine).set_pulled(record)
    node.join(pulls(scheduler="cron"))
    assert "FLEX-2006" in install_after(stored_config(node.machine.host), machine="x86_64")[0]
    status = status_of(node.machine.host)
    assert (status["pull"]["status"], status["pull"]["install"]["code"]) == ("Ok", "FLEX-2006")
    assert status["reason"] == "FLEX-2006"
    assert verdict_of(status) is Verdict.UNKNOWN
    assert node.machine.commands.units[TIMER] == "active"
    store_of(node.machine).set_pulled(
        {**store_of(node.machine).pulled(), "outcome": "failed", "code": "FLEX-2004"}
    )
    status = status_of(node.machine.host)
    assert status["reason"] == "FLEX-2004"
    assert "cron is not installed" in status["message"]


def test_drift_repair_tries_a_failed_installation_again(node: Site) -> None:
    node.join(pulls(wheels="/srv/later"))
    assert install_after(stored_config(node.machine.host), machine="x86_64")
    machine = node.machine
    assert main(["poll", "--drift"], machine.host) == 3
    machine.path(WHEEL_DIR).rename(machine.path("/srv/later"))
    machine.clock.time += 3600
    assert main(["poll", "--drift"], machine.host) == 0
    assert machine.commands.units[TIMER] == "active"
    status = status_of(machine.host)
    assert (status["pull"], status["drift"]) == ({"status": "NotRun"}, [])


def test_a_failed_installation_does_not_delay_the_repair_of_the_node(
    node: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only ansible-pull itself waits longer and longer: the kubelet and containerd are repaired at once."""
    machine = node.machine
    node.join(pulls(wheels="/srv/nothing"))
    assert install_after(stored_config(machine.host), machine="x86_64")
    config = "/etc/containerd/config.toml"
    right = machine.text(config)
    machine.put(config, "broken\n")
    assert main(["poll", "--drift"], machine.host) == 3
    assert "1 item repaired" in capsys.readouterr().out
    assert machine.text(config) == right
    for _minute in range(8):  # ansible-pull fails again after 1, 2 and 4 of them
        machine.clock.time += 60
        main(["poll", "--drift"], machine.host)
    (alone,) = DriftRecord.of(machine.store).of_state("found")
    assert (alone.item, alone.attempts) == ("pull:install", 4)
    assert alone.waits(machine.clock.now() + 400)
    machine.commands.units["kubelet.service"] = "inactive"
    assert looks_wrong(machine.host, machine.store) == "kubelet.service does not run"
    machine.put(config, "broken again\n")
    capsys.readouterr()
    assert main(["poll", "--drift"], machine.host) == 0
    assert machine.text(config) == right
    assert machine.commands.units["kubelet.service"] == "active"
    assert "ansible-pull" not in capsys.readouterr().out, "its own time has not come"
    assert [item["item"] for item in status_of(machine.host)["drift"]] == ["pull:install"]


def test_what_could_not_be_repaired_is_not_recorded_as_repaired(
    node: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    node.join(pulls())
    installed(node)
    machine = node.machine
    machine.path(f"{ANSIBLE}/bin/ansible-pull").write_text("#!/bin/sh\n")
    machine.commands.statuses["systemd-analyze"] = 1
    assert main(["poll", "--drift"], machine.host) == 3
    assert "repaired" not in capsys.readouterr().out
    states = {item.item: item.state for item in DriftRecord.of(machine.store).items}
    assert states == {"pull:install": "found"}
    machine.commands.statuses.clear()
    machine.clock.time += 60
    assert main(["poll", "--drift"], machine.host) == 0
    assert "python3" in machine.text(f"{ANSIBLE}/bin/ansible-pull")
    assert status_of(machine.host)["drift"] == []


def test_a_wheel_with_another_digest_is_never_used(node: Site) -> None:
    wheel = next(node.machine.path(WHEEL_DIR).glob("jinja2*"))
    wheel.write_bytes(wheel.read_bytes() + b"more")
    node.join(pulls())
    with pytest.raises(ArtifactUnreachable, match="missing, or another file"):
        installed(node)


def test_a_new_version_keeps_the_previous_one_and_those_of_the_node(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playbook that runs meanwhile keeps its files; the node has a previous version of its own."""
    node.join(pulls())
    installed(node)
    node.join(pulls(), also("1.4.4", "runc"))
    monkeypatch.setattr(wheels, "TABLE", small_wheels(node.machine, jinja2="3.1.7"))
    assert is_pending(stored_config(node.machine.host))
    installed(node)
    kept = {path.name.partition("-")[0] for path in node.machine.path(f"{VERSIONS}/jinja2").iterdir()}
    assert kept == {"3.1.6", "3.1.7"}
    assert len(list(node.machine.path(f"{VERSIONS}/runc").iterdir())) == 2
    monkeypatch.setattr(wheels, "TABLE", small_wheels(node.machine, jinja2="3.1.8"))
    installed(node)
    kept = {path.name.partition("-")[0] for path in node.machine.path(f"{VERSIONS}/jinja2").iterdir()}
    assert kept == {"3.1.7", "3.1.8"}


def test_cron_only_starts_the_service(node: Site) -> None:
    node.machine.put("/usr/sbin/cron", "", 0o755)
    node.join(pulls(scheduler="cron", schedule="5 * * * *"))
    installed(node)
    line = node.machine.text("/etc/cron.d/aks-flex-node-pull").splitlines()[-1]
    assert line == "5 * * * * root systemctl start --no-block aks-flex-node-pull.service"
    assert "aks-flex-node pull --delay " in node.machine.text(f"{UNITS}/aks-flex-node-pull.service")
    assert not node.machine.path(f"{UNITS}/{TIMER}").exists()


def test_a_machine_without_cron_is_refused_before_anything_is_installed(node: Site) -> None:
    node.join(pulls(scheduler="cron"))
    with pytest.raises(PullNotPossible, match="cron is not installed"):
        installed(node)
    assert not node.machine.path(ANSIBLE).exists()


def test_a_schedule_that_systemd_refuses_is_refused(node: Site) -> None:
    node.join(pulls(schedule="every full moon"))
    node.machine.commands.statuses["systemd-analyze"] = 1
    with pytest.raises(PullNotPossible, match="can't be used"):
        installed(node)
    assert not node.machine.path(ANSIBLE).exists()


@pytest.mark.parametrize(
    ("schedule", "why"),
    [("2020-01-01", "2020-01-01 is never again"), ("--help", "Failed to parse calendar specification")],
)
def test_a_schedule_that_never_runs_is_refused(node: Site, schedule: str, why: str) -> None:
    """As systemd itself answers: it takes a day in the past, and --help would be an option."""
    node.join(pulls(schedule=schedule))
    config = stored_config(node.machine.host).node.config
    with pytest.raises(PullNotPossible, match="can't be used") as caught:
        check_schedule(real_host(node.machine), config)
    assert why in caught.value.why


def test_a_python_without_wheels_is_named_and_drift_is_still_checked(
    node: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    node.join(pulls())
    installed(node)
    node.machine.path("/usr/bin/python3").unlink()
    node.machine.path("/usr/bin/python3").symlink_to("python3.99")
    with pytest.raises(NotInCatalogue, match=r"Python 3\.99"):
        installed(node)
    found = status_of(node.machine.host)
    assert [item["item"] for item in found["drift"]] == ["check:pull"]
    assert found["node"]["ready"]
    # A plan works, too: without it no new release would replace the installed command.
    assert main(["plan"], node.machine.host) == 0
    shown = capsys.readouterr()
    assert shown.out == "nothing to do\n"
    assert (
        "ansible-pull is not planned: FLEX-1204: this collection knows no ansible-core for Python 3.99"
        in shown.err
    )


def test_drift_of_it_is_found(node: Site) -> None:
    node.join(pulls())
    installed(node)
    node.machine.path(f"{ANSIBLE}/bin/ansible-pull").write_text("#!/bin/sh\n")
    node.machine.commands.units[TIMER] = "inactive"
    found = {item["item"] for item in status_of(node.machine.host)["drift"]}
    assert found == {f"file:{ANSIBLE}/bin/ansible-pull", f"unit:{TIMER}"}
    installed(node)
    assert status_of(node.machine.host)["drift"] == []


@pytest.mark.parametrize("killed", [Package, Tree, File, Link])
def test_an_installation_that_is_killed_is_completed_or_undone(
    node: Site, monkeypatch: pytest.MonkeyPatch, killed: type
) -> None:
    before = node.machine.snapshot("/usr", "/opt", "/etc/cron.d")
    node.join(pulls())
    with killed_at(monkeypatch, killed, "apply"):
        installed(node)
    assert status_of(node.machine.host)["node"]["ready"]
    installed(node)
    assert not is_pending(stored_config(node.machine.host))
    assert not node.machine.path("/var/lib/aks-flex-node/transaction.json").exists()
    node.join(pulls(schedule="daily"))
    with killed_at(monkeypatch, File, "apply"):
        installed(node)
    assert leave(node.machine.host, drain_seconds=0).remains == []
    assert node.machine.snapshot("/usr", "/opt", "/etc/cron.d") == before


def test_the_record_carries_a_schema_number(node: Site) -> None:
    store_of(node.machine).set_pulled({"outcome": "ok"})
    assert json.loads(node.machine.text("/var/lib/aks-flex-node/pull.json"))["schema"]
