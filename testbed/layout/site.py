# SPDX-License-Identifier: GPL-3.0-or-later
"""What every part of one testbed shares: its name, its directory, its addresses, its CA."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.layout import versions
from testbed.layout.pki import Authority
from testbed.layout.plan import Plan, free_subnet

PREFIX = "tb"


@dataclass(frozen=True)
class Site:
    """One testbed on this machine."""

    name: str
    directory: Path
    plan: Plan
    network: str
    """Its podman network; a new one per testbed: podman never releases an address that it assigned in one."""

    @property
    def authority(self) -> Authority:
        """The CA of everything that is not Kubernetes' own: mirror, registry, etcd."""
        return Authority(self.directory / "pki", "ca", f"testbed {self.name} CA")

    def container(self, name: str) -> str:
        """The podman name of a service or node."""
        return f"{PREFIX}-{self.name}-{name}"

    def setting(self, key: str, default: str) -> str:
        """A remembered choice, e.g. the signing duration."""
        return str(_read(self.directory / "settings.json").get(key, default))

    @property
    def kubernetes(self) -> str:
        """The version of its control plane."""
        return self.setting("kubernetes", versions.KUBERNETES)

    @property
    def architectures(self) -> tuple[str, ...]:
        """Those of its machines: this machine's own first, then what was added."""
        own = paths.arch()
        return (own, *(arch for arch in self.setting("architectures", "").split() if arch != own))

    def remember(self, key: str, value: str) -> None:
        """Keep a choice for later runs."""
        path = self.directory / "settings.json"
        files.write(path, json.dumps({**_read(path), key: value}, indent=1) + "\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def load(name: str) -> Site | None:
    """The testbed of that name if it was ever started."""
    directory = paths.state(name)
    record = _read(directory / "site.json")
    if not record:
        return None
    return Site(
        name, directory, Plan(IPv4Network(record["subnet"])), record.get("network", f"{PREFIX}-{name}")
    )


def require(name: str) -> Site:
    """The testbed of that name, or an error that says how to get it."""
    if site := load(name):
        return site
    raise TestbedError(f"testbed {name} is not up: run 'python -m testbed up'")


def create(name: str, taken: Iterable[IPv4Network], kubernetes: str | None = None) -> Site:
    """The testbed of that name, with a subnet chosen the first time among those not taken.

    kubernetes: the version of its control plane, also chosen the first time: what one version has stored,
    another may not read.
    """
    if kubernetes:
        versions.line(kubernetes)
    directory = paths.state(name)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with files.lock(directory.parent / "sites.lock"):
        if site := load(name):
            if kubernetes and kubernetes != site.kubernetes:
                raise TestbedError(
                    f"testbed {name} has a control plane of Kubernetes {site.kubernetes}: "
                    "run 'python -m testbed down' first, or choose another name"
                )
            return site
        if kubernetes:
            files.write(directory / "settings.json", json.dumps({"kubernetes": kubernetes}, indent=1) + "\n")
        subnet = free_subnet(name, [*taken, *_planned()])
        network = f"{PREFIX}-{name}-{secrets.token_hex(3)}"
        files.write(directory / "site.json", json.dumps({"subnet": str(subnet), "network": network}) + "\n")
    return Site(name, directory, Plan(subnet), network)


def others(name: str) -> list[str]:
    """The other testbeds on this machine."""
    return sorted(
        path.parent.name for path in paths.state(name).parent.glob("*/site.json") if path.parent.name != name
    )


def _planned() -> list[IPv4Network]:
    found = (site for name in others("") if (site := load(name)))
    return [site.plan.subnet for site in found]
