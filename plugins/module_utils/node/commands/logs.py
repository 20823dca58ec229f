# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `logs`: what was done on this machine, from the log file and the system's journal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from ..engine.records.state import store_of
from ..engine.run_log import log_of
from ..machine.host import Host
from ..machine.program import COMMAND
from ..resources.log_file import HEADER, rotated
from .output import complain, show


def logs(options: argparse.Namespace, host: Host) -> int:
    """Print the last lines of the log file, older files included; with --follow then the journal, live."""
    path = log_of(store_of(host).journal)
    if options.journal or not path:
        if not path and not options.journal:
            complain("this machine is no node and has no log file: this is the system's journal")
        if options.follow:
            return live(options.lines)
        shown = host.run(journalctl("--no-pager", *last(options.lines)), timeout=120)
        sys.stdout.write(shown.stdout)
        return 0
    found = list(lines_of(host, path))
    for line in found[-options.lines :] if options.lines else found:
        show(line)
    # The file is written at the end of a run, the journal at once.
    return live(0) if options.follow else 0


def lines_of(host: Host, path: str) -> Iterator[str]:
    """All lines, the oldest first."""
    for file in (*reversed(rotated(host, path)), path):
        for line in host.text(file).splitlines():
            if line != HEADER.decode().strip():
                yield line


def journalctl(*options: str) -> list[str]:
    """The lines of our command, whether it was typed, run by Ansible or by a timer."""
    return ["journalctl", "-t", COMMAND, "-o", "short-iso", *options]


def last(lines: int) -> list[str]:
    """The option that limits the lines."""
    return ["-n", str(lines)] if lines else []


def live(lines: int) -> int:
    """Become journalctl, until the user interrupts it."""
    argv = journalctl("-f", "-n", str(lines))
    os.execvp(argv[0], argv)  # noqa: S606 - there is no shell on purpose
