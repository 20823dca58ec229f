# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One ansible-pull, from the fetch to the status: real git, and an ansible-pull that notes its arguments."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Phase, Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigMissing, LeaseHeld
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import (
    Completed,
    run_command,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import DEFAULT_PLAYBOOK
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull import run as pull_run
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.repository import Access
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.run import NOT_RUN, access_of, pull_once
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.pull import (
    NOT_CHANGED,
    in_short,
    pull_line,
    pull_of,
    wrong_with,
)
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import Team, fake_ansible, real_host

RECAP = "PLAY RECAP ***\nlocalhost                  : ok=3    changed=1    unreachable=0    failed=0\n"
BROKEN = """TASK [site : install the driver] ***
fatal: [localhost]: FAILED! => {"changed": false, "msg": "no such package"}
PLAY RECAP ***
"""


@dataclass
class Node:
    """A machine that pulls."""

    machine: Machine
    host: Host
    store: Store
    team: Team
    settings: dict[str, Any]
    signers: str = ""

    @property
    def config(self) -> NodeConfig:
        pull = {"repository": "https://git.example/team.git", **self.settings}
        return parse(joining({"pull": pull}), pollable=True)

    def pull(self) -> int:
        self.said: list[str] = []
        return pull_once(self.host, self.store, self.config, self.said.append)

    def called(self) -> list[str]:
        return (
            self.machine.path("/called").read_text().splitlines()
            if self.machine.path("/called").exists()
            else []
        )

    def status(self) -> dict[str, Any]:
        return pull_of(self.store, {"pull": {"repository": "x"}})


@pytest.fixture
def node(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    team = Team(tmp_path).start()
    fake_ansible(machine)
    machine.put("/says", RECAP)
    host = real_host(machine)
    node = Node(machine, host, Store(host), team, {})
    node.store.set_current_config({"pull": {"repository": "https://git.example/team.git"}}, None)
    # Documents take no file:// URL; the server of this team is a directory.
    monkeypatch.setattr(
        pull_run,
        "access_of",
        lambda config: Access(team.url, allowed_signers=config.pull.allowed_signers or ""),
    )
    return node


def test_a_commit_runs_and_is_recorded(node: Node) -> None:
    commit = node.team.push({"local.yml": "[]"})
    assert node.pull() == 0
    (call,) = node.called()
    assert f"--checkout {commit}" in call
    assert f"--url file://{node.machine.root}/var/lib/aks-flex-node/pull/repository.git" in call
    assert call.endswith(" --inventory localhost, --connection local local.yml")
    status = node.status()
    assert (status["status"], status["commit"]) == ("Ok", commit)
    assert status["message"] == "ok=3 changed=1 unreachable=0 failed=0"
    assert status["lastGood"]["commit"] == commit
    assert pull_line(status).startswith(f"Ok  commit {commit[:12]} at ")
    assert in_short(status) == f"Ok {commit[:8]}"
    environment = node.machine.text("/environment")
    assert "AKS_FLEX_NODE_PULL=1" in environment
    assert f"ANSIBLE_HOME={node.machine.root}/var/lib/aks-flex-node/pull/ansible" in environment


def test_without_a_playbook_the_node_is_only_reconciled(node: Node) -> None:
    node.team.push({"README.md": "nothing to run"})
    assert node.pull() == 0
    assert node.called()[0].endswith(f" {DEFAULT_PLAYBOOK}")


def test_a_playbook_that_was_named_and_is_missing_is_an_error(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    node.settings = {"playbook": "site/edge.yml"}
    assert node.pull() == NOT_RUN
    assert node.called() == []
    assert node.status()["code"] == "FLEX-2002"


def test_nothing_of_an_earlier_checkout_is_left_when_a_commit_runs(node: Node) -> None:
    """Neither the lock of a git that was killed, nor files that are in no commit."""
    node.team.push({"local.yml": "[]"})
    checkout = "/var/lib/aks-flex-node/pull/checkout"
    node.machine.put(f"{checkout}/.git/index.lock", "")
    node.machine.put(f"{checkout}/ansible.cfg", "[defaults]\nlibrary = /tmp\n")
    looks = f"#!/bin/sh\ntest ! -e {node.machine.path(checkout)}\n"
    node.machine.put("/opt/aks-flex-node/ansible/bin/ansible-pull", looks, 0o755)
    assert node.pull() == 0


def test_a_failed_playbook_is_named_with_its_task_and_the_last_good_run_stays(node: Node) -> None:
    good = node.team.push({"local.yml": "[]"})
    node.pull()
    bad = node.team.push({"local.yml": "[1]"})
    node.machine.put("/says", BROKEN)
    node.machine.put("/exits", "2")
    assert node.pull() == NOT_RUN
    status = node.status()
    assert (status["status"], status["code"], status["commit"]) == ("Failed", "FLEX-2004", bad)
    assert "task site : install the driver" in status["message"]
    assert status["lastGood"]["commit"] == good
    assert good[:12] in pull_line(status)
    since = status["since"]
    node.machine.clock.time += 3600
    node.pull()
    assert node.status()["since"] == since


def test_a_code_of_this_collection_is_the_reason(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    node.machine.put(
        "/says", 'fatal: [localhost]: FAILED! => {"msg": "FLEX-1401: this machine is being changed"}\n'
    )
    node.machine.put("/exits", "2")
    node.pull()
    assert "FLEX-1401: this machine is being changed" in node.status()["message"]


def test_an_unsigned_commit_is_refused_before_anything_of_it_is_checked_out(node: Node) -> None:
    key = node.team.key("alice")
    node.settings = {"verifyCommit": True, "allowedSigners": node.team.signer(key)}
    good = node.team.push({"local.yml": "[]"}, signed_by=key)
    assert node.pull() == 0
    node.team.push({"local.yml": "[1]"})
    assert node.pull() == NOT_RUN
    assert len(node.called()) == 1
    status = node.status()
    assert (status["status"], status["code"]) == ("Refused", "FLEX-2003")
    head = node.machine.path("/var/lib/aks-flex-node/pull/repository.git/refs/heads/flexnode")
    assert head.read_text().strip() == good


def test_a_commit_with_submodules_is_refused(node: Node) -> None:
    """The checkout would contact any URL in .gitmodules, with root's own git settings."""
    node.team.push({"local.yml": "[]"})
    node.team.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", node.team.url, "more")
    node.team.push({})
    assert node.pull() == NOT_RUN
    assert node.called() == []
    assert (node.status()["status"], node.status()["code"]) == ("Refused", "FLEX-2008")


def test_a_repository_that_is_away_runs_nothing_again(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    node.pull()
    node.team.directory.joinpath("team.git").rename(node.team.directory / "elsewhere")
    assert node.pull() == NOT_RUN
    assert len(node.called()) == 1
    assert (node.status()["status"], node.status()["code"]) == ("Failed", "FLEX-2001")


def test_a_rewritten_history_runs_and_is_noted(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    second = node.team.push({"local.yml": "[1]"})
    node.pull()
    node.team.git("reset", "--quiet", "--hard", "HEAD~1")
    node.team.push({"local.yml": "[2]"})
    assert node.pull() == 0
    assert f"the history was rewritten: {second[:12]}" in node.status()["message"]


def signs(node: Node) -> Path:
    """From now on every commit has to be signed with this key."""
    key = node.team.key("alice")
    node.settings = {"ref": "main", "verifyCommit": True, "allowedSigners": node.team.signer(key)}
    return key


def test_an_older_signed_commit_is_not_run_again(node: Node) -> None:
    """Its signature never expires: who controls the server could bring back an old mistake."""
    key = signs(node)
    older = node.team.push({"local.yml": "[]"}, signed_by=key)
    node.team.push({"local.yml": "[1]"}, signed_by=key)
    node.machine.put("/exits", "2")
    assert node.pull() == NOT_RUN  # it ran, and its playbook failed
    node.machine.put("/exits", "0")
    node.team.git("reset", "--quiet", "--hard", older)
    node.team.git("push", "--quiet", "--force", "origin", "HEAD:main")
    for _run in range(2):
        assert node.pull() == NOT_RUN
        assert (node.status()["status"], node.status()["code"]) == ("Refused", "FLEX-2007")
    assert len(node.called()) == 1
    # The same if the copy on the machine was lost: the date of the commit is signed, too.
    node.host.remove_tree("/var/lib/aks-flex-node/pull/repository.git")
    node.team.git(
        "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now", at=node.team.directory / "team.git"
    )
    newest = node.store.pulled()["newest"]
    node.store.set_pulled({**node.store.pulled(), "newest": {**newest, "date": newest["date"] + 60}})
    assert node.pull() == NOT_RUN
    assert node.status()["code"] == "FLEX-2007"
    # A decision of the administrator, in the configuration.
    node.settings = {**node.settings, "ref": older}
    assert node.pull() == 0
    assert node.status()["commit"] == older


def test_another_repository_may_have_older_commits(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pull.repository is a decision of the administrator, as another pull.ref is."""
    key = signs(node)
    (tmp_path / "second").mkdir()
    second = Team(tmp_path / "second").start()
    old = "2020-01-01T00:00:00+00:00"
    second.environment |= {"GIT_COMMITTER_DATE": old, "GIT_AUTHOR_DATE": old}
    older = second.push({"local.yml": "[]"}, signed_by=key)
    node.team.push({"local.yml": "[1]"}, signed_by=key)
    assert node.pull() == 0
    monkeypatch.setattr(
        pull_run, "access_of", lambda config: Access(second.url, allowed_signers=config.pull.allowed_signers)
    )
    assert node.pull() == 0
    assert node.status()["commit"] == older
    assert "rewritten" not in node.status()["message"]


def test_a_rewritten_history_that_is_newer_runs(node: Node) -> None:
    key = signs(node)
    node.team.push({"local.yml": "[]"}, signed_by=key)
    node.team.push({"local.yml": "[1]"}, signed_by=key)
    assert node.pull() == 0
    node.team.git("reset", "--quiet", "--hard", "HEAD~1")
    newer = node.team.push({"local.yml": "[2]"}, signed_by=key)
    assert node.pull() == 0
    assert node.status()["commit"] == newer


def test_without_verify_commit_the_server_decides(node: Node) -> None:
    older = node.team.push({"local.yml": "[]"})
    node.team.push({"local.yml": "[1]"})
    assert node.pull() == 0
    node.team.git("reset", "--quiet", "--hard", older)
    node.team.git("push", "--quiet", "--force", "origin", "HEAD:main")
    assert node.pull() == 0
    assert "the history was rewritten" in node.status()["message"]


def test_required_collections_are_installed_first(node: Node) -> None:
    node.team.push({"local.yml": "[]", "collections/requirements.yml": "collections: [community.general]\n"})
    assert node.pull() == 0
    galaxy, pull = node.called()
    assert galaxy.startswith("ansible-galaxy collection install --requirements-file ")
    assert "pull/collections/unfinished --upgrade" in galaxy
    assert pull.startswith("ansible-pull ")
    (place,) = node.machine.path("/var/lib/aks-flex-node/pull/collections").iterdir()
    assert f"={place}:/usr/share/ansible/collections" in node.machine.text("/environment")


def test_ansible_never_reads_an_ansible_cfg_where_the_command_happens_to_be_run(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ansible.cfg can name plugins, which run as root; that of the commit is read, also by galaxy."""
    required = {"collections/requirements.yml": "collections: []\n"}
    node.team.push({"local.yml": "[]", **required, "ansible.cfg": "[galaxy]"})
    (tmp_path / "ansible.cfg").write_text("[defaults]\nlibrary = /srv/mallory\n")
    monkeypatch.chdir(tmp_path)
    assert node.pull() == 0
    place = f"{node.machine.root}/var/lib/aks-flex-node/pull"
    galaxy, pull = node.machine.text("/places").splitlines()
    assert galaxy == f"ansible-galaxy {place}/galaxy [galaxy]"
    assert pull.strip() == f"ansible-pull {place}"
    assert node.machine.path("/var/lib/aks-flex-node/pull/galaxy").stat().st_mode & 0o777 == 0o700
    node.team.git("rm", "--quiet", "ansible.cfg")
    node.team.push({})
    assert node.pull() == 0
    assert node.machine.text("/places").splitlines()[-2].strip() == f"ansible-galaxy {place}/galaxy"


def test_collections_that_can_not_be_installed_stop_the_run(node: Node) -> None:
    node.team.push({"local.yml": "[]", "collections/requirements.yml": "collections: [community.general]\n"})
    node.machine.put("/says", "ERROR! Unknown error when attempting to call Galaxy\n")
    node.machine.put("/exits", "1")
    assert node.pull() == NOT_RUN
    assert len(node.called()) == 1
    assert node.status()["code"] == "FLEX-2005"
    assert "Unknown error" in node.status()["message"]


def test_a_run_that_takes_too_long_ends(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    node.settings = {"timeoutSeconds": 60}
    config = node.config
    sleeping = "#!/bin/sh\necho started\nsleep 300 & sleep 300\n"
    node.machine.put("/opt/aks-flex-node/ansible/bin/ansible-pull", sleeping, 0o755)
    object.__setattr__(config.pull, "timeout_seconds", 1)
    said: list[str] = []
    assert pull_once(node.host, node.store, config, said.append) == NOT_RUN
    assert "started" in said
    assert "did not end within 1 s" in node.status()["message"]


def test_one_limit_is_for_the_whole_run(node: Node) -> None:
    """Otherwise systemd ends it first, and nothing is recorded."""
    node.team.push({"local.yml": "[]", "collections/requirements.yml": "collections: []\n"})
    node.settings = {"timeoutSeconds": 60}
    bin_ = "/opt/aks-flex-node/ansible/bin"
    node.machine.put(f"{bin_}/ansible-galaxy", "#!/bin/sh\necho slow\n", 0o755)
    node.machine.put(f"{bin_}/ansible-pull", "#!/bin/sh\nsleep 5\n", 0o755)

    def say(line: str) -> None:
        node.machine.clock.time += 59 if line == "slow" else 0

    assert pull_once(node.host, node.store, node.config, say) == NOT_RUN
    assert "did not end within 60 s" in node.status()["message"]


def test_the_fetch_has_the_same_limit(node: Node) -> None:
    limits: list[float] = []

    def runner(argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
        if "fetch" in argv:
            limits.append(timeout)
            node.machine.clock.time += 20
            return Completed(tuple(argv), 128, "", "fatal: unable to access\n")
        return run_command(argv, data, timeout)

    node.settings = {"timeoutSeconds": 60}
    host = Host(root=str(node.machine.root), runner=runner, clock=node.machine.clock)
    assert pull_once(host, node.store, node.config, print) == NOT_RUN
    assert limits == [60, 40]


def test_a_run_that_is_ended_ends_its_playbook_and_says_so(node: Node) -> None:
    """By systemctl stop, a shutdown or unbootstrap."""
    node.team.push({"local.yml": "[]"})
    script = f"#!/bin/sh\necho $$ > {node.machine.root}/pid\nkill -TERM $PPID\nsleep 300\n"
    node.machine.put("/opt/aks-flex-node/ansible/bin/ansible-pull", script, 0o755)
    assert node.pull() == NOT_RUN
    with pytest.raises(ProcessLookupError):
        os.kill(int(node.machine.text("/pid")), 0)
    assert (node.status()["status"], node.status()["code"]) == ("Failed", "FLEX-2004")
    assert "the run was stopped" in node.status()["message"]


def test_what_another_run_records_meanwhile_stays(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    failed = {"code": "FLEX-1201", "message": "no wheels", "since": "now"}

    def say(line: str) -> None:
        node.store.set_pulled({**node.store.pulled(), "install": failed})

    assert pull_once(node.host, node.store, node.config, say) == 0
    assert node.store.pulled()["install"] == failed

    def repaired(line: str) -> None:
        node.store.set_pulled({k: v for k, v in node.store.pulled().items() if k != "install"})

    assert pull_once(node.host, node.store, node.config, repaired) == 0
    assert node.status()["status"] == "Ok"


def test_a_change_that_failed_does_not_hide_how_the_runs_go(node: Node) -> None:
    """What was installed before goes on running: a refused commit must be seen, and so must the change."""
    commit = node.team.push({"local.yml": "[]"})
    node.pull()
    failed = {"code": "FLEX-2006", "message": "no cron", "since": "noon"}
    node.store.set_pulled({**node.store.pulled(), "install": failed})
    good = node.status()
    assert (good["status"], good["commit"], good["install"]) == ("Ok", commit, failed)
    assert pull_line(good).startswith(f"Ok  commit {commit[:12]} at ")
    assert pull_line(good).endswith("not installed: FLEX-2006 since noon: no cron")
    assert in_short(good) == "Ok FLEX-2006"
    assert wrong_with(good) == ("FLEX-2006", f"{NOT_CHANGED}: no cron")
    signs(node)
    assert node.pull() == NOT_RUN
    refused = node.status()
    assert (refused["status"], refused["code"], refused["install"]) == ("Refused", "FLEX-2003", failed)
    assert "FLEX-2003 since " in pull_line(refused)
    assert "FLEX-2006 since noon: no cron" in pull_line(refused)
    assert in_short(refused) == "Refused FLEX-2003"
    code, message = wrong_with(refused) or ("", "")
    assert code == "FLEX-2003"
    assert message.endswith(f"; {NOT_CHANGED}: FLEX-2006: no cron")
    node.store.set_pulled({"install": failed})
    assert node.status() == {"status": "NotInstalled", **failed}


def test_nothing_comes_back_when_the_playbook_makes_the_machine_leave(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    assert pull_once(node.host, node.store, node.config, lambda _line: node.store.forget() and None) == 0
    assert not node.machine.path("/var/lib/aks-flex-node").exists()


def test_a_second_pull_names_the_first(node: Node) -> None:
    node.team.push({"local.yml": "[]"})
    node.host.make_directories("/run/aks-flex-node")
    descriptor = os.open(node.machine.path("/run/aks-flex-node/pull.lock"), os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"4711\n")
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LeaseHeld, match="another ansible-pull is running") as caught:
        node.pull()
    assert "4711" in caught.value.why
    os.close(descriptor)
    assert node.pull() == 0


def test_a_machine_that_leaves_or_has_no_repository_runs_nothing(node: Node) -> None:
    node.store.enter(Phase.RESETTING)
    assert node.pull() == 0
    assert node.called() == []
    with pytest.raises(ConfigMissing):
        pull_once(node.host, node.store, parse(joining(), pollable=True), node.said.append)


def test_access_is_what_the_document_says() -> None:
    settings = {
        "repository": "ssh://git@git.example/x",
        "sshKey": "PRIVATE",
        "knownHosts": "git.example ssh-ed25519 A",
    }
    access = access_of(parse(joining({"pull": settings}), pollable=True))
    assert (access.url, access.ssh_key, access.known_hosts) == (
        settings["repository"],
        "PRIVATE",
        settings["knownHosts"],
    )
