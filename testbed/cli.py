# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's command line."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Sequence

import yaml

from testbed import doctor
from testbed.artifacts import store
from testbed.azure.pools import command as pool_command
from testbed.basics import paths, podman
from testbed.basics.errors import OutOfReach, TestbedError
from testbed.basics.process import environment
from testbed.basics.progress import say
from testbed.bed import DEFAULT_NAME, SERVICES, Testbed
from testbed.execution import image as ee
from testbed.layout import versions
from testbed.machine import command as node_command
from testbed.machine.command import machine_of, virtual
from testbed.playbooks import IN_AZURE, SOURCES, complete_inventory

# Commands that become another program; it reads everything that follows.
WRAPPED = {"kubectl": "kubectl as administrator", "ssh": "a shell or a command on a machine"}


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(
        prog="python -m testbed", description="A real cluster with real node machines on this machine."
    )
    top.add_argument("--name", help="which testbed (default: $TESTBED_NAME, else flexnode)")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start everything that does not run")
    up.add_argument("--signing-duration", help="lifetime of kubelet certificates, e.g. 1h or 5m")
    up.add_argument(
        "--kubernetes",
        metavar="VERSION",
        help=f"of the control plane of a new testbed (default: {versions.KUBERNETES})",
    )
    commands.add_parser("down", help="remove everything but the cache")
    commands.add_parser("status", help="what runs, and at which URLs")
    node_command.add_to(commands)
    for name, text in WRAPPED.items():
        commands.add_parser(name, help=text, add_help=False)
    logs = commands.add_parser("logs", help="the log of a component or the journal of a node")
    logs.add_argument("part", nargs="?", help=f"{', '.join(SERVICES)}, or a node; all components by default")
    logs.add_argument("--lines", type=int, default=50)
    logs.add_argument(
        "--console",
        action="store_true",
        help="what the kernel of a virtual machine said since its start",
    )
    token = commands.add_parser("token", help="create a bootstrap token")
    token.add_argument("--ttl", type=int, default=86400, metavar="SECONDS")
    inventory = commands.add_parser(
        "inventory", help="a complete inventory of all machines, for ansible-playbook -i"
    )
    inventory.add_argument(
        "--source",
        choices=SOURCES,
        default="inline",
        help="where the configuration comes from (default: %(default)s)",
    )
    commands.add_parser("document", help="the node configuration for this cluster, without a token")
    artifact = commands.add_parser("artifact", help="put one more version on the mirror")
    artifact.add_argument("artifact", metavar="NAME")
    artifact.add_argument("version", metavar="VERSION")
    artifact.add_argument(
        "--arch", choices=sorted(paths.ARCHITECTURES.values()), help="for machines of another architecture"
    )
    more = commands.add_parser(
        "versions", help="the versions that tests of updates use, and whether they are built"
    )
    more.add_argument("--build", action="store_true", help="build those that are not")
    azure = commands.add_parser(
        "azure", help="print what to export to use the emulated Azure; starts it if needed"
    )
    azure.add_argument(
        "--principal", default="developer", help="app registration to sign in as (default: %(default)s)"
    )
    azure.add_argument("--role", action="append", help="role on the subscription (default: all)")
    pool_command.add_to(commands)
    commands.add_parser("ee", help="build the execution environment of AWX; prints the image's name")
    commands.add_parser("doctor", help="whether this machine can run a testbed")
    return top


def _status(bed: Testbed) -> int:
    parts = bed.status()
    for part, state in parts.items():
        say(f"{part:28} {state}")
    say(f"{'API server':28} {bed.cluster.server}")
    say(f"{'kubeconfig':28} {bed.cluster.kubeconfig}")
    say(f"{'mirror':28} {bed.mirror.url}")
    say(f"{'registry':28} {bed.registry.host}")
    say(f"{'Azure':28} {bed.azure.url}")
    say(f"{'blob storage':28} {bed.blob.account_url}")
    return 0 if all(state == "running" for state in parts.values()) else 1


def _azure(bed: Testbed, name: str, roles: list[str]) -> int:
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for eval
        if not bed.azure_runs():
            bed.up(nodes=False)
    azure = bed.azure
    principal = azure.app_registration(name)
    for role in roles:
        azure.grant(principal, role, f"/subscriptions/{azure.subscription_id}")
    variables = {
        **azure.environment(principal),
        "AZURE_STORAGE_CONNECTION_STRING": bed.blob.connection_string,
        "FLEXNODE_CLUSTER_ID": azure.cluster_id,
    }
    for variable, value in variables.items():
        say(f"export {variable}={shlex.quote(value)}")
    return 0


