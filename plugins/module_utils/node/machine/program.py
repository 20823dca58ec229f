# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source files of this program, wherever it runs from: a checkout, a module's archive, a zipapp, /opt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Traversable

VERSION = "0.1.0"
PACKAGE = "flexnode"
COMMAND = "aks-flex-node"

LAUNCHER = f"""#!/usr/bin/python3 -I
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
if sys.argv[1:] == ["poll", "--hand-over"]:  # the timer's, every 30 s: most of the program is not needed
    from {PACKAGE}.follow.tick import main
else:
    from {PACKAGE}.cli import main

sys.exit(main())
"""


def place() -> str:
    """The directory that this program runs from; an installed one is named by the digest of its files."""
    import os

    directory = os.path.abspath(__file__)
    for _level in ("program.py", "machine", PACKAGE):
        directory = os.path.dirname(directory)
    return directory


def sources() -> dict[str, bytes]:
    """All files of the installed command: the version that runs now is the version that is installed."""
    from importlib.resources import files

    found = {COMMAND: LAUNCHER.encode()}
    above = (__package__ or "").rpartition(".")[0]
    collect(files(above), PACKAGE, found)
    return found


def collect(directory: Traversable, prefix: str, found: dict[str, bytes]) -> None:
    """Add the Python files of a directory; what Python or an editor left there is no source."""
    for entry in directory.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.name.endswith(".py"):
            found[name] = entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            collect(entry, name, found)
