# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions made of real ones, in which one binary is another: one with a fault, or only with another number.

Each has a version and digests of its own, so that a node fetches, verifies and installs it like any other.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from testbed.artifacts import archive, builder
from testbed.artifacts.recipes import KUBERNETES, Artifact
from testbed.basics import files
from testbed.basics.errors import TestbedError
from testbed.layout import versions

SOURCES = Path(__file__).resolve().parent.parent / "builds" / "broken"


@dataclass(frozen=True)
class Broken:
    """The binary that is replaced; everything else is taken from a real version."""

    binary: str
    like: str
    """The real version."""
    fault: str | None = None
    """Compiled in from builds/broken/BINARY.go; None: the script builds/broken/BINARY.sh is the binary."""
    renumbered: bool = False
    """The real binary, which says that it has the number of this version."""


BROKEN: dict[tuple[str, str], Broken] = {
    ("kubernetes", versions.KUBERNETES_RENUMBERED): Broken("kubelet", versions.KUBERNETES, renumbered=True),
    ("kubernetes", versions.KUBELET_EXITS): Broken("kubelet", versions.KUBERNETES),
    ("kubernetes", versions.KUBELET_NEVER_READY): Broken("kubelet", versions.KUBERNETES, "never-ready"),
    ("kubernetes", versions.KUBELET_STOPS): Broken("kubelet", versions.KUBERNETES, "stops"),
    ("containerd", versions.CONTAINERD_REFUSES): Broken("containerd", versions.CONTAINERD),
    ("npd", versions.NPD_EXITS): Broken("node-problem-detector", versions.NPD),
    ("npd", versions.NPD_SILENT): Broken("node-problem-detector", versions.NPD),
}
"""(name of the source, version) -> what is replaced in it"""

ARTIFACTS: tuple[tuple[str, str], ...] = tuple(
    (name, version) for source, version in BROKEN for name in versions.SOFTWARE[source]
)
"""All their files: (name of the artifact, version)."""


@lru_cache(maxsize=1)
def revision() -> str:
    """Changes with the faults, so that a cache never serves those of another checkout."""
    texts = [(file.name, file.read_text(encoding="utf-8")) for file in sorted(SOURCES.iterdir())]
    return hashlib.sha256(repr((texts, sorted(BROKEN.items()))).encode()).hexdigest()[:12]


def make(artifact: Artifact, version: str, arch: str, real: Path, target: Path) -> Path:
    """The file of one artifact of a broken version, in a directory; `real` is that of the real version."""
    broken = BROKEN[artifact.source.name, version]
    file = target / artifact.path(version, arch).rsplit("/", 1)[1]
    if broken.binary not in artifact.programs:
        os.link(real, file)
    elif artifact.member is None:
        os.replace(_binary(broken, version, arch, target, real), file)
    else:
        with tempfile.TemporaryDirectory(dir=target, prefix=".parts-") as name:
            parts = unpacked(real, artifact, Path(name))
            parts[broken.binary] = _binary(broken, version, arch, target, parts[broken.binary])
            archive.tar_gz(file, {artifact.member.format(part): path for part, path in parts.items()})
    return file


def unpacked(tarball: Path, artifact: Artifact, target: Path) -> dict[str, Path]:
    """The programs of a tarball, in a directory."""
    found = {}
    with tarfile.open(tarball) as opened:
        for program in artifact.programs:
            content = opened.extractfile(str(artifact.member).format(program))
            if content is None:
                raise TestbedError(f"{tarball} has no file {program}: remove it and run again")
            found[program] = target / program
            with found[program].open("wb") as stream:
                shutil.copyfileobj(content, stream)
    return found


def _binary(broken: Broken, version: str, arch: str, target: Path, real: Path) -> Path:
    if broken.fault:
        return _compiled(broken, version, arch, target)
    file = target / f".{broken.binary}"
    if broken.renumbered:
        files.write(file, renumbered(real.read_bytes(), broken.like, version), 0o755)
        return file
    files.write(file, script(broken.binary, version), 0o755)
    return file


def renumbered(binary: bytes, old: str, new: str) -> bytes:
    """A Go program with another number: the linker put it there as a text, whose length must stay."""
    if len(old) != len(new):
        raise TestbedError(f"version {new} must be as long as {old} to take its place")
    # Names of source files have it too, and stay.
    found, times = re.subn(rb"\0v%s(?=\0)" % re.escape(old.encode()), b"\0v%s" % new.encode(), binary)
    if not times:
        raise TestbedError(f"there is no version {old} in the program that is to say {new}")
    return found


def script(binary: str, version: str) -> str:
    """A shell script in place of a binary, which knows its version as the real one does."""
    return (SOURCES / f"{binary}.sh").read_text(encoding="utf-8").replace("@VERSION@", version)


def _compiled(broken: Broken, version: str, arch: str, target: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=target, prefix=".build-") as name:
        directory = Path(name)
        files.write(directory / broken.binary / "main.go", (SOURCES / f"{broken.binary}.go").read_bytes())
        flags = f"{KUBERNETES.ldflags(version)} -X main.fault={broken.fault}"
        output = builder.compile_packages(
            KUBERNETES,
            broken.like,
            arch,
            directory,
            [f"./{broken.binary}"],
            flags,
            f"{broken.binary} {version}",
        )
        file = target / f".{broken.binary}"
        os.replace(output / broken.binary, file)
    return file
