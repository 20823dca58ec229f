# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a commit: its collections, then ansible-pull itself, which sees only the verified copy."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from hashlib import sha256

from ..config.sections.pull import PLAYBOOK, Pull
from ..dataclass import dataclass
from ..machine.command import TIMED_OUT, Completed, Stop, run_shown
from ..machine.host import Host
from ..machine.layout import ANSIBLE_DIR, DEFAULT_PLAYBOOK
from .errors import CollectionsFailed, PlaybookFailed, RefMissing
from .repository import Repository

Say = Callable[[str], None]
REQUIREMENTS, SETTINGS = "collections/requirements.yml", "ansible.cfg"
UNFINISHED = "unfinished"  # the directory of collections while ansible-galaxy changes it
RECAP = re.compile(r"^\S+\s+:\s+(ok=\d+.*)$", re.MULTILINE)
TASK, FATAL = re.compile(r"^TASK \[(.*)\] \**$"), re.compile(r"^(fatal|failed): \[")
CODE = re.compile(r"FLEX-\d{4}: [^\"\\\n]{1,160}")
ERROR = re.compile(r"^(?:\[ERROR\]:|ERROR!) (.+)$", re.MULTILINE)
MARK = "AKS_FLEX_NODE_PULL"  # tells our modules and our command who runs them


def by_ansible_pull() -> bool:
    """Whether this process was started by ansible-pull of this machine."""
    return MARK in os.environ


def patience_of(asked: float | None) -> float | None:
    """Seconds to wait for the turn of this node in a rollout; None: as configured.

    ansible-pull does not wait unless it is asked to: it would keep the machine from all other runs
    meanwhile, and its next run asks again.
    """
    return 0 if asked is None and by_ansible_pull() else asked


