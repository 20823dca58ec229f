# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman with a configuration of our own, and containers that are what their specification says."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.basics import files, paths
from testbed.basics.clock import wait_for
from testbed.basics.errors import CommandFailed, TestbedError, TookTooLong
from testbed.basics.process import Completed, run

LABEL = "aks-flexnode-testbed"
UNFINISHED = ("configured", "created", "initialized", "removing")
"""States of a container whose making or removal was cut short."""
STARTER = "TESTBED_STARTER"
"""Marks a podman process with who started it: when that one is gone, it is a straggler."""
EXITS = Path("/run/libpod/exits")
KILLED = "137"
STRAGGLER_SECONDS = 60
SPEC_LABEL = "aks-flexnode-testbed.spec"


def containers_conf(systemd_runs: bool) -> str:
    """No ulimits (raising them fails in nested machines); no journal or systemd where there is none."""
    engine = ['events_logger = "file"', 'runtime = "runc"']
    if not systemd_runs:
        engine.append('cgroup_manager = "cgroupfs"')
    lines = ["[containers]", "default_ulimits = []", 'log_driver = "k8s-file"', "", "[engine]", *engine]
    return "\n".join([*lines, "", "[network]", 'network_backend = "netavark"', ""])


def settings() -> dict[str, str]:
    """What a program that calls podman by itself needs in its environment, to do it as the testbed does."""
    conf = paths.cache() / "containers.conf"
    files.write(conf, containers_conf(Path("/run/systemd/system").is_dir()))
    return {"CONTAINERS_CONF": str(conf)}


def podman(
    *args: str | Path, check: bool = True, input: str | bytes | None = None, timeout: float = 120
) -> Completed:
    """Run podman as the testbed configures it."""
    env = {**settings(), STARTER: str(os.getpid())}
    finishes = args[0] != "exec"
    return run(["podman", *args], check=check, input=input, env=env, timeout=timeout, finishes=finishes)


@dataclass(frozen=True)
class Container:
    """A container as it should be."""

    name: str
    image: str
    argv: tuple[str, ...]
    network: str
    ip: str
    mac: str
    owner: str
    """The testbed it belongs to."""
    options: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    revision: str = ""
    """Anything else that a change of must replace the container, e.g. the digest of a certificate."""
    contents: bytes | None = field(default=None, compare=False, repr=False)
    """A tar unpacked into a new container before its first start."""

    def create_args(self) -> list[str]:
        """The arguments of podman create."""
        volumes = [word for volume in self.volumes for word in ("--volume", volume)]
        labels = ["--label", f"{LABEL}={self.owner}", "--label", f"{SPEC_LABEL}={self.digest()}"]
        network = ["--network", self.network, "--ip", self.ip, "--mac-address", self.mac]
        return [
            "--name",
            self.name,
            "--runtime",
            "runc",
            *labels,
            *network,
            *self.options,
            *volumes,
            self.image,
            *self.argv,
        ]

    def digest(self) -> str:
        """What identifies this specification."""
        words = [self.name, self.image, self.network, self.ip, self.mac, self.revision]
        text = json.dumps([words, self.argv, self.options, self.volumes])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def inspect(name: str) -> dict[str, Any] | None:
    """What podman knows about a container."""
    done = podman("container", "inspect", name, check=False)
    if done.returncode != 0:
        return None
    found: dict[str, Any] = json.loads(done.stdout)[0]
    return found


def is_running(found: dict[str, Any] | None) -> bool:
    """Whether the container's first process runs; podman's state is stale after its monitor was killed."""
    if not found or not found["State"]["Running"]:
        return False
    try:
        stat = Path(f"/proc/{int(found['State']['Pid'])}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")  # dead, and only not yet reaped


def ensure(container: Container, keep_contents: bool = False) -> bool:
    """Run a container as specified; return whether something was done.

    With keep_contents a container of another specification is left as it is: it holds a machine's disk.
    """
    found = inspect(container.name)
    same = found is not None and found["Config"]["Labels"].get(SPEC_LABEL) == container.digest()
    complete = found is not None and found["State"]["Status"] not in UNFINISHED
    if found and (same or keep_contents) and complete:
        if is_running(found):
            return False
        if restart(found):
            return True
    remove(container.name)
    podman("create", *container.create_args())
    if container.contents is not None:
        podman("cp", "--archive=false", "-", f"{container.name}:/", input=container.contents)
    started = podman("start", container.name, check=False)
    if "already allocated" in started.stderr:
        raise TestbedError(
            f"podman was killed at work and still holds the address of {container.name}: "
            f"run 'python -m testbed down', then 'up'"
        )
    if started.returncode != 0:
        raise CommandFailed(["podman", "start", container.name], started.returncode, started.stderr)
    return True


def restart(found: dict[str, Any]) -> bool:
    """Start a container that ended; False if podman can't.

    When its monitor was killed too, podman does not know that it ended: write what the monitor would have.
    """
    name = found["Name"]
    if found["State"]["Status"] in ("running", "stopping") and EXITS.is_dir():
        files.write(EXITS / found["Id"], KILLED)
    podman("container", "cleanup", name, check=False)
    return podman("start", name, check=False).returncode == 0 and is_running(inspect(name))


def remove(name: str) -> None:
    """Remove a container at once, with its anonymous volumes."""
    podman("rm", "--force", "--ignore", "--time", "0", "--volumes", name, check=False)


def names(owner: str) -> list[str]:
    """The containers of one testbed, running or not."""
    done = podman("ps", "--all", "--filter", f"label={LABEL}={owner}", "--format", "{{.Names}}")
    return done.stdout.split()


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Add the last lines of a container's log to an error that concerns it."""
    try:
        yield
    except TookTooLong as error:
        log = podman("logs", "--tail", "15", name, check=False)
        raise TestbedError(f"{error}; the end of its log:\n{log.stdout}{log.stderr}") from error


def stragglers() -> list[int]:
    """Podman processes that outlived who started them; two at work on one container leave a mess."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text(encoding="utf-8") != "podman\n":
                continue
            if (process / "cmdline").read_bytes().split(b"\0")[1] == b"exec":
                continue  # looks into a container and changes nothing about it
            settings = (process / "environ").read_bytes().split(b"\0")
            parent = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue  # it ended while we looked
        starter = next((word for word in settings if word.startswith(STARTER.encode() + b"=")), None)
        if starter and starter.decode().partition("=")[2] != parent:
            found.append(int(process.name))
    return found


def wait_for_stragglers() -> None:
    """Wait for what an interrupted run has started."""
    wait_for("the end of an interrupted run's podman", lambda: not stragglers(), STRAGGLER_SECONDS)
