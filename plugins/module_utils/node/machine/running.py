# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main process of a unit, found without asking systemd; and whether it runs the installed binary."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from .host import Host
from .layout import RUN_DIR
from .links import real_path

# Where systemd keeps its groups: cgroup v2, v1, and both at once.
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
CONFIRMED = f"{RUN_DIR}/processes.json"  # processes that are right, though their times say otherwise
TICKS = os.sysconf("SC_CLK_TCK")
LONGEST_COMM = 15  # characters that the kernel keeps of the name of a process
INEXACT = 0.1  # seconds: the kernel rounds the start of a process and the change of a file


def main_process(host: Host, unit: str, name: str) -> int:
    """The process of this name in the unit's own group; 0: there is none, or it can't be told from here."""
    shown = name[:LONGEST_COMM]
    named = (int(pid) for pid in processes(host, unit) if _proc(host, pid, "comm").strip() == shown)
    return next(named, 0)


def processes(host: Host, unit: str) -> Iterator[str]:
    """The processes in the unit's own group, also those that outlived the unit."""
    for top in CGROUPS:
        yield from host.text(f"{top}/system.slice/{unit}/cgroup.procs").split()


def command_line(host: Host, pid: str) -> list[str]:
    """The words with which a process was started; none if it has ended."""
    return _proc(host, pid, "cmdline").split("\0")


def runs_installed(host: Host, pid: int, program: str) -> bool:
    """Whether a process runs the file that a path or link leads to now. One that was replaced does not count.

    Only a process with all capabilities of the other one may read which file that is. In a sandbox without
    them, the times decide: a process that was started after the last change runs what is installed.
    """
    installed = real_path(host, program)
    try:
        running = host.stat(f"/proc/{pid}/exe").target
    except PermissionError:
        return _started_since(host, pid, program, installed) or _is_confirmed(host, pid, program, installed)
    except ProcessLookupError:
        running = ""
    # It may have ended by now. The process of a script is its interpreter.
    return running in ("", installed) or _is_script(host, installed)


def confirm(host: Host, pid: int, program: str) -> None:
    """Note a process that runs what is installed, if its times make a sandbox think otherwise."""
    installed = real_path(host, program)
    if not _started_since(host, pid, program, installed) and not _is_confirmed(host, pid, program, installed):
        known = {**_confirmed(host), program: _identity(host, pid, program, installed)}
        host.make_directories(RUN_DIR, 0o700)
        host.write(CONFIRMED, json.dumps(known).encode(), 0o600, durable=False)


def _started_since(host: Host, pid: int, program: str, installed: str) -> bool:
    """Whether the process was started after its file and the link to it were put in place."""
    uptime, start = host.text("/proc/uptime").split(), _start(host, pid)
    if not uptime or not start:
        return True
    started = host.clock.now() - float(uptime[0]) + start / TICKS
    changed = max(host.stat(path).fingerprint[3] for path in (program, installed)) / 1e9
    return changed <= started + INEXACT


def age_of(host: Host, pid: int) -> float | None:
    """Seconds since the start of a process; None: it has ended, or it can't be told."""
    uptime, start = host.text("/proc/uptime").split(), _start(host, pid)
    return float(uptime[0]) - start / TICKS if uptime and start else None


def _start(host: Host, pid: int) -> int:
    """When the kernel started the process, in ticks since boot; 0: it has ended."""
    fields = _proc(host, str(pid), "stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _identity(host: Host, pid: int, program: str, installed: str) -> list[int]:
    """Identifies a process, and the state of its file and of the link to it."""
    marks = (mark for path in (program, installed) for mark in host.stat(path).fingerprint)
    return [pid, _start(host, pid), *marks]


def _is_confirmed(host: Host, pid: int, program: str, installed: str) -> bool:
    return _confirmed(host).get(program) == _identity(host, pid, program, installed)


def _confirmed(host: Host) -> dict[str, list[int]]:
    try:
        known: dict[str, list[int]] = json.loads(host.text(CONFIRMED) or "{}")
    except ValueError:
        return {}
    return known


def _proc(host: Host, pid: str, name: str) -> str:
    try:
        return host.text(f"/proc/{pid}/{name}")
    except ProcessLookupError:  # it ended while it was read
        return ""


def _is_script(host: Host, path: str) -> bool:
    try:
        with open(host.path(path), "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
