# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command that can change nothing outside of one directory.

The tests of the node run as root, and a mutant of it may follow a link out of its temporary root, to
/dev/null for example, and change its access for the whole machine. So everything that is mounted is
read-only here, in a mount namespace of its own (`unshare --mount`), but for that directory and memory.

`unshare --mount --propagation private python contained.py DIRECTORY COMMAND...`
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MEMORY = "/dev/shm"  # noqa: S108 - a file system of its own here


def mounted(table: str) -> list[str]:
    """Where something is mounted, in the order of /proc/self/mountinfo; each place once."""
    places = [line.split()[4] for line in table.splitlines()]
    return list(dict.fromkeys(place.replace("\\040", " ") for place in places))


def main(arguments: list[str]) -> None:
    directory, *command = arguments
    mount("--bind", directory, directory)
    for place in mounted(Path("/proc/self/mountinfo").read_text(encoding="utf-8")):
        if place != directory:
            mount("-o", "remount,bind,ro", place)
    mount("-t", "tmpfs", "tmpfs", MEMORY)
    os.chdir(os.getcwd())  # what was current until now is the read-only view
    os.execvp(command[0], command)  # noqa: S606 - a list, no shell


def mount(*arguments: str) -> None:
    """One that fails ends all: nothing is run unprotected."""
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
