# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache of artifacts by name, version and architecture; shared by all testbeds."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.artifacts import broken, builder, upstream
from testbed.artifacts.recipes import ARTIFACTS, Artifact, Source, artifact
from testbed.basics import files, paths
from testbed.basics.progress import step

RECORD = "artifact.json"


@dataclass(frozen=True)
class Stored:
    """One artifact in the cache."""

    name: str
    version: str
    arch: str
    file: Path
    sha256: str
    origin: str
    """"upstream" for a release file, "built" for one built from its Go module, "broken" on purpose."""


def _directory(name: str, version: str, arch: str) -> Path:
    root = paths.cache() / "artifacts"
    if (
        name,
        version,
    ) in broken.ARTIFACTS:  # beside the real ones, where no other checkout takes them for such
        root /= f".broken-{broken.revision()}"
    return root / name / version / arch


def find(name: str, version: str, arch: str | None = None) -> Stored | None:
    """What the cache holds under that name and version, for this machine's architecture or another one."""
    arch = arch or paths.arch()
    directory = _directory(name, version, arch)
    try:
        record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Stored(name, version, arch, directory / record["file"], record["sha256"], record["origin"])


def stored() -> list[Stored]:
    """All artifacts in the cache, for every architecture."""
    root = paths.cache() / "artifacts"
    real = (
        (name, directory.name)
        for name in ARTIFACTS
        if (root / name).is_dir()
        for directory in sorted((root / name).iterdir())
    )
    return [
        one
        for pair in (*real, *broken.ARTIFACTS)
        for arch in sorted(paths.ARCHITECTURES.values())
        if (one := find(*pair, arch))
    ]


def catalogue(items: Iterable[Stored]) -> dict[str, dict[str, dict[str, str]]]:
    """Digests in the shape of the collection's catalogue."""
    result: dict[str, dict[str, dict[str, str]]] = {}
    for item in items:
        result.setdefault(item.name, {}).setdefault(item.version, {})[item.arch] = item.sha256
    return result


def ensure(wanted: Iterable[tuple[str, str]], arch: str | None = None) -> list[Stored]:
    """Put artifacts (name, version) into the cache: from upstream where verified, else built together.

    arch: for machines of another architecture than this one.
    """
    arch = arch or paths.arch()
    pairs = list(dict.fromkeys(wanted))
    groups: dict[tuple[str, str], list[Artifact]] = {}
    sources: dict[str, Source] = {}
    for name, version in pairs:
        item = artifact(name)
        sources[item.source.name] = item.source
        if find(name, version, arch) is None:
            groups.setdefault((item.source.name, version), []).append(item)
    for (source, version), items in groups.items():
        what = f"{source} {version} for {arch}, which another process is making"
        with files.lock(paths.cache() / "locks" / f"{source}-{version}-{arch}", waiting_for=what):
            missing = [item for item in items if find(item.name, version, arch) is None]
            if missing:
                _obtain(sources[source], version, arch, missing)
    return [one for name, version in pairs if (one := find(name, version, arch))]


def _obtain(source: Source, version: str, arch: str, items: list[Artifact]) -> None:
    root = paths.cache() / "artifacts"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".new-") as name:
        target = Path(name)
        if fault := broken.BROKEN.get((source.name, version)):
            for real in ensure(((item.name, fault.like) for item in items), arch):
                item = artifact(real.name)
                _publish(item, version, arch, broken.make(item, version, arch, real.file, target), "broken")
            return
        to_build = []
        for item in items:
            file = None
            if upstream.reachable() and (wanted := upstream.digest(item, version, arch)):
                with step(f"download {item.name} {version} ({arch})"):
                    file = upstream.fetch(item, version, arch, wanted, target)
            if file:
                _publish(item, version, arch, file, "upstream")
            else:
                to_build.append(item)
        if to_build:
            for built, file in builder.build(source, version, arch, to_build, target).items():
                _publish(artifact(built), version, arch, file, "built")


def _publish(item: Artifact, version: str, arch: str, file: Path, origin: str) -> None:
    final = _directory(item.name, version, arch)
    final.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(dir=final.parent, prefix=".new-"))
    whole.chmod(0o755)
    os.replace(file, whole / file.name)
    record = {"file": file.name, "sha256": files.sha256(whole / file.name), "origin": origin}
    files.write(whole / RECORD, json.dumps(record, indent=1) + "\n")
    if final.exists():  # left half-way by a killed run: a whole one has a record and is never replaced
        shutil.rmtree(final)
    os.replace(whole, final)
