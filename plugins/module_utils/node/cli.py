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
from typing import Any

from .commands import info, node
from .commands.arc import arc
from .commands.output import complain, show
from .commands.source import add_retry, add_source
from .errors import FlexNodeError, NotRoot
from .identity.choice import PURPOSES
from .machine.host import Host
from .machine.program import COMMAND

LOGGED = ("join", "update", "unbootstrap", "reset")  # commands that change the machine


def main(arguments: Sequence[str] | None = None, host: Host | None = None) -> int:
    """Parse the command line, run one subcommand, return its exit status."""
    commands = parser()
    options = commands.parse_args(arguments)
    if getattr(options, "durable", False) and not options.config_url:
        commands.error("--durable describes a URL: it needs --config-url")
    if getattr(options, "proxy", None) and not options.config_url:
        commands.error("--proxy is used to fetch a URL: it needs --config-url")
    try:
        if options.needs_root and os.geteuid() != 0:
            raise NotRoot(
                f"{COMMAND} {options.command} needs root", fix=f"sudo {COMMAND} {options.command} ..."
            )
        status: int = options.run(options, host or Host())
    except FlexNodeError as error:
        if options.command in LOGGED:
            log_failure(host or Host(), error, options.command)
        if getattr(options, "json", False):
            show(json.dumps({"error": error.as_dict()}, indent=2))
        else:
            complain(error)
        return 1
    except KeyboardInterrupt:
        complain("interrupted: run the same command again, it continues where this one stopped")
        return 130
    return status


def log_failure(host: Host, error: FlexNodeError, command: str) -> None:
    """Log a run that failed before its first step. On a machine whose records are damaged there is no log."""
    from .engine.records.state import store_of
    from .engine.run_log import note_failure

    with contextlib.suppress(FlexNodeError):
        note_failure(host, store_of(host).journal, error, f"{COMMAND} {command}")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog=COMMAND, description="Make this machine a node of an AKS cluster.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[..., int], about: str, *, root: bool = True, **more: Any) -> Any:
        added = commands.add_parser(name, help=about, description=about, **more)
        added.set_defaults(run=run, needs_root=root)
        return added

    join = command("join", node.join, "join the cluster that a configuration names")
    add_source(join, required=True)
    add_retry(join)
    update = command("update", node.update, "apply a new configuration to this node, or its stored one again")
    add_source(update, required=False)
    add_retry(update)
    plan = command("plan", node.plan, "show what would change, and change nothing")
    add_source(plan, required=False)
    plan.add_argument("--diff", action="store_true", help="also show the content of files")
    check = command(
        "preflight", node.preflight, "check everything that would keep this machine from joining", root=False
    )
    add_source(check, required=False)
    check.add_argument(
        "--stage",
        choices=("host", "connectivity", "all"),
        default="all",
        help="check the machine, what it can reach, or both",
    )
    check.add_argument(
        "--skip", action="append", default=[], metavar="ID", help="skip a check; can be repeated"
    )
    check.add_argument("--json", action="store_true", help="print JSON")
    status = command("status", info.status, "show the status of this node")
    status.add_argument("--json", action="store_true", help="print JSON")
    poll = command("poll", node.poll, "check once for a new configuration, and apply it")
    poll.add_argument(
        "--hand-over",
        action="store_true",
        help="let a service apply it, as the timer does; print only what is new",
    )
    poll.add_argument(
        "--drift", action="store_true", help="also compare the whole machine with its configuration now"
    )
    token = command(
        "token", info.token, "print a token of this machine's Azure identity, as an ExecCredential"
    )
    token.add_argument(
        "--identity", metavar="FILE", help="the identity to use (JSON); default: the stored configuration"
    )
    token.add_argument(
        "--purpose",
        choices=PURPOSES,
        default=PURPOSES[0],
        help="what it is for: kubernetes (default) or azure",
    )
    token.add_argument(
        "--check", action="store_true", help="print whose it is and how long it is valid, not the token"
    )
    on_arc = command("arc", arc, "show or register this machine in Azure Arc")
    on_arc.add_argument("action", choices=("status", "register"), help="show, or register as configured")
    on_arc.add_argument("--json", action="store_true", help="print JSON")
    on_arc.add_argument(
        "--access-token-stdin",
        action="store_true",
        help="read the access token for the registration from standard input; default: "
        "azure.servicePrincipal",
    )
    command("version", info.version, "print the version of this program", root=False)
    gone = command(
        "unbootstrap", node.unbootstrap, "leave the cluster and restore the host", aliases=["reset"]
    )
    gone.add_argument(
        "--drain-seconds",
        type=float,
        default=60,
        metavar="N",
        help="seconds that a drain may take (60; 0: no drain)",
    )
    gone.add_argument(
        "--access-token-stdin",
        action="store_true",
        help="read the access token to remove the Arc registration from standard input; default: "
        "azure.servicePrincipal",
    )
    return top
