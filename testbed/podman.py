# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman with a configuration of our own, and containers that are what their specification says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from testbed import files, paths
from testbed.errors import TestbedError
from testbed.process import Completed, run

LABEL = "aks-flexnode-testbed"
UNFINISHED = ("configured", "created", "initialized", "removing")
"""States of a container whose making or removal was cut short."""
EXITS = Path("/run/libpod/exits")
KILLED = "137"
SPEC_LABEL = "aks-flexnode-testbed.spec"


def containers_conf(systemd_runs: bool) -> str:
    """No ulimits (raising them fails in nested machines); no journal or systemd where there is none."""
    engine = ['events_logger = "file"', 'runtime = "runc"']
    if not systemd_runs:
        engine.append('cgroup_manager = "cgroupfs"')
    lines = ["[containers]", "default_ulimits = []", 'log_driver = "k8s-file"', "", "[engine]", *engine]
    return "\n".join([*lines, "", "[network]", 'network_backend = "netavark"', ""])


def podman(
    *args: str | Path, check: bool = True, input: str | bytes | None = None, timeout: float = 120
) -> Completed:
    """Run podman as the testbed configures it."""
    conf = paths.cache() / "containers.conf"
    files.write(conf, containers_conf(Path("/run/systemd/system").is_dir()))
    env = {"CONTAINERS_CONF": str(conf)}
    return run(["podman", *args], check=check, input=input, env=env, timeout=timeout)


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
    """Whether the container's first process lives; podman's word is stale after its monitor was killed."""
    if not found or not found["State"]["Running"]:
        return False
    try:
        stat = Path(f"/proc/{int(found['State']['Pid'])}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")  # dead, and only not yet reaped


def ensure(container: Container, keep_contents: bool = False) -> bool:
    """Have a container run as specified; say whether something was done.

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
    podman("start", container.name)
    return True


def restart(found: dict[str, Any]) -> bool:
    """Start a container that ended; False if podman can't.

    When its monitor was killed too, nobody told podman that it ended: write what the monitor would have.
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


def subnets() -> list[IPv4Network]:
    """The IPv4 subnets of all podman networks."""
    found = json.loads(podman("network", "ls", "--format", "json").stdout or "[]")
    listed = [entry["subnet"] for network in found for entry in network.get("subnets") or []]
    return [IPv4Network(subnet) for subnet in listed if ":" not in subnet]


def ensure_network(name: str, subnet: IPv4Network, gateway: str, owner: str) -> None:
    """Have a bridge network without a name server: every address in a testbed is known beforehand."""
    if podman("network", "exists", name, check=False).returncode == 0:
        return
    args = ["--disable-dns", "--subnet", str(subnet), "--gateway", gateway, "--label", f"{LABEL}={owner}"]
    podman("network", "create", *args, name)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Add the last lines of a container's log to an error that concerns it."""
    try:
        yield
    except TimeoutError as error:
        log = podman("logs", "--tail", "15", name, check=False)
        raise TestbedError(f"{error}; the end of its log:\n{log.stdout}{log.stderr}") from error
