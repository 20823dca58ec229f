# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels that ansible-core consists of, per Python and architecture; each with its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dataclass import dataclass
from ..errors import NotInCatalogue
from .artifacts import Artifact, mirrored
from .wheel_data import TABLE

if TYPE_CHECKING:
    from ..config.model import NodeConfig
    from ..config.types.values import Arch

ANSIBLE = "ansible-core"
INDEX = "https://pypi.org/simple"
ARCHES: tuple[Arch, ...] = ("amd64", "arm64")


@dataclass(frozen=True)
class Wheel:
    """One file of a Python package, and which Pythons and architectures it is for."""

    name: str
    version: str
    file: str
    sha256: str
    targets: frozenset[str]  # such as 3.11-amd64


def every_wheel() -> list[Wheel]:
    """Return all known wheels; parsed from text, like the catalogue of binaries."""
    words = iter(TABLE.split())
    return [
        Wheel(name, version, file, sha256, frozenset(targets.split(",")))
        for name, version, file, sha256, targets in zip(words, words, words, words, words, strict=True)
    ]


def pythons() -> list[str]:
    """Return the Python versions that wheels are known for, oldest first."""
    found = {target.partition("-")[0] for wheel in every_wheel() for target in wheel.targets}
    return sorted(found, key=lambda python: [int(part) for part in python.split(".")])


def wheels_for(python: str, arch: Arch) -> list[Wheel]:
    """Return the wheels for one Python, by name; an unknown Python is an error."""
    found = [wheel for wheel in every_wheel() if f"{python}-{arch}" in wheel.targets]
    if not found:
        raise NotInCatalogue(
            f"this collection knows no ansible-core for Python {python} on {arch}",
            where="pull.repository",
            why=f"known: Python {', '.join(pythons())}",
            fix="install a newer aks.flexnode, or remove `pull`",
        )
    return sorted(found, key=lambda wheel: wheel.name)


def wheel_artifacts(config: NodeConfig, python: str, arch: Arch) -> list[Artifact]:
    """Return the same as artifacts of a machine's configuration, which says where they come from."""
    return [
        Artifact(wheel.name, wheel.version, arch, url_of(config, wheel), wheel.sha256, "wheel")
        for wheel in wheels_for(python, arch)
    ]


def url_of(config: NodeConfig, wheel: Wheel) -> str:
    """Return where a wheel is: the file itself, or `PAGE#FILE` for a link on a page of an index."""
    pull = config.pull
    if pull.wheels:
        base = f"file://{pull.wheels}" if pull.wheels.startswith("/") else pull.wheels
        return f"{base}/{wheel.file}"
    return in_index(pull.index or mirrored(INDEX, config.mirror.url), wheel)


def in_index(index: str, wheel: Wheel) -> str:
    """Return a wheel of a package index: the page of its package, and the file to look for there."""
    return f"{index.rstrip('/')}/{wheel.name}/#{wheel.file}"
