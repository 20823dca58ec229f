# SPDX-License-Identifier: GPL-3.0-or-later
"""Building upstream's programs from their Go modules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from testbed.artifacts import archive, cross, gomod, toolchain
from testbed.artifacts.recipes import Artifact, Source
from testbed.basics import paths
from testbed.basics.process import run
from testbed.basics.progress import step

BUILD_SECONDS = 3600
# What is built once is worth no second look by the compiler's garbage collector, and no debugger reads it.
COLLECTOR = {"GOGC": "400"}
WITHOUT_DEBUG_DATA = "-gcflags=all=-dwarf=false"


def build(
    source: Source, version: str, arch: str, artifacts: Iterable[Artifact], target: Path
) -> dict[str, Path]:
    """Build artifacts of one source in one go into a directory; return name -> file."""
    wanted = list(artifacts)
    programs = [program for artifact in wanted for program in artifact.programs]
    packages = [source.package(program, version) for program in programs]
    with tempfile.TemporaryDirectory(dir=target, prefix=".build-") as name:
        what = f"{', '.join(programs)} {version}"
        output = compile_packages(source, version, arch, Path(name), packages, source.ldflags(version), what)
        return {artifact.name: _pack(artifact, version, arch, output, target) for artifact in wanted}


def compile_packages(
    source: Source,
    version: str,
    arch: str,
    directory: Path,
    packages: Iterable[str],
    ldflags: str,
    what: str,
) -> Path:
    """Compile packages with the modules of one version in a directory; return where the programs are."""
    go = toolchain.find_go()
    env = {
        "CGO_ENABLED": "1" if source.cgo else "0",
        "GOARCH": arch,
        "GOFLAGS": "-buildvcs=false",
        "GOOS": "linux",
        "GOWORK": "off",
        **COLLECTOR,
    }
    if arch != paths.arch():
        what += f" for {arch}"
        if source.cgo:
            env |= cross.prepare(arch, directory / "libraries")
    with step(f"modules of {source.name} {version}"):
        gomod.prepare(source, version, directory, go, env)
    output = directory / "out"
    output.mkdir()
    argv: list[str | Path] = [go, "build", "-trimpath", WITHOUT_DEBUG_DATA, "-ldflags", ldflags]
    argv += ["-o", f"{output}/"]
    if source.tags:
        argv += ["-tags", ",".join(source.tags)]
    with step(f"build {what}"):
        run([*argv, *packages], env=env, cwd=directory, timeout=BUILD_SECONDS)
    return output


def _pack(artifact: Artifact, version: str, arch: str, output: Path, target: Path) -> Path:
    file = target / artifact.path(version, arch).rsplit("/", 1)[1]
    if artifact.member is None:
        os.replace(output / artifact.source.built(artifact.programs[0]), file)
    else:
        built = {program: output / artifact.source.built(program) for program in artifact.programs}
        archive.tar_gz(file, {artifact.member.format(program): path for program, path in built.items()})
    return file
