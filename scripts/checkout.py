# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkout: where it is, which files are its own, and which of them users get."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aks-flexnode"
"""What is costly to make and the same for all checkouts of a user."""


def galaxy() -> dict[str, Any]:
    """The collection's metadata."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    return document


def own_files() -> list[PurePosixPath]:
    """Files that git tracks or would track; never ignored ones, so that local secrets stay local."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = sorted(set(filter(None, listing.stdout.split("\0"))))
    return [PurePosixPath(name) for name in names if (ROOT / name).is_file()]


def shipped_files() -> list[PurePosixPath]:
    """Own files that are part of the collection's tarball."""
    patterns: list[str] = galaxy()["build_ignore"]

    def ignored(file: PurePosixPath) -> bool:
        parts = [str(file), *map(str, file.parents)]
        return any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in patterns)

    return [file for file in own_files() if not ignored(file)]


def copy(files: Iterable[PurePosixPath], destination: Path) -> None:
    """Make destination hold exactly these files of the checkout."""
    shutil.rmtree(destination, ignore_errors=True)
    for file in files:
        target = destination / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target)
