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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .config.document import loads
from .config.model import NodeConfig
from .config.parse import parse
from .engine.lease import held, new_operation
from .engine.state import Store, store_of
from .errors import FileTrouble, FlexNodeError, NotRoot
from .follow.tick import tick
from .identity.choice import PURPOSES, audience_for, identity_for
from .identity.token import claims, exec_credential
from .machine.facts import gather
from .machine.host import Host
from .machine.program import COMMAND, VERSION
from .net.http_client import HttpClient
from .operations.leave import leave
from .operations.reconcile import EVERYTHING, Reconciled, obtain, reconcile, stored_document
from .operations.status import status_of
from .procedures.arc.choice import installer_token, order_of
from .procedures.arc.registration import Outcome, Record, query, register, unregister
from .secret import Secret
from .sources.source import Inline, Source, Stored, Url

Say = Callable[[str], None]
SHOWN = 10  # items of drift in a status


def main(arguments: Sequence[str] | None = None, host: Host | None = None) -> int:
    """Parse, do one thing, answer with an honest exit status."""
    commands = parser()
    options = commands.parse_args(arguments)
    if getattr(options, "durable", False) and not options.config_url:
        commands.error("--durable says something of a URL: it needs --config-url")
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
    check = command(
        "preflight",
        show_preflight,
        "look for everything that would keep this machine from joining",
        root=False,
    )
    add_source(check, required=False)
    check.add_argument(
        "--stage",
        choices=("host", "connectivity", "all"),
        default="all",
        help="the machine, what it reaches, or both",
    )
    check.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="ID",
        help="leave a check out; can be given several times",
    )
    check.add_argument("--json", action="store_true", help="for programs")
    status = command("status", show_status, "how this machine is doing")
    status.add_argument("--json", action="store_true", help="for programs")
    poll = command("poll", look_once, "look once for a new configuration, and follow it")
    poll.add_argument(
        "--hand-over",
        action="store_true",
        help="let a service follow it, as the timer does; say only what is new",
    )
    token = command(
        "token", show_token, "print a token of this machine's Azure identity, as kubelets read it"
    )
    token.add_argument(
        "--identity", metavar="FILE", help="the identity to use (JSON); absent: the stored configuration's"
    )
    token.add_argument(
        "--purpose",
        choices=PURPOSES,
        default=PURPOSES[0],
        help="who it is for: kubernetes (default) or azure",
    )
    token.add_argument("--check", action="store_true", help="say whose it is and for how long, not the token")
    arc = command("arc", show_arc, "this machine in Azure Arc")
    arc.add_argument("action", choices=("status", "register"), help="look, or register as configured")
    arc.add_argument("--json", action="store_true", help="for programs")
    arc.add_argument(
        "--access-token-stdin",
        action="store_true",
        help="read an access token to register with from standard input; absent: azure.servicePrincipal",
    )
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
    gone.add_argument(
        "--access-token-stdin",
        action="store_true",
        help="read an access token to remove the Arc registration with from standard input; absent: "
        "azure.servicePrincipal",
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
    command.add_argument(
        "--durable",
        action="store_true",
        help="the URL stays valid and can be asked again: continuousMonitoring needs it",
    )


def named_source(options: argparse.Namespace, host: Host) -> Source:
    """The source that the command line names."""
    if options.config_url:
        url = sys.stdin.readline().strip() if options.config_url == "-" else options.config_url
        ca = open_text(options.ca_cert) if options.ca_cert else ""
        return Url(url, HttpClient(ca_pem=ca, clock=host.clock), ca)
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
        obtained = obtain(host, source, {}, durable=options.durable)
        say("configuration is valid")
        config = parse(obtained.document, pollable=True)
        if config.azure.arc.enabled:
            arc_registered(host, store_of(host), config, say)
        run = reconcile(host, None, EVERYTHING, tell=say)
    for warning in (*obtained.warnings, *run.warnings):
        complain(f"warning: {warning}")
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
    document = None
    if given:
        source = named_source(options, host)
        document = obtain(host, source, {}, check=True, durable=options.durable).document
    run = reconcile(host, document, EVERYTHING, check=True)
    for step in run.plan.diff if options.diff else ():
        before, after = step["before"].splitlines(), step["after"].splitlines()
        name = step["before_header"]
        show("\n".join(difflib.unified_diff(before, after, f"{name} (now)", f"{name} (then)", lineterm="")))
    for sentence in run.actions:
        show(sentence)
    show(f"{len(run.actions)} change(s)" if run.actions else "nothing to do")
    return 0


def show_preflight(options: argparse.Namespace, host: Host) -> int:
    """Everything that is wrong, at once; exit status 0 means that nothing stands against a join."""
    from .preflight.document import fetched  # here, as no other command needs any of it
    from .preflight.run import run_preflight

    given = options.config or options.config_url
    source: Source = named_source(options, host) if given else Stored(store_of(host))
    read = fetched(host, source, {}, pollable=options.durable or not given)
    report = run_preflight(host, read, options.stage, options.skip)
    show(json.dumps(report.as_dict(), indent=2) if options.json else "\n".join(report.lines()))
    return 0 if report.ok else 1


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
        show(f"monitor  {followed(status['monitoring'])}")
        show(f"drift    {len(status['drift'])} item(s)")
        for sentence in status["drift"][:SHOWN]:
            show(f"         would {sentence}")
        if len(status["drift"]) > SHOWN:
            show(f"         and {len(status['drift']) - SHOWN} more: {COMMAND} plan")
        show(f"reason   {status['reason']}  {status['message']}".rstrip())
    return 0 if status["node"]["ready"] and not status["drift"] else 3


def followed(monitoring: dict[str, Any]) -> str:
    """How the configuration is followed, in one line."""
    if monitoring["status"] == "NotConfigured":
        return "off"
    if monitoring["ok"]:
        return f"Ok  {monitoring['url']}"
    blocked = f"version {monitoring['blockedVersion']}, " if monitoring["blockedVersion"] else ""
    since = f"since {monitoring['since']}"
    return f"{monitoring['status']}  {blocked}{monitoring['code']} {since}: {monitoring['message']}"


def look_once(options: argparse.Namespace, host: Host) -> int:
    """Exit status 3 means: there is a new configuration, and it was refused or did not work."""
    return tick(host, show, show, hand_over=options.hand_over)


def show_token(options: argparse.Namespace, host: Host) -> int:
    """An ExecCredential on standard output: the kubelet's exec plugin."""
    given = loads(open_text(options.identity), where=options.identity) if options.identity else None
    document = stored_document(host, None)[1] if given is None else given
    config = parse(document, purpose="prepare", pollable=True)
    identity = identity_for(config, host, options.purpose)
    token = identity.token(audience_for(config, options.purpose))
    if not options.check:
        show(exec_credential(token))
        return 0
    who = claims(token.value)
    show(f"identity  {identity.name}")
    show(f"object    {who.get('oid', '-')}  tenant {who.get('tid', '-')}")
    show(f"audience  {who.get('aud', '-')}")
    show(f"valid     {token.expires_on - host.clock.now():.0f} s more")
    return 0


def show_arc(options: argparse.Namespace, host: Host) -> int:
    """Exit status 0 means: registered, heard of by Azure, and all services run."""
    config = None
    if options.action == "register":
        store, document = stored_document(host, None)
        config = parse(document, pollable=True)
        say = (lambda _: None) if options.json else speaker(host)
        with held(host, new_operation(), f"{COMMAND} arc register"):
            outcome = arc_registered(host, store, config, say, from_stdin=options.access_token_stdin)
    else:
        outcome = query(host)
    seen = outcome.as_dict()
    if options.json:
        show(json.dumps(seen, indent=2))
    else:
        show(f"agent     {seen['agent_version'] or 'not installed'}  {seen['agent_status']}".rstrip())
        show(f"machine   {seen['resource_id'] or '-'}")
        show(f"services  {', '.join(f'{name} {state}' for name, state in seen['services'].items()) or '-'}")
    healthy = seen["connected"] and all(state == "active" for state in seen["services"].values())
    return 0 if healthy else 3


def arc_registered(
    host: Host, store: Store, config: NodeConfig, say: Say, *, from_stdin: bool = False
) -> Outcome:
    """Registered with Azure Arc as configured."""
    given = Secret(sys.stdin.readline().strip()) if from_stdin else None
    known = query(host).status.registration is not None
    token = given or (None if known else installer_token(config, host))
    return register(host, store, order_of(config, gather(host).hostname), token, tell=say)


def show_version(options: argparse.Namespace, host: Host) -> int:
    """The version, and nothing else."""
    show(VERSION)
    return 0


def leave_cluster(options: argparse.Namespace, host: Host) -> int:
    """Give the machine back; the exit status says whether all of it could be."""
    say = speaker(host)
    given = Secret(sys.stdin.readline().strip()) if options.access_token_stdin else None
    with held(host, new_operation(), f"{COMMAND} unbootstrap"):
        document = remembered(host)  # leaving forgets it
        report = leave(host, drain_seconds=options.drain_seconds, tell=say)
        report.remains += arc_left(host, document, say, given)
    for line in report.complaints:
        complain(line)
    show("this machine was not a node" if not report.changed else "this machine is no longer a node")
    return 1 if report.complaints else 0


def remembered(host: Host) -> Mapping[str, Any] | None:
    """The stored configuration, if it can still be read: the way back must not depend on it."""
    try:
        return store_of(host).current_config()
    except FlexNodeError:
        return None


def arc_left(
    host: Host, document: Mapping[str, Any] | None, say: Say, given: Secret | None = None
) -> list[str]:
    """Take back the registration with Azure Arc, if it was ours; what has to stay, and why."""
    try:
        if "registration" not in Record(host).read() or not query(host).ours:
            return []
        config = parse(document, purpose="prepare", pollable=True) if document else None
        token = given or (installer_token(config, host) if config else None)
        return unregister(host, token, tell=say).remains
    except FlexNodeError as error:
        return [f"registration with Azure Arc: {error.what}: {error.why}. {error.fix}"]


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
