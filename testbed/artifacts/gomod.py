# SPDX-License-Identifier: GPL-3.0-or-later
"""The small Go module that pins what a build uses: rendered here, locked by go.mod and go.sum."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.artifacts.recipes import BUILDS, Source
from testbed.basics import files, paths
from testbed.basics.process import run

PINNED = BUILDS
"""go.mod and go.sum of the versions in versions.py, committed: those builds are pinned to the byte."""

DOWNLOAD_SECONDS = 900


def tools_go(packages: Iterable[str]) -> str:
    """A file that makes the module depend on the programs without being compiled."""
    imports = "".join(f'\t_ "{package}"\n' for package in sorted(packages))
    return f"//go:build tools\n\npackage tools\n\nimport (\n{imports})\n"


def go_mod(upstream_go_mod: str, module: str, version: str, name: str) -> str:
    """A go.mod that requires one release, with upstream's language version and local replacements resolved.

    Kubernetes replaces its staging modules by directories that a module download does not hold;
    each is published under its own path as v0.MINOR.PATCH.
    """
    language = re.search(r"^go .*$", upstream_go_mod, re.MULTILINE)
    debug = re.search(r"^godebug .*$", upstream_go_mod, re.MULTILINE)
    staging = re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging/", upstream_go_mod, re.MULTILINE)
    lines = [f"module testbed/{name}", "", language.group(0) if language else "go 1.24"]
    if debug:
        lines += ["", debug.group(0)]
    lines += ["", f"require {module} v{version}"]
    if staging:
        published = "v0." + version.split(".", 1)[1]
        lines += ["", "replace (", *(f"\t{path} => {path} {published}" for path in sorted(staging)), ")"]
    return "\n".join(lines) + "\n"


def prepare(source: Source, version: str, directory: Path, go: Path, env: Mapping[str, str]) -> None:
    """Put go.mod, go.sum and tools.go of a build into a directory, pinned ones where they exist."""
    if source.main:
        (program,) = source.programs
        files.write(directory / program / "main.go", source.main.read_bytes())
    else:
        packages = [source.package(program, version) for program in source.programs]
        files.write(directory / "tools.go", tools_go(packages))
    for origin in (PINNED / source.name / version, paths.cache() / "modules" / source.name / version):
        if (origin / "go.sum").is_file():
            for name in ("go.mod", "go.sum"):
                files.write(directory / name, (origin / name).read_bytes())
            return
    module = source.module_path(version)
    answer = run(
        [go, "mod", "download", "-json", f"{module}@v{version}"],
        env=env,
        cwd=directory,
        timeout=DOWNLOAD_SECONDS,
    )
    upstream = Path(json.loads(answer.stdout)["GoMod"]).read_text(encoding="utf-8")
    files.write(directory / "go.mod", go_mod(upstream, module, version, source.name))
    run([go, "mod", "tidy"], env=env, cwd=directory, timeout=DOWNLOAD_SECONDS)
    pins = paths.cache() / "modules" / source.name / version
    for name in ("go.mod", "go.sum"):  # go.sum last: its presence means the pair is whole
        files.write(pins / name, (directory / name).read_bytes())
