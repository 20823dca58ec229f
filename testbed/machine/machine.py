# SPDX-License-Identifier: GPL-3.0-or-later
"""A node machine as tests use it, whatever it is made of: an address, SSH, a power switch."""

from __future__ import annotations

import hashlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.artifacts.archive import Entry
from testbed.basics.clock import wait_for
from testbed.basics.errors import CommandFailed
from testbed.basics.process import Completed
from testbed.images import recipes
from testbed.layout import ssh
from testbed.layout.site import Site


@dataclass(frozen=True)
class Machine(ABC):
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
    @abstractmethod
    def kind(self) -> str:
        """What it is made of, for people: its platform, and what is special about it."""

    @property
    @abstractmethod
    def boot_seconds(self) -> float:
        """How long it may take until SSH answers, and then until everything is started."""

    @abstractmethod
    def run(
        self, argv: Sequence[str], *, check: bool = True, input: str | None = None, timeout: float = 120
    ) -> Completed:
        """Run a program in it as root, for observation: not the way that a user has."""

    @abstractmethod
    def copy_to(self, local: Path | str, remote: str) -> None:
        """Copy a file or directory into it as root."""

    @abstractmethod
    def is_running(self) -> bool:
        """Whether it is switched on."""

    @abstractmethod
    def stop(self) -> None:
        """Switch it off at once, as a power cut does."""

    @abstractmethod
    def reboot(self, grace: int = 20) -> None:
        """Shut it down in order, as far as that is done within grace seconds, and switch it on again."""

    @abstractmethod
    def remove(self) -> None:
        """Remove it with its disks; the cluster keeps its Node object, as it would for a lost machine."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what machines of this kind and platform share, in the cache; the first time takes minutes."""

    @abstractmethod
    def _switch_on(self) -> bool:
        """Switch it on unless it is; return whether something was done."""

    @abstractmethod
    def _explained(self) -> AbstractContextManager[None]:
        """Within it, a wait that failed shows the machine's own last words."""

    def ensure(self) -> bool:
        """Start it if needed, and wait until it is reachable; return whether something was done."""
        done = self._switch_on()
        if done:
            self.wait()
        return done

    def start(self) -> None:
        """Switch it on and wait for SSH."""
        self.ensure()

    def ssh(self, *argv: str) -> list[str]:
        """The command line that reaches it by SSH."""
        return [*ssh.argv(self.ip, self.ssh_user, self.ssh_key, self.known_hosts), *argv]

    def read(self, path: str) -> str:
        """The text of a file in it."""
        return self.run(["cat", path]).stdout

    def wait(self) -> None:
        """Wait until SSH answers and systemd has finished booting."""
        with self._explained():
            wait_for(f"SSH of {self.name}", self._ssh_answers, self.boot_seconds)
            wait_for(f"end of boot of {self.name}", self._booted, self.boot_seconds)

    def host_key(self) -> str:
        """The public line of its host key, generated the first time."""
        return ssh.ensure_key(self._host_key_file, self.name)

    @property
    def _host_key_file(self) -> Path:
        return self.site.directory / "nodes" / f"{self.name}.key"

    def forget(self) -> None:
        """Delete its record; call it last: a removal cut short can be taken up again."""
        self._host_key_file.unlink(missing_ok=True)
        self._host_key_file.with_suffix(".json").unlink(missing_ok=True)

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

    def _identity(self) -> dict[str, Entry]:
        """What makes this machine itself: its host key, who may log in."""
        public = self.host_key()
        home = f"home/{self.ssh_user}/.ssh"
        user_key = ssh.ensure_key(self.ssh_key, f"testbed-{self.site.name}")
        return {
            "etc/ssh/ssh_host_ed25519_key": Entry(self._host_key_file.read_bytes(), 0o600),
            "etc/ssh/ssh_host_ed25519_key.pub": Entry(f"{public}\n".encode()),
            home: Entry(None, 0o700, recipes.SSH_USER_ID),
            f"{home}/authorized_keys": Entry(f"{user_key}\n".encode(), 0o600, recipes.SSH_USER_ID),
        }

    def _routes(self) -> list[tuple[str, str]]:
        """Its way to the pods of other nodes, as a router of the site would have it: (target, next hop)."""
        return [("default", self.router)] if self.router else self.site.plan.pod_routes(self.ip)

    def _machine_id(self) -> str:
        return hashlib.sha256(f"{self.site.name}/{self.name}/{self.ip}".encode()).hexdigest()[:32]
