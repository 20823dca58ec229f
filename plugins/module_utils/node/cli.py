# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The aks-flex-node command: the same engine as the modules, for an administrator at the machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Sequence

from .commands.options import CHANGING, check, parser
from .commands.output import complain, show
from .errors import FlexNodeError, NotRoot
from .machine.disk import explained
from .machine.host import Host
from .machine.program import COMMAND

Run = Callable[[argparse.Namespace, Host], int]


def main(arguments: Sequence[str] | None = None, host: Host | None = None) -> int:
    """Parse the command line, run one subcommand, return its exit status."""
    commands = parser()
    options = commands.parse_args(arguments)
    check(commands, options)
    host = host or Host()
    try:
        if options.needs_root and os.geteuid() != 0:
            raise NotRoot(
                f"{COMMAND} {options.command} needs root", fix=f"sudo {COMMAND} {options.command} ..."
            )
        return carried_out(options, host)
    except FlexNodeError as error:
        if options.command in CHANGING:
            log_failure(host, error, options.command)
        if getattr(options, "json", False):
            show(json.dumps({"error": error.as_dict()}, indent=2))
        else:
            complain(error)
        return 1
    except KeyboardInterrupt:
        complain("interrupted: run the same command again, it continues where this one stopped")
        return 130


def carried_out(options: argparse.Namespace, host: Host) -> int:
    """Run the subcommand. An error of the file system that nobody foresaw says at least where it was."""
    try:
        return load(options.function)(options, host)
    except OSError as error:
        with explained(str(error.filename or COMMAND)):
            raise


def load(name: str) -> Run:
    """The function of a subcommand; only what it needs is imported."""
    run: Run
    if name in ("status", "token", "version"):
        from .commands import info

        run = getattr(info, name)
    elif name in ("health", "agent", "problem"):
        from .commands import watching

        run = getattr(watching, name)
    elif name == "logs":
        from .commands.logs import logs as run
    elif name == "debug":
        from .commands.debug import debug as run
    elif name == "arc":
        from .commands.arc import arc as run
    else:
        from .commands import node

        run = getattr(node, name)
    return run


def log_failure(host: Host, error: FlexNodeError, command: str) -> None:
    """Log a run that failed before its first step. On a machine whose records are damaged there is no log."""
    from .engine.records.state import store_of
    from .engine.run_log import note_failure

    with contextlib.suppress(FlexNodeError):
        note_failure(host, store_of(host).journal, error, f"{COMMAND} {command}")