@dataclass(frozen=True)
class Run:
    """One commit to run, and where."""

    host: Host
    repository: Repository
    directory: str  # of everything that belongs to ansible-pull, for root only
    commit: str
    pull: Pull
    environment: Mapping[str, str]  # the proxy of the site
    say: Say
    end: float  # when all of it must have ended (monotonic)
    stop: Stop

    @property
    def checkout(self) -> str:
        """The working copy; that of the last run stays there until the next one starts."""
        return f"{self.directory}/checkout"

    @property
    def collections(self) -> str:
        """The collections that the repository requires are in a directory below this one."""
        return f"{self.directory}/collections"

    def playbook(self) -> str:
        """The playbook that runs: the repository's own, or one that only repairs drift."""
        named = self.pull.playbook or PLAYBOOK
        if self.repository.has(self.commit, named):
            return named
        if self.pull.playbook:
            raise RefMissing(
                f"commit {self.commit[:12]} has no playbook {named}",
                where="pull.playbook",
                why="the file is not in the repository",
            )
        return DEFAULT_PLAYBOOK

    def run(self) -> str:
        """Run it; returns the result in one line."""
        playbook = self.playbook()
        host, here = self.host, self.directory
        options = ["--url", f"file://{host.path(self.repository.bare)}", "--checkout", self.commit]
        options += ["--directory", host.path(self.checkout), "--full", "--clean"]
        options += ["--inventory", "localhost,", "--connection", "local"]
        more: dict[str, str] = {}
        if self.repository.has(self.commit, REQUIREMENTS):
            more = self._paths(self._install_collections())
        else:
            host.remove_tree(self.collections)
        # Only what is in the commit runs: no files that an earlier run left, and no lock of a killed git.
        host.remove_tree(self.checkout)
        done = self._ansible("ansible-pull", [*options, playbook], more, here)
        if done.status != 0:
            raise PlaybookFailed(
                f"{'the default playbook' if playbook == DEFAULT_PLAYBOOK else playbook} failed",
                where=f"commit {self.commit[:12]}",
                why=reason(done, self.pull.timeout_seconds),
            )
        recap = RECAP.findall(done.stdout)
        return " ".join(recap[-1].split()) if recap else "nothing ran"

    def _paths(self, own: str) -> dict[str, str]:
        """Where Ansible looks for collections."""
        return {"ANSIBLE_COLLECTIONS_PATH": f"{self.host.path(own)}:/usr/share/ansible/collections"}

    def _install_collections(self) -> str:
        """What the repository requires, into a directory of its own. The files are read from the commit.

        The name of the directory is the digest of these files: with other requirements it is another one, so
        that what they no longer name is not found. While ansible-galaxy works, it has another name: what a
        power cut leaves half installed is removed by the next run, and never taken for complete.
        """
        host, place = self.host, f"{self.directory}/galaxy"
        host.remove_tree(place)  # with the ansible.cfg of another commit
        host.make_directories(place, 0o700)
        digest = sha256()
        for path in (REQUIREMENTS, SETTINGS):  # ansible.cfg may name the servers, and the tokens for them
            if self.repository.has(self.commit, path):
                content = self.repository.content(self.commit, path)
                host.write(f"{place}/{path.rpartition('/')[2]}", content, 0o600, durable=False)
                digest.update(f"{path} {len(content)}\n".encode() + content)
        name = digest.hexdigest()[:16]
        complete, unfinished = f"{self.collections}/{name}", f"{self.collections}/{UNFINISHED}"
        for other in host.names(self.collections):
            if other != name:
                host.remove_tree(f"{self.collections}/{other}")
        host.make_directories(self.collections, 0o700)
        if host.exists(complete):  # has been installed before; a range of versions may have a newer one now
            host.move(complete, unfinished)
            host.sync_directory(self.collections)
        else:
            host.make_directories(unfinished)
        options = ["collection", "install", "--requirements-file", host.path(f"{place}/requirements.yml")]
        options += ["--collections-path", host.path(unfinished), "--upgrade"]
        done = self._ansible("ansible-galaxy", options, self._paths(unfinished), place)
        if done.status != 0:
            raise CollectionsFailed(
                "the collections that the repository requires can't be installed",
                where=f"{REQUIREMENTS} of commit {self.commit[:12]}",
                why=reason(done, self.pull.timeout_seconds),
            )
        host.sync_tree(unfinished)
        host.move(unfinished, complete)
        host.sync_directory(self.collections)
        return complete

    def _ansible(self, command: str, options: list[str], more: Mapping[str, str], place: str) -> Completed:
        """Run a command of the venv; everything that it writes for itself stays below our directory.

        place: where it runs. Ansible reads the ansible.cfg there, so it must never be a directory of others,
        such as the one in which an administrator happens to run `sudo aks-flex-node pull`.
        """
        here = self.host.path(self.directory)
        environment = {
            **self.environment,
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_HOME": f"{here}/ansible",
            "ANSIBLE_LOCAL_TEMP": f"{here}/ansible/tmp",
            "ANSIBLE_REMOTE_TEMP": f"{here}/ansible/tmp",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": "auto_silent",
            MARK: "1",
            **more,
        }
        argv = [self.host.path(f"{ANSIBLE_DIR}/bin/{command}"), *options]
        seconds = max(self.end - self.host.clock.monotonic(), 1.0)
        done = run_shown(argv, environment, self.say, seconds, cwd=self.host.path(place), stop=self.stop)
        if self.stop.asked:
            raise stopped()
        return done


def stopped() -> PlaybookFailed:
    """The error of a run that was ended from outside."""
    return PlaybookFailed(
        "the run was stopped",
        why="systemctl stop, a shutdown or another process ended it (SIGTERM)",
        fix="the next run starts again",
    )


def reason(done: Completed, limit: float) -> str:
    """Why a run failed, in one line: the code of this collection if there is one, else the task."""
    if done.status == TIMED_OUT:
        return f"the run did not end within {limit:g} s (pull.timeoutSeconds)"
    task, failed = "", ""
    for line in done.stdout.splitlines():
        if match := TASK.match(line):
            task = match[1]
        elif FATAL.match(line):
            failed = task
    code, error = CODE.search(done.stdout), ERROR.search(done.stdout)
    said = code[0].strip() if code else error[1][:200] if error else ""
    parts = [f"task {failed}" if failed else "", said, "" if failed or said else f"exit status {done.status}"]
    return ": ".join(part for part in parts if part)
