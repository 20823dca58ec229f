# SPDX-License-Identifier: GPL-3.0-or-later
"""A job as AWX runs it: a directory with all that the job needs, and ansible-runner with a container.

The directory, the environment and the command line are those of AWX 24.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.checkout import ROOT
from testbed.basics.errors import TestbedError
from testbed.basics.podman import remove, settings
from testbed.basics.process import environment
from testbed.execution.credentials import INSIDE, Injected, unsafe_yaml

PROJECT = ROOT / "awx" / "project"
TEMPLATES = ROOT / "awx" / "data" / "job_templates.yml"
LIMIT_SECONDS = 300
UTF8 = {"LC_ALL": "C.UTF-8"}
"""Without it Ansible refuses to start."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
# What AWX sets for every job.
ALWAYS = {
    "ANSIBLE_FORCE_COLOR": "True",
    "ANSIBLE_HOST_KEY_CHECKING": "False",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    "ANSIBLE_PARAMIKO_RECORD_HOST_KEYS": "False",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "ANSIBLE_SSH_CONTROL_PATH_DIR": f"{INSIDE}/cp",
    "ANSIBLE_COLLECTIONS_PATH": f"{INSIDE}/requirements_collections:~/.ansible/collections:"
    "/usr/share/ansible/collections",
    "ANSIBLE_ROLES_PATH": f"{INSIDE}/requirements_roles:~/.ansible/roles:/usr/share/ansible/roles:"
    "/etc/ansible/roles",
    "AWX_HOST": "https://awx.example.com",
    "INVENTORY_ID": "1",
    "MAX_EVENT_RES": "700000",
}
OF_RUNNER = ("command", "env.list")
"""Files in which ansible-runner keeps the environment of a job; AWX removes them with the job's directory."""


