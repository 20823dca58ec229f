# SPDX-License-Identifier: GPL-3.0-or-later
"""A node machine that is a systemd container: starts in a second, shares this machine's kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from testbed.artifacts.archive import Entry, tar_bytes
from testbed.basics import podman
from testbed.basics.errors import TestbedError
from testbed.basics.podman import Container
from testbed.basics.process import Completed
from testbed.host import cgroups
from testbed.images import recipes, rootfs
from testbed.machine.machine import Machine

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
class ContainerMachine(Machine):
    """One node machine in a container."""

    boot_seconds = 60

    @property
    def kind(self) -> str:
        """Its platform: it has no kernel of its own."""
        return self.platform

    @property
    def container(self) -> str:
        """Its podman name."""
        return self.site.container(f"node-{self.name}")

    @property
    def pid(self) -> int:
        """Its first process, as this machine sees it."""
        found = podman.inspect(self.container)
        if found is None or not podman.is_running(found):
            raise TestbedError(f"{self.name} is off")
        return int(found["State"]["Pid"])

    def run(
        self, argv: Sequence[str], *, check: bool = True, input: str | None = None, timeout: float = 120
    ) -> Completed:
        """Run a program in it as root from outside, without SSH."""
        flags = ["--interactive"] if input is not None else []
        return podman.podman("exec", *flags, self.container, *argv, check=check, input=input, timeout=timeout)

    def copy_to(self, local: Path | str, remote: str) -> None:
        """Copy a file or directory into it as root."""
        podman.podman("cp", Path(local), f"{self.container}:{remote}")

    def is_running(self) -> bool:
        """Whether it is switched on."""
        return podman.is_running(podman.inspect(self.container))

    def stop(self) -> None:
        """End its processes at once; what they had written stays, unlike in a real power cut."""
        podman.podman("stop", "--time", "0", self.container)

    def reboot(self, grace: int = 20) -> None:
        """Shut it down in order, as far as that is done within grace seconds, and switch it on again."""
        podman.podman("stop", "--time", str(grace), self.container)
        self.start()

    def remove(self) -> None:
        """Remove it with its disks."""
        podman.wait_for_stragglers()
        podman.remove(self.container)
        for volume in self._volumes():
            podman.podman("volume", "rm", "--force", volume, check=False)
        self.forget()

    def prepare(self) -> None:
        """Import the image of its platform."""
        rootfs.ensure(recipes.node(self.platform))

    def _switch_on(self) -> bool:
        return podman.ensure(self._specification(), keep_contents=True)

    def _explained(self) -> AbstractContextManager[None]:
        return podman.explained(self.container)

    def _volumes(self) -> list[str]:
        return [f"{self.container}-{name}" for name in VOLUMES]

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
        return {
            **super()._identity(),
            **routes(self._routes()),
            "etc/machine-id": Entry(f"{self._machine_id()}\n".encode(), 0o444),
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
