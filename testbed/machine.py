# SPDX-License-Identifier: GPL-3.0-or-later
"""A node machine: a systemd container with its own disk, address, identity and SSH server."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.artifacts.archive import Entry, tar_bytes
from testbed.basics import podman
from testbed.basics.clock import wait_for
from testbed.basics.errors import CommandFailed
from testbed.basics.podman import Container
from testbed.basics.process import Completed
from testbed.host import cgroups
from testbed.images import recipes
from testbed.layout import ssh
from testbed.layout.site import Site

BOOT_SECONDS = 60
MODULES = Path("/lib/modules")
ROUTES = "etc/testbed/routes"
ROUTES_UNIT = f"""[Unit]
Description=Routes to the pods of other nodes, as a router of the site would have them

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ip -batch /{ROUTES}
"""
VOLUMES = ("containerd", "kubelet")
"""Directories below /var/lib that need a real file system: an overlay can't hold another one."""


@dataclass(frozen=True)
class Machine:
    """One node machine."""

    name: str
    ip: str
    platform: str
    pod_cidr: str
    ssh_key: Path
    known_hosts: Path
    ssh_user: str = recipes.SSH_USER
    network: str = ""
    """Its podman network; empty: that of the cluster."""
    router: str = ""
    """Its way to everything outside of that network."""
    site: Site = field(repr=False, kw_only=True)

    @property
    def container(self) -> str:
        """Its podman name."""
        return self.site.container(f"node-{self.name}")

    def run(
        self, argv: Sequence[str], *, check: bool = True, input: str | None = None, timeout: float = 120
    ) -> Completed:
        """Run a program in it as root from outside, without SSH: for observation only."""
        flags = ["--interactive"] if input is not None else []
        return podman.podman("exec", *flags, self.container, *argv, check=check, input=input, timeout=timeout)

    def ssh(self, *argv: str) -> list[str]:
        """The command line that reaches it by SSH."""
        return [*ssh.argv(self.ip, self.ssh_user, self.ssh_key, self.known_hosts), *argv]

    def copy_to(self, local: Path | str, remote: str) -> None:
        """Copy a file or directory into it as root."""
        podman.podman("cp", Path(local), f"{self.container}:{remote}")

    def read(self, path: str) -> str:
        """The text of a file in it."""
        return self.run(["cat", path]).stdout

    def is_running(self) -> bool:
        """Whether it is switched on."""
        return podman.is_running(podman.inspect(self.container))

    def stop(self) -> None:
        """Switch it off at once, as a power cut does."""
        podman.podman("stop", "--time", "0", self.container)

    def start(self) -> None:
        """Switch it on and wait for SSH."""
        if podman.ensure(self._specification(), keep_contents=True):
            self.wait()

    def reboot(self, grace: int = 20) -> None:
        """Shut it down in order, as far as that is done within grace seconds, and switch it on again."""
        podman.podman("stop", "--time", str(grace), self.container)
        self.start()

    def remove(self) -> None:
        """Remove it with its disks; the cluster keeps its Node object, as it would for a lost machine."""
        podman.wait_for_stragglers()
        podman.remove(self.container)
        for volume in self._volumes():
            podman.podman("volume", "rm", "--force", volume, check=False)
        for suffix in (".key", ".json"):  # the record goes last: a removal cut short can be taken up again
            self._record_base.with_suffix(suffix).unlink(missing_ok=True)

    def ensure(self) -> bool:
        """Start it if needed, and wait until it is reachable; return whether something was done."""
        done = podman.ensure(self._specification(), keep_contents=True)
        if done:
            self.wait()
        return done

    def wait(self) -> None:
        """Wait until SSH answers and systemd has finished booting."""
        with podman.explained(self.container):
            wait_for(f"SSH of {self.name}", self._ssh_answers, BOOT_SECONDS)
            wait_for(f"end of boot of {self.name}", self._booted, BOOT_SECONDS)

    def host_key(self) -> str:
        """The public line of its host key, generated the first time."""
        return ssh.ensure_key(self._record_base.with_suffix(".key"), self.name)

    @property
    def _record_base(self) -> Path:
        return self.site.directory / "nodes" / f"{self.name}.x"

    def _volumes(self) -> list[str]:
        return [f"{self.container}-{name}" for name in VOLUMES]

    def _ssh_answers(self) -> bool:
        try:
            with socket.create_connection((self.ip, 22), timeout=1) as connection:
                connection.settimeout(2)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _booted(self) -> bool:
        try:
            state = self.run(["systemctl", "is-system-running"], check=False, timeout=10).stdout.strip()
        except CommandFailed:
            return False
        return state in ("running", "degraded")

    def _specification(self) -> Container:
        volumes = [f"{volume}:/var/lib/{name}" for volume, name in zip(self._volumes(), VOLUMES, strict=True)]
        if MODULES.is_dir():
            volumes.append(f"{MODULES}:{MODULES}:ro")
        return Container(
            name=self.container,
            image=recipes.node(self.platform).image,
            argv=("/sbin/init",),
            network=self.network or self.site.network,
            ip=self.ip,
            mac=self.site.plan.mac(self.ip),
            owner=self.site.name,
            options=("--hostname", self.name, *machine_options(cgroups.is_v2())),
            volumes=tuple(volumes),
            contents=tar_bytes(self._identity()),
        )

    def _identity(self) -> dict[str, Entry]:
        """What makes this machine itself: its id, its host key, who may log in."""
        machine_id = hashlib.sha256(f"{self.site.name}/{self.name}/{self.ip}".encode()).hexdigest()[:32]
        public = self.host_key()
        home = f"home/{self.ssh_user}/.ssh"
        user_key = ssh.ensure_key(self.ssh_key, f"testbed-{self.site.name}")
        private = self._record_base.with_suffix(".key").read_bytes()
        return {
            "etc/machine-id": Entry(f"{machine_id}\n".encode(), 0o444),
            "etc/ssh/ssh_host_ed25519_key": Entry(private, 0o600),
            "etc/ssh/ssh_host_ed25519_key.pub": Entry(f"{public}\n".encode()),
            **routes([("default", self.router)] if self.router else self.site.plan.pod_routes(self.ip)),
            home: Entry(None, 0o700, recipes.SSH_USER_ID),
            f"{home}/authorized_keys": Entry(f"{user_key}\n".encode(), 0o600, recipes.SSH_USER_ID),
        }


def routes(ways: Iterable[tuple[str, str]]) -> dict[str, Entry]:
    """Files that make a machine know, at each boot, which node has which pods; no node must tell another."""
    lines = "".join(f"route replace {cidr} via {node}\n" for cidr, node in ways)
    unit = "testbed-routes.service"
    return {
        ROUTES: Entry(lines.encode()),
        f"etc/systemd/system/{unit}": Entry(ROUTES_UNIT.encode()),
        f"etc/systemd/system/multi-user.target.wants/{unit}": Entry(f"/etc/systemd/system/{unit}"),
    }


def machine_options(pure_v2: bool) -> tuple[str, ...]:
    """How podman runs systemd so that machines with a kubelet each do not see each other's control groups.

    On a v1 machine podman's own systemd mode would bind the outer hierarchy into every machine.
    """
    common = (
        "--privileged",
        "--cgroupns=private",
        "--env",
        "container=podman",
        "--stop-signal",
        "SIGRTMIN+3",
    )
    if pure_v2:
        return (*common, "--systemd=always")
    tmpfs = ("/run:rw,mode=755", "/run/lock", "/tmp:rw,exec")  # noqa: S108 - a mount, not a file
    return (*common, "--systemd=false", *(word for mount in tmpfs for word in ("--tmpfs", mount)))