@dataclass(frozen=True)
class Result:
    """What ansible-runner left behind."""

    status: int
    artifacts: Path
    seconds: float

    @property
    def output(self) -> str:
        """What AWX shows as the output of the job, without colours."""
        return COLOUR.sub("", (self.artifacts / "stdout").read_text(encoding="utf-8"))

    @property
    def word(self) -> str:
        """successful, failed, ..."""
        return (self.artifacts / "status").read_text(encoding="utf-8")

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """The events of a kind, or all of them, in their order."""
        found = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in (self.artifacts / "job_events").glob("*.json")
        ]
        return sorted(
            (one for one in found if not kind or one["event"] == kind), key=lambda one: int(one["counter"])
        )

    def hosts(self) -> set[str]:
        """Machines on which a task ran, whatever came of it."""
        told = (one["event_data"].get("host") for one in self.events() if one["event"].startswith("runner_"))
        return {str(host) for host in told if host} - {"localhost"}

    def tasks(self) -> list[dict[str, Any]]:
        """What the events of tasks say; an event that is only output says nothing."""
        return [one["event_data"] for one in self.events() if "task_path" in one.get("event_data", {})]

    def changed(self, host: str) -> int:
        """Tasks that changed something on a machine, as the recap counts them."""
        (stats,) = self.events("playbook_on_stats")
        return int(stats["event_data"]["changed"].get(host, 0))

    def texts(self, leave_out: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
        """Every file of the artifacts, with its content."""
        for path in sorted(self.artifacts.rglob("*")):
            if path.is_file() and path.name not in leave_out:
                yield str(path.relative_to(self.artifacts)), path.read_bytes().decode(errors="replace")


def template(name: str) -> dict[str, Any]:
    """A job template of awx/data."""
    every = yaml.safe_load(TEMPLATES.read_text(encoding="utf-8"))["awx_job_templates"]
    (found,) = [one for one in every if one["name"] == name]
    return dict(found)


def survey_defaults(found: Mapping[str, Any]) -> dict[str, Any]:
    """What AWX sets for questions that nobody answered: defaults that are an answer by themselves."""
    questions = (found.get("survey_spec") or {}).get("spec", [])
    return {
        one["variable"]: one["default"]
        for one in questions
        if one.get("default") is not None and not (one["type"] == "multiselect" and one["default"] == "")
    }


class Job:
    """One job of a template; it is prepared when it is created, and run once."""

    def __init__(self, directory: Path, number: int, name: str, inventory: Path) -> None:
        """directory: of the job, created here. inventory: what a source of AWX's inventory reads."""
        self._template, self._number = template(name), number
        self.directory = directory
        for part in ("env", "inventory", "cp"):
            (directory / part).mkdir(parents=True, mode=0o700)
        directory.chmod(0o700)
        shutil.copytree(PROJECT, self.project)
        self._write_inventory(inventory)
        self.injected = Injected(directory)

    @property
    def project(self) -> Path:
        """The files of the git repository."""
        return self.directory / "project"

    def install_requirements(self, tarball: Path) -> None:
        """What an update of the project does with a collections/requirements.yml that names this tarball."""
        file = self.directory / "requirements.yml"
        wanted = {"collections": [{"name": str(tarball), "type": "file"}]}
        file.write_text(yaml.safe_dump(wanted), encoding="utf-8")
        galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
        place = self.directory / "requirements_collections"
        # Only there: a collection that this machine has elsewhere would count as installed.
        alone = {**UTF8, "ANSIBLE_COLLECTIONS_PATH": str(place)}
        subprocess.run(
            [galaxy, "collection", "install", "--offline", "-r", str(file), "-p", str(place)],
            check=True,
            capture_output=True,
            cwd=self.directory,
            env=environment(alone),
            timeout=LIMIT_SECONDS,
        )

    def run(
        self,
        image: str,
        *,
        key: Path,
        user: str,
        limit: str = "",
        check: bool = False,
        answers: Mapping[str, Any] | None = None,
        environment_of_awx: Mapping[str, str] | None = None,
    ) -> Result:
        """Start it. answers: of the survey. environment_of_awx: extra variables of AWX's settings."""
        variables = {**survey_defaults(self._template), **(answers or {})}
        words = ["--check"] if check else []
        words += ["-u", user, "--forks=25"]
        words += ["-l", limit] if limit else []
        self._write("cmdline", shlex.join([*words, *self.injected.arguments]))
        meta = {"awx_job_id": self._number, "awx_job_launch_type": "manual", "awx_user_name": "admin"}
        self._write("extravars", unsafe_yaml({**variables, **meta}))
        set_here = {"JOB_ID": str(self._number), "AWX_PRIVATE_DATA_DIR": str(self.directory)}
        whole = {**ALWAYS, **set_here, **(environment_of_awx or {}), **self.injected.environment}
        self._write("envvars", yaml.safe_dump(whole))
        self._write("ssh_key", key.read_text(encoding="utf-8"))
        self._write("settings", json.dumps({"suppress_ansible_output": True}))
        return self._start(image)

    def _start(self, image: str) -> Result:
        # The machines of the testbed are reached from this machine's network. AWX runs jobs as root, too.
        options = ["--user=root", "--network=host", "--pull=never"]
        command = [sys.executable, "-m", "ansible_runner", "run", str(self.directory)]
        command += ["--playbook", self._template["playbook"], "--ident", str(self._number)]
        command += [
            "--process-isolation",
            "--process-isolation-executable=podman",
            f"--container-image={image}",
        ]
        command += [f"--container-option={option}" for option in options]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment({**UTF8, **settings()}),
                timeout=LIMIT_SECONDS,
                check=False,
                start_new_session=True,  # no terminal
            )
        except BaseException:
            remove(f"ansible_runner_{self._number}")  # it would go on without ansible-runner
            raise
        artifacts = self.directory / "artifacts" / str(self._number)
        if not (artifacts / "rc").is_file():
            raise TestbedError(f"ansible-runner did not start the job: {done.stdout}{done.stderr}")
        status = int((artifacts / "rc").read_text(encoding="utf-8"))
        if status != done.returncode:
            raise TestbedError(f"ansible-runner ended with {done.returncode}, and recorded {status}")
        return Result(status, artifacts, time.monotonic() - start)

    def _write_inventory(self, source: Path) -> None:
        """AWX keeps what ansible-inventory shows, and gives it to a job as a program that prints it."""
        command = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(source)]
        shown = subprocess.run(
            [*command, "--list", "--export"],
            check=True,
            capture_output=True,
            text=True,
            cwd=self.directory,
            env=environment({**UTF8, "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True"}),
            timeout=LIMIT_SECONDS,
        ).stdout
        program = self.directory / "inventory" / "hosts"
        program.write_text(f"#! /usr/bin/env python3\nprint({shown!r})\n", encoding="utf-8")
        program.chmod(0o700)

    def _write(self, name: str, text: str) -> None:
        path = self.directory / "env" / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
