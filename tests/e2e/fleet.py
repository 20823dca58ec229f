# SPDX-License-Identifier: GPL-3.0-or-later
"""What end-to-end tests do as a user would: write an inventory, run a playbook, look from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from testbed import Testbed
from testbed.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK_SECONDS = 300


@dataclass(frozen=True)
class Play:
    """A playbook run, as data and as the user saw it."""

    status: int
    output: str
    seconds: float
    events: Sequence[Mapping[str, Any]] = field(repr=False)

    def changed(self, host: str) -> int:
        """Tasks that changed something on a host."""
        return sum(event["changed"] for event in self.events if event["host"] == host)

    def modules(self, host: str) -> list[str]:
        """Modules that ran on a host, in order."""
        return [event["action"] for event in self.events if event["host"] == host and event["module"]]

    def result(self, host: str, action: str) -> Mapping[str, Any]:
        """What a module returned for a host."""
        (event,) = [e for e in self.events if e["host"] == host and e["action"] == f"aks.flexnode.{action}"]
        found: Mapping[str, Any] = event["result"]
        return found


def write_inventory(bed: Testbed, machines: Sequence[Machine], path: Path, **variables: Any) -> Path:
    """The inventory that a user of this cluster would write, for some of its machines."""
    inventory = bed.inventory()
    names = {machine.name for machine in machines}
    hosts = {name: host for name, host in inventory["all"]["hosts"].items() if name in names}
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": variables}}), encoding="utf-8")
    path.chmod(0o600)
    return path


def join_document(bed: Testbed, **over: Any) -> dict[str, Any]:
    """A configuration with a fresh token."""
    document = bed.node_document()
    document["azure"]["bootstrapToken"] = {"token": bed.cluster.bootstrap_token()}
    for section, values in over.items():
        document.setdefault(section, {}).update(values)
    return document


def play(playbook: str, inventory: Path, *options: str, environment: Mapping[str, str] | None = None) -> Play:
    """Run a playbook of the checkout, or an installed one by its name."""
    path = str(ROOT / "playbooks" / f"{playbook}.yml") if "." not in playbook else playbook
    with tempfile.TemporaryDirectory() as directory:
        record = Path(directory) / "record.jsonl"
        record.touch()
        settings = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "record",
            "ANSIBLE_NOCOLOR": "1",
            "FLEXNODE_RECORD": str(record),
            **(environment or {}),
        }
        start = time.monotonic()
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), path, "-i", str(inventory), *options],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=settings,
            timeout=PLAYBOOK_SECONDS,
            check=False,
        )
        seconds = time.monotonic() - start
        events = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return Play(done.returncode, done.stdout + done.stderr, seconds, events)


def succeeded(run: Play) -> Play:
    """The run, which must have worked; a failure shows what the user would have seen."""
    assert run.status == 0, run.output
    return run


def node(bed: Testbed, name: str) -> dict[str, Any]:
    """A Node as the API server has it."""
    found: dict[str, Any] = json.loads(bed.cluster.kubectl("get", "node", name, "-o", "json"))
    return found


def node_names(bed: Testbed) -> set[str]:
    """All Nodes of the cluster."""
    return set(bed.cluster.kubectl("get", "nodes", "-o", "name").replace("node/", "").split())


def is_ready(found: Mapping[str, Any]) -> bool:
    """Whether a Node says that it is Ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"]["conditions"])


def eventually(what: str, look: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true answer within a time limit."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {seconds} s")


def main_pids(machine: Machine) -> dict[str, str]:
    """The main process of each of our services."""
    units = ("containerd.service", "kubelet.service")
    shown = machine.run(["systemctl", "show", "--property=MainPID", "--value", *units]).stdout.split()
    return dict(zip(units, shown, strict=True))


# Everything a node's configuration touches. What daemons write by themselves is not configuration: their
# state below /var/lib/kubelet and /var/lib/containerd, and what systemd and Debian keep about themselves.
WATCHED = ("/etc", "/usr/local", "/opt", "/var/lib")
UNWATCHED = (
    "/var/lib/kubelet/*",
    "/var/lib/containerd/*",
    "/var/lib/cni/*",
    "/var/lib/systemd/*",
    "/var/lib/private/*",
    "/etc/resolv.conf",
    "*/__pycache__*",
)


def snapshot(machine: Machine) -> str:
    """Name, type, mode, owner, size, time and link target of every file that matters."""
    excluded = [word for pattern in UNWATCHED for word in ("-not", "-path", pattern)]
    listing = machine.run(
        ["find", *WATCHED, "-xdev", *excluded, "-not", "-type", "d", "-printf", "%p %y %m %U:%G %s %T@ %l\\n"]
    )
    return "\n".join(sorted(listing.stdout.splitlines()))
