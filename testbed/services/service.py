# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of the testbed: one program in one container at a fixed address."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from testbed.basics import podman
from testbed.basics.clock import wait_for
from testbed.basics.podman import Container
from testbed.images import recipes
from testbed.images.rootfs import Recipe
from testbed.layout.site import Site

READY_SECONDS = 60


@dataclass(frozen=True)
class Service:
    """How a service runs."""

    name: str
    argv: tuple[str, ...]
    port: int
    mounts: tuple[tuple[Path, str, bool], ...] = ()
    """(outside, inside, writable)"""
    environment: tuple[tuple[str, str], ...] = ()
    revision: str = ""
    recipe: Recipe = recipes.SERVICES
    """The root file system it runs in."""

    def container(self, site: Site) -> Container:
        """The container that runs it."""
        ip = site.plan.service(self.name)
        return Container(
            name=site.container(self.name),
            image=self.recipe.image,
            argv=self.argv,
            network=site.network,
            ip=ip,
            mac=site.plan.mac(ip),
            owner=site.name,
            options=tuple(word for key, value in self.environment for word in ("--env", f"{key}={value}")),
            volumes=tuple(
                f"{outside}:{inside}:{'rw' if writable else 'ro'}"
                for outside, inside, writable in self.mounts
            ),
            revision=self.revision,
        )

    def ensure(self, site: Site) -> bool:
        """Start it if needed; return whether something was done."""
        return podman.ensure(self.container(site))

    def wait(self, site: Site) -> None:
        """Wait until it accepts connections."""
        address = (site.plan.service(self.name), self.port)
        with podman.explained(site.container(self.name)):
            wait_for(f"{self.name} at {address[0]}:{address[1]}", lambda: accepts(*address), READY_SECONDS)


def accepts(host: str, port: int) -> bool:
    """Whether something listens there."""
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
