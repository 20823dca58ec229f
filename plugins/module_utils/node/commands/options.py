# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the command. Nothing heavy is imported here: a health probe runs every few seconds."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from ..machine.program import COMMAND

PURPOSES = ("kubernetes", "azure")  # as in identity/choice.py, which is heavy
WITH_POOL = ("join", "preflight")  # commands that take the options of a pool
CHANGING = ("join", "update", "unbootstrap", "reset")  # commands that change the machine, and are logged


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog=COMMAND, description="Make this machine a node of an AKS cluster.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about, root, add_options in COMMANDS:
        aliases = ["reset"] if name == "unbootstrap" else []
        added = commands.add_parser(name, help=about, description=about, aliases=aliases)
        added.set_defaults(needs_root=root, function=name)
        add_options(added)
    return top


def check(commands: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """What argparse can't express; a wrong command line ends with 2."""
    if getattr(options, "durable", False) and not options.config_url:
        commands.error("--durable describes a URL: it needs --config-url")
    if getattr(options, "proxy", None) and not options.config_url:
        commands.error("--proxy is used to fetch a URL: it needs --config-url")
    if options.command in WITH_POOL:
        check_pool(commands, options)


def check_pool(commands: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """A pool is named by its cluster, its name and the identity that may use it, and by nothing else."""
    named = {"--cluster": options.cluster, "--pool": options.pool, "--identity": options.identity}
    if missing := [name for name, value in named.items() if not value]:
        given = [name for name, value in named.items() if value]
        if given:
            commands.error(f"{' and '.join(given)} needs {' and '.join(missing)}")
        if options.command == "join" and not (options.config or options.config_url):
            commands.error(
                "name a configuration: --config, --config-url, or --cluster, --pool and --identity"
            )
        if options.client_id or options.tenant_id or options.client_secret_file:
            commands.error("--client-id, --tenant-id and --client-secret-file describe --identity")
        return
    if options.config_url:
        commands.error("--config-url and --pool are two sources: name one of them")
    if options.client_secret_file and options.identity != "servicePrincipal":
        commands.error("--client-secret-file is of --identity servicePrincipal")
    if options.identity == "arc" and options.client_id:
        commands.error("--client-id: an Arc machine has one identity")


def no_options(command: argparse.ArgumentParser) -> None:
    """A command without options."""


def add_source(command: argparse.ArgumentParser) -> None:
    """Add the options that name a configuration."""
    source = command.add_mutually_exclusive_group()
    source.add_argument(
        "--config",
        metavar="FILE",
        help="a configuration file (JSON, or YAML with python3-yaml); - reads standard input",
    )
    source.add_argument(
        "--config-url",
        metavar="URL",
        help="a configuration URL; - reads it from standard input, where other users can't see it",
    )
    command.add_argument("--ca-cert", metavar="FILE", help="CA of the URL's server, if it is a private one")
    command.add_argument(
        "--proxy",
        metavar="URL",
        help="proxy to fetch the configuration through; - reads it from standard input, after a URL that is "
        "read from there. All else uses the proxy of the configuration",
    )
    command.add_argument(
        "--durable",
        action="store_true",
        help="the URL stays valid and can be polled; required by continuousMonitoring",
    )


def add_pool(command: argparse.ArgumentParser) -> None:
    """Add the options that name a FlexNodes pool of a cluster, and the identity that may use it."""
    pool = command.add_argument_group("FlexNodes pool", "--config may be added: its settings have priority")
    pool.add_argument("--cluster", metavar="ID", help="resource id of the cluster: az aks show --query id")
    pool.add_argument("--pool", metavar="NAME", help="a pool of type FlexNodes of this cluster")
    pool.add_argument(
        "--identity",
        choices=("arc", "managedIdentity", "servicePrincipal"),
        help="the Azure identity of this machine, which has role 8f139b0f-7eaf-460b-a9da-5b1246d9ed0d "
        "(Azure Kubernetes Service Flex Node Agent Role) at the pool",
    )
    pool.add_argument("--client-id", metavar="ID", help="of a service principal or user-assigned identity")
    pool.add_argument("--tenant-id", metavar="ID", help="its tenant; default: what the identity says")
    pool.add_argument(
        "--client-secret-file", metavar="FILE", help="a file on this machine with the principal's secret"
    )


def add_retry(command: argparse.ArgumentParser) -> None:
    """Add the option that lifts a block."""
    command.add_argument(
        "--retry", action="store_true", help="also apply a configuration that was rolled back before"
    )


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the option for programs that read the answer."""
    command.add_argument("--json", action="store_true", help="print JSON")


def add_skip(command: argparse.ArgumentParser) -> None:
    """Add the option that skips checks."""
    command.add_argument(
        "--skip", action="append", default=[], metavar="ID", help="skip a check; can be repeated"
    )


def add_token(command: argparse.ArgumentParser, what: str) -> None:
    """Add the option that reads a token where other users can't see it."""
    command.add_argument(
        "--access-token-stdin",
        action="store_true",
        help=f"read the access token {what} from standard input; default: azure.servicePrincipal",
    )


def join(command: argparse.ArgumentParser) -> None:
    """Options of join."""
    add_source(command)
    add_pool(command)
    add_retry(command)
    add_skip(command)


def update(command: argparse.ArgumentParser) -> None:
    """Options of update."""
    add_source(command)
    add_retry(command)
    command.add_argument(
        "--no-wait",
        action="store_true",
        help="do not wait for the turn of this node (upgrade.maxUnavailable): fail with FLEX-1522 instead",
    )


def plan(command: argparse.ArgumentParser) -> None:
    """Options of plan."""
    add_source(command)
    command.add_argument("--diff", action="store_true", help="also show the content of files")


def preflight(command: argparse.ArgumentParser) -> None:
    """Options of preflight."""
    add_source(command)
    add_pool(command)
    command.add_argument(
        "--stage",
        choices=("host", "connectivity", "all"),
        default="all",
        help="check the machine, what it can reach, or both",
    )
    add_skip(command)
    add_json(command)


def poll(command: argparse.ArgumentParser) -> None:
    """Options of poll."""
    command.add_argument(
        "--drift", action="store_true", help="also compare the whole machine with its configuration now"
    )
    command.add_argument(
        "--hand-over",
        action="store_true",
        help="let a service apply it, as the timer does; print only what is new",
    )


def pull(command: argparse.ArgumentParser) -> None:
    """Options of pull."""
    command.add_argument(
        "--delay", type=int, default=0, metavar="N", help="start N seconds later, as cron's line says"
    )


def logs(command: argparse.ArgumentParser) -> None:
    """Options of logs."""
    command.add_argument("--lines", type=int, default=50, metavar="N", help="the last N lines (50; 0: all)")
    command.add_argument("--follow", action="store_true", help="keep printing new lines as they are logged")
    command.add_argument(
        "--journal",
        action="store_true",
        help="print the system's journal instead of the log file: also polls, and runs after unbootstrap",
    )


def debug(command: argparse.ArgumentParser) -> None:
    """Options of debug."""
    command.add_argument(
        "--output",
        metavar="FILE",
        help="where to write the bundle; default: aks-flex-node-debug-HOST-TIME.tar.gz in this directory",
    )
    command.add_argument(
        "--lines", type=int, default=2000, metavar="N", help="lines of the journal per unit (2000)"
    )


def token(command: argparse.ArgumentParser) -> None:
    """Options of token."""
    command.add_argument(
        "--identity", metavar="FILE", help="the identity to use (JSON); default: the stored configuration"
    )
    command.add_argument(
        "--purpose",
        choices=PURPOSES,
        default=PURPOSES[0],
        help="what it is for: kubernetes (default) or azure",
    )
    command.add_argument(
        "--check", action="store_true", help="print whose it is and how long it is valid, not the token"
    )


def arc(command: argparse.ArgumentParser) -> None:
    """Options of arc."""
    command.add_argument("action", choices=("status", "register"), help="show, or register as configured")
    add_json(command)
    add_token(command, "for the registration")


def unbootstrap(command: argparse.ArgumentParser) -> None:
    """Options of unbootstrap."""
    command.add_argument(
        "--drain-seconds",
        type=float,
        default=120,
        metavar="N",
        help="seconds that a drain may take (120; 0: no drain)",
    )
    add_token(command, "to remove the Arc registration")


# Name, what it does, whether it needs root, its options. In this order --help lists them.
COMMANDS: tuple[tuple[str, str, bool, Callable[[argparse.ArgumentParser], None]], ...] = (
    ("preflight", "check everything that would keep this machine from joining", False, preflight),
    ("join", "check this machine, then join the cluster that a configuration names", True, join),
    ("update", "apply a new configuration to this node, or its stored one again", True, update),
    ("plan", "show what would change, and change nothing", True, plan),
    ("status", "show the status of this node", True, add_json),
    ("health", "print in one line whether this node works, for probes", True, add_json),
    ("problem", "print what the last status complains about, for node-problem-detector", True, no_options),
    ("agent", "show how this node is monitored, and poll once", True, no_options),
    ("poll", "check once for a new configuration, and apply it", True, poll),
    ("pull", "run the playbooks of the team's repository once (ansible-pull)", True, pull),
    ("logs", "show what was done on this machine", True, logs),
    ("debug", "collect a support bundle without secrets", True, debug),
    ("arc", "show or register this machine in Azure Arc", True, arc),
    ("token", "print a token of this machine's Azure identity, as an ExecCredential", True, token),
    ("unbootstrap", "leave the cluster and restore the host", True, unbootstrap),
    ("version", "print the version of this program", False, no_options),
)


def names() -> Iterator[str]:
    """The names of all commands."""
    yield from (name for name, *_rest in COMMANDS)
