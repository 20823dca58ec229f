# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The aks-flex-node command: the same engine, for someone at the machine."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .config.document import loads
from .errors import FileTrouble, FlexNodeError, NotRoot
from .host import Host
from .http_client import HttpClient
from .lease import held, new_operation
from .leave import leave
from .operations import EVERYTHING, Reconciled, obtain, reconcile
from .program import COMMAND, VERSION
from .sources import Inline, Source, Url
from .status import status_of

Say = Callable[[str], None]
SHOWN = 10  # items of drift in a status


def main(arguments: Sequence[str] | None = None, host: Host | None = None) -> int:
    """Parse, do one thing, answer with an honest exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.needs_root and os.geteuid() != 0:
            raise NotRoot(
                f"{COMMAND} {options.command} needs root", fix=f"sudo {COMMAND} {options.command} ..."
            )
        status: int = options.run(options, host or Host())
    except FlexNodeError as error:
        if getattr(options, "json", False):
            show(json.dumps({"error": error.as_dict()}, indent=2))
        else:
            complain(error)
        return 1
    except KeyboardInterrupt:
        complain("interrupted: the same command continues where this one stopped")
        return 130
    return status


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog=COMMAND, description="Make this machine a node of an AKS cluster.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[..., int], about: str, *, root: bool = True, **more: Any) -> Any:
        added = commands.add_parser(name, help=about, description=about, **more)
        added.set_defaults(run=run, needs_root=root)
        return added

    join = command("join", join_cluster, "join the cluster that a configuration names")
    add_source(join, required=True)
    plan = command("plan", show_plan, "show what would change, and change nothing")
    add_source(plan, required=False)
    plan.add_argument("--diff", action="store_true", help="show the content of files too")
    status = command("status", show_status, "how this machine is doing")
    status.add_argument("--json", action="store_true", help="for programs")
    command("version", show_version, "version of this program", root=False)
    gone = command(
        "unbootstrap", leave_cluster, "leave the cluster and restore what was here before", aliases=["reset"]
    )
    gone.add_argument(
        "--drain-seconds",
        type=float,
        default=60,
        metavar="N",
        help="how long pods may take to leave (60; 0: no drain)",
    )
    return top


def add_source(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Where the configuration is."""
    source = command.add_mutually_exclusive_group(required=required)
    source.add_argument(
        "--config", metavar="FILE", help="a configuration file (JSON); - reads standard input"
    )
    source.add_argument(
        "--config-url",
        metavar="URL",
        help="a configuration URL; - reads it from standard input, where other users can't see it",
    )
    command.add_argument("--ca-cert", metavar="FILE", help="CA of the URL's server, if it is a private one")


def named_source(options: argparse.Namespace, host: Host) -> Source:
    """The source that the command line names."""
    if options.config_url:
        url = sys.stdin.readline().strip() if options.config_url == "-" else options.config_url
        ca = open_text(options.ca_cert) if options.ca_cert else ""
        return Url(url, HttpClient(ca_pem=ca, clock=host.clock))
    text = sys.stdin.read() if options.config == "-" else open_text(options.config)
    return Inline(loads(text, where=options.config))


def open_text(path: str) -> str:
    """A file of the user's; a missing one is an answer, not a traceback."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise FileTrouble(
            "can't be read",
            where=path,
            why=os.strerror(error.errno or 0),
            fix="check the path and its mode",
        ) from error


def join_cluster(options: argparse.Namespace, host: Host) -> int:
    """Fetch the configuration and follow it, until the Node is Ready."""
    say, start = speaker(host), host.clock.monotonic()
    source = named_source(options, host)
    with held(host, new_operation(), f"{COMMAND} join"):
        obtain(host, source, {})
        say("configuration is valid")
        run = reconcile(host, None, EVERYTHING, tell=say)
    show(joined(run, host.clock.monotonic() - start))
    return 0


def joined(run: Reconciled, seconds: float) -> str:
    """The result in one line."""
    node, spent = run.node, run.timings
    parts = ", ".join(f"{part} {spent.get(part, 0):.1f}" for part in ("fetch", "apply", "start", "gate"))
    verb = "joined" if run.changed else "unchanged"
    versions = f"v{node['kubeletVersion']}  {node['containerRuntime']}"
    return f"{node['name']}  Ready  {versions}  {verb} in {seconds:.1f} s  ({parts})"


def show_plan(options: argparse.Namespace, host: Host) -> int:
    """The plan as sentences, one a line."""
    given = options.config or options.config_url
    document = obtain(host, named_source(options, host), {}, check=True).document if given else None
    run = reconcile(host, document, EVERYTHING, check=True)
    for step in run.plan.diff if options.diff else ():
        before, after = step["before"].splitlines(), step["after"].splitlines()
        name = step["before_header"]
        show("\n".join(difflib.unified_diff(before, after, f"{name} (now)", f"{name} (then)", lineterm="")))
    for sentence in run.actions:
        show(sentence)
    show(f"{len(run.actions)} change(s)" if run.actions else "nothing to do")
    return 0


def show_status(options: argparse.Namespace, host: Host) -> int:
    """Exit status 0 means: a Ready node that is what its configuration says."""
    status = status_of(host)
    if options.json:
        show(json.dumps(status, indent=2))
    else:
        node, config = status["node"], status["config"]
        show(f"phase    {status['phase']}")
        show(f"node     {node['status']}  {node.get('name', '')}  {node.get('kubeletVersion', '')}".rstrip())
        show(f"config   version {config['version'] or '-'}, applied {config['appliedVersion'] or '-'}")
        show(f"drift    {len(status['drift'])} item(s)")
        for sentence in status["drift"][:SHOWN]:
            show(f"         would {sentence}")
        if len(status["drift"]) > SHOWN:
            show(f"         and {len(status['drift']) - SHOWN} more: {COMMAND} plan")
        show(f"reason   {status['reason']}  {status['message']}".rstrip())
    return 0 if status["node"]["ready"] and not status["drift"] else 3


def show_version(options: argparse.Namespace, host: Host) -> int:
    """The version, and nothing else."""
    show(VERSION)
    return 0


def leave_cluster(options: argparse.Namespace, host: Host) -> int:
    """Give the machine back; the exit status says whether all of it could be."""
    say = speaker(host)
    with held(host, new_operation(), f"{COMMAND} unbootstrap"):
        report = leave(host, drain_seconds=options.drain_seconds, tell=say)
    if report.node_remains:
        complain(
            f"left: Node {report.node} ({report.node_remains}); delete it: kubectl delete node {report.node}"
        )
    for line in report.remains:
        complain(f"left: {line}")
    show("this machine was not a node" if not report.changed else "this machine is no longer a node")
    return 1 if report.remains or report.node_remains else 0


def show(text: object) -> None:
    """To standard output, at once: progress is worth nothing later."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: object) -> None:
    """To standard error."""
    sys.stderr.write(f"{text}\n")


def speaker(host: Host) -> Say:
    """Progress, each line with the seconds since the start."""
    start = host.clock.monotonic()

    def say(sentence: str) -> None:
        show(f"{host.clock.monotonic() - start:6.1f} s  {sentence}")

    return say