def _logs(bed: Testbed, part: str | None, lines: int, *, console: bool = False) -> int:
    if console:
        if part is None:
            raise TestbedError("name a virtual machine: python -m testbed logs NAME --console")
        if part in SERVICES:
            raise TestbedError(f"{part} is a container without a console: leave out --console")
        said = virtual(machine_of(bed, part)).console.splitlines()
        say("\n".join(said[max(len(said) - lines, 0) :]))
    elif part is None:
        for name in SERVICES:
            say(f"== {name}")
            _logs(bed, name, lines)
    elif part in SERVICES:
        log = podman.podman("logs", "--tail", str(lines), bed.site.container(part))
        say((log.stdout + log.stderr).rstrip())
    else:
        journal = ["journalctl", "--no-pager", "--lines", str(lines)]
        say(machine_of(bed, part).run(journal).stdout.rstrip())
    return 0


def _inventory(bed: Testbed, source: str) -> int:
    inventory = complete_inventory(bed, source)
    if not inventory["all"]["hosts"]:
        sys.stderr.write(f"testbed: there are no machines: {command_line(bed)} node add edge-1\n")
    say(f"# Testbed {bed.name}, source {source}. It holds secrets: keep it in a file that only you can read.")
    if source in IN_AZURE:
        say(f'# Sign in to the emulated Azure, once per shell: eval "$({command_line(bed)} azure)"')
    say(yaml.safe_dump(inventory, sort_keys=False).rstrip())
    return 0


def _versions(build: bool) -> int:
    for software, version, purpose in versions.EXTRA:
        names = versions.SOFTWARE[software]
        if build:
            store.ensure((name, version) for name in names)
        built = all(store.find(name, version) for name in names)
        say(f"{software:12} {version:10} {'built' if built else 'not built':10} {purpose}")
    return 0


def command_line(bed: Testbed) -> str:
    """How a user calls this testbed."""
    return "python -m testbed" + ("" if bed.name == DEFAULT_NAME else f" --name {bed.name}")


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and those after kubectl or ssh, which argparse must not read (-n, --help)."""
    words = iter(enumerate(argv))
    for index, word in words:
        if word == "--name":
            next(words, None)
        elif not word.startswith("--name="):
            end = index + 1 if word in WRAPPED else len(argv)
            return list(argv[:end]), list(argv[end:])
    return list(argv), []


def _replace_process(argv: Sequence[str]) -> int:
    """Become another program: terminals, signals and exit codes are then its own."""
    sys.stdout.flush()
    os.execvpe(argv[0], list(argv), environment())  # noqa: S606


def run(arguments: argparse.Namespace, rest: Sequence[str] = ()) -> int:
    """Carry out one command; rest is the command line of the program that it starts."""
    bed = Testbed(arguments.name)
    command = arguments.command
    if command == "up":
        bed.up(arguments.signing_duration, arguments.kubernetes)
    elif command == "down":
        bed.down()
    elif command == "status":
        return _status(bed)
    elif command == "node":
        return node_command.run(bed, arguments)
    elif command == "kubectl":
        return _replace_process([*bed.cluster.kubectl_argv(), *rest])
    elif command == "ssh":
        if not rest:
            raise TestbedError("name a machine: python -m testbed ssh NAME [COMMAND ...]")
        return _replace_process(machine_of(bed, rest[0]).ssh(*rest[1:]))
    elif command == "logs":
        return _logs(bed, arguments.part, arguments.lines, console=arguments.console)
    elif command == "token":
        say(bed.cluster.bootstrap_token(arguments.ttl))
    elif command == "inventory":
        return _inventory(bed, arguments.source)
    elif command == "document":
        say(json.dumps(bed.node_document(), indent=1))
    elif command == "azure":
        roles = arguments.role or ["Owner", "Azure Kubernetes Service RBAC Cluster Admin"]
        return _azure(bed, arguments.principal, roles)
    elif command == "pool":
        return pool_command.run(bed.azure.pools, arguments)
    elif command == "artifact":
        say(bed.artifact(arguments.artifact, arguments.version, arguments.arch))
    elif command == "versions":
        return _versions(arguments.build)
    elif command == "ee":
        say(ee.ensure())
    else:
        return doctor.report()
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the command line; errors are one message, not a traceback. 3: not possible on this machine."""
    own, rest = split(argv)
    try:
        return run(parser().parse_args(own), rest)
    except OutOfReach as error:
        sys.stderr.write(f"testbed: {error}\n")
        return 3
    except TestbedError as error:
        sys.stderr.write(f"testbed: {error}\n")
        return 1
