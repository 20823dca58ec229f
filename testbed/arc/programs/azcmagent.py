# SPDX-License-Identifier: GPL-3.0-or-later
"""azcmagent: the command line of the Azure Connected Machine agent, against the emulated Azure."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import socket
import sys
import time
import urllib.parse
import uuid
from pathlib import Path
from typing import Any

from . import settings
from .azure_http import Refused, call

API_VERSION = "2024-07-10"
NEEDED = ("subscription-id", "resource-group", "location")
CLOUDS = ("AzureCloud", "AzureUSGovernment", "AzureChinaCloud")
TEXTS = ("access-token", "cloud", "correlation-id", "location", "private-link-scope", "resource-group",
         "resource-name", "service-principal-id", "service-principal-secret", "subscription-id", "tags",
         "tenant-id")  # fmt: skip
SHORT = {"location": "-l", "resource-group": "-g", "resource-name": "-n", "service-principal-id": "-i",
         "service-principal-secret": "-p", "subscription-id": "-s", "tenant-id": "-t"}  # fmt: skip
FLAGS = (
    "force-local-only",
    "ignore-network-check",
    "use-device-code",
    "verbose",
    "no-color",
    "log-stderr",
    "json",
)


class Failed(Exception):
    """An error of the agent's: AZCM and a number, which is the exit status too."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


def main(arguments: list[str]) -> int:
    """Run one command."""
    options = parser().parse_args(arguments)
    try:
        commands = {
            "connect": connect,
            "disconnect": disconnect,
            "show": show,
            "version": version,
            "check": check,
            "config": config,
        }
        commands[options.command](options)
    except Failed as error:
        text = f"AZCM{error.number:04}: {error}"
        if options.json:
            say(
                json.dumps(
                    {"status": "failed", "error": {"code": f"AZCM{error.number:04}", "message": str(error)}}
                )
            )
        else:
            say(f"time={moment()} level=fatal msg={json.dumps(text)}")
        return error.number
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="azcmagent", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True)
    for name in ("connect", "disconnect", "show", "version", "check", "config"):
        command = commands.add_parser(name, allow_abbrev=False)
        command.add_argument("--config", dest="file")
        for text in TEXTS:
            command.add_argument(*filter(None, (SHORT.get(text), f"--{text}")), dest=text)
        for flag in FLAGS:
            short = {"json": "-j", "verbose": "-v", "force-local-only": "-f"}.get(flag)
            command.add_argument(
                *filter(None, (short, f"--{flag}")), dest=flag, action="store_true", default=None
            )
        if name in ("show", "config"):
            command.add_argument("words", nargs="*")
    return top


def requested(options: argparse.Namespace) -> dict[str, Any]:
    """The options: those of the command line before those of the file."""
    found: dict[str, Any] = {}
    if options.file:
        try:
            text = Path(options.file).read_text(encoding="utf-8")
        except OSError as error:
            raise Failed(19, f"Failed to read the configuration file: {error.strerror}") from error
        found = parsed(text)
        if unknown := sorted(set(found) - {*TEXTS, *FLAGS}):
            raise Failed(23, f"unknown option in the configuration file: {', '.join(unknown)}")
    line = {
        key: value for key, value in vars(options).items() if key in (*TEXTS, *FLAGS) and value is not None
    }
    return {**found, **line}


def parsed(text: str) -> dict[str, Any]:
    """JSON, or the plain `key: value` lines of YAML."""
    if text.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise Failed(19, f"The configuration file is not valid: {error}") from error
        return found
    lines = (
        line.partition(":")
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    )
    return {key.strip(): value.strip().strip("\"'") for key, _, value in lines}


def require_root() -> None:
    """Changes are root's."""
    if os.geteuid() != 0:
        raise Failed(18, "The command requires administrative privileges")


def connect(options: argparse.Namespace) -> None:
    """Make the machine's resource, and its identity."""
    require_root()
    wanted = requested(options)
    if registered := settings.read(settings.agent_config()).get("resourceName"):
        raise Failed(67, f"The machine is already connected to Azure as {registered}")
    if missing := [name for name in NEEDED if not wanted.get(name)]:
        raise Failed(16, f"missing mandatory parameter: {', '.join(missing)}")
    if not wanted.get("access-token"):
        raise Failed(41, "the testbed's agent signs in with --access-token only")
    if wanted.get("cloud", CLOUDS[0]) not in CLOUDS:
        raise Failed(23, f"unknown cloud {wanted['cloud']}")
    misbehave("connect")
    azure, key, name = (
        settings.azure(),
        secrets.token_hex(32),
        wanted.get("resource-name") or socket.gethostname(),
    )
    machine = {
        "location": wanted["location"],
        "identity": {"type": "SystemAssigned"},
        "tags": tags(wanted.get("tags", "")),
        "properties": {
            "vmId": str(uuid.uuid4()),
            "clientPublicKey": hashlib.sha256(key.encode()).hexdigest(),
            "agentVersion": settings.VERSION,
            "osName": "linux",
        },
    }
    say(f'time={moment()} level=info msg="Creating resource in Azure..."')
    resource_id = (
        f"/subscriptions/{wanted['subscription-id']}/resourceGroups/{wanted['resource-group']}"
        f"/providers/Microsoft.HybridCompute/machines/{name}"
    )
    created = arm("PUT", resource_id, wanted["access-token"], machine, 42)
    try:
        answer = call(
            "POST",
            f"{azure['resource_manager']}/_testbed/identity/credential",
            json.dumps({"resource_id": resource_id, "key": key}).encode(),
            Content_Type="application/json",
        )
    except Refused as error:
        raise Failed(81, f"Failed to download the managed identity certificate: {error}") from error
    settings.write(settings.credential(), answer, 0o600)
    settings.write(
        settings.agent_config(),
        {
            "subscriptionId": wanted["subscription-id"],
            "resourceGroup": wanted["resource-group"],
            "resourceName": name,
            "tenantId": wanted.get("tenant-id") or answer["tenant_id"],
            "location": created.get("location", wanted["location"]),
            "vmId": machine["properties"]["vmId"],
            "cloud": wanted.get("cloud", CLOUDS[0]),
            "resourceId": resource_id,
            "namespace": "Microsoft.HybridCompute",
        },
        0o640,
    )
    say(f'time={moment()} level=info msg="Connected machine to Azure"')


def disconnect(options: argparse.Namespace) -> None:
    """Remove the resource, and the machine's memory of it."""
    require_root()
    wanted, known = requested(options), settings.read(settings.agent_config())
    misbehave("disconnect")
    if known.get("resourceName") and not wanted.get("force-local-only"):
        if not wanted.get("access-token"):
            raise Failed(41, "the testbed's agent signs in with --access-token only")
        arm("DELETE", known["resourceId"], wanted["access-token"], None, 43)
    settings.agent_config().unlink(missing_ok=True)
    settings.credential().unlink(missing_ok=True)
    say(f'time={moment()} level=info msg="Disconnected machine from Azure"')


def show(options: argparse.Namespace) -> None:
    """What the agent is; anybody may ask."""
    known = settings.read(settings.agent_config())
    connected = bool(known.get("resourceName"))
    fault = settings.faults("azcmagent")
    shown = {
        "resourceName": known.get("resourceName", ""),
        "resourceGroup": known.get("resourceGroup", ""),
        "resourceId": known.get("resourceId", ""),
        "resourceNamespace": known.get("namespace", ""),
        "subscriptionId": known.get("subscriptionId", ""),
        "tenantId": known.get("tenantId", ""),
        "vmId": known.get("vmId", ""),
        "location": known.get("location", ""),
        "cloud": known.get("cloud", CLOUDS[0]),
        "agentVersion": settings.VERSION,
        "status": fault.get("show_status") or ("Connected" if connected else "Disconnected"),
        "lastHeartbeat": moment() if connected else "",
        "agentErrorCode": fault.get("show_error", ""),
        "agentErrorDetails": "",
        "agentErrorTimestamp": "",
    }
    if options.words:
        shown = {key: value for key, value in shown.items() if key in options.words}
    if options.json:
        say(json.dumps(shown, indent=2))
        return
    for key, value in shown.items():
        say(f"{key:24}: {value}")


def version(options: argparse.Namespace) -> None:
    """The agent's version."""
    say(f"azcmagent version {settings.VERSION}")


def check(options: argparse.Namespace) -> None:
    """Whether Azure can be reached."""
    azure = settings.azure()
    try:
        call("GET", f"{azure.get('resource_manager', '')}/subscriptions?api-version=2022-12-01")
    except Refused as error:
        if error.status == 0:
            raise Failed(26, f"Unable to reach {azure.get('resource_manager')}: {error}") from error
    say(f"{azure['resource_manager']} : Reachable")


def config(options: argparse.Namespace) -> None:
    """config get|set|clear|list KEY [VALUE]."""
    path = settings.place("/etc/opt/azcmagent/localconfig.json")
    known = settings.read(path)
    verb, key = (*options.words, "", "")[:2]
    if verb == "list":
        for name, value in known.items():
            say(f"{name}={value}")
    elif verb == "get":
        say(str(known.get(key, "")))
    elif verb in ("set", "clear") and key:
        require_root()
        value = (*options.words, "", "")[2] if verb == "set" else ""
        settings.write(path, {**known, key: value}, 0o644)
        say(f"Config property {key} set to value {value}" if value else f"Config property {key} cleared")
    else:
        raise Failed(23, "config takes list, get KEY, set KEY VALUE or clear KEY")


def arm(
    method: str, resource_id: str, token: str, body: dict[str, Any] | None, number: int
) -> dict[str, Any]:
    """A call to Resource Manager with the token of the user who runs the command."""
    azure = settings.azure()
    if not azure:
        raise Failed(26, "there is no Azure: the testbed has not written /etc/testbed/azure.json")
    url = f"{azure['resource_manager']}{urllib.parse.quote(resource_id)}?api-version={API_VERSION}"
    data = json.dumps(body).encode() if body is not None else None
    try:
        return call(method, url, data, Authorization=f"Bearer {token}", Content_Type="application/json")
    except Refused as error:
        problem = error.body.get("error", {})
        text = (
            f"{problem.get('code', error.status)}: {problem.get('message', error)}"
            if isinstance(problem, dict)
            else str(error)
        )
        if error.status == 0:
            raise Failed(26, f"Unable to reach Azure: {error}") from error
        if error.status == 401:
            raise Failed(12, f"The access token is invalid: {text}") from error
        if error.status == 409:
            raise Failed(44, f"A resource with the same name already exists: {text}") from error
        raise Failed(number, f"{method} of the Azure Arc-enabled server resource failed: {text}") from error


def tags(text: str) -> dict[str, str]:
    """NAME=VALUE,NAME='A VALUE, WITH COMMA'."""
    found: dict[str, str] = {}
    quoted, parts = False, [""]
    for letter in text:
        quoted ^= letter == "'"
        if letter == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    for part in filter(None, parts):
        name, equals, value = part.partition("=")
        if not equals:
            raise Failed(23, f"invalid tag {part}")
        found[name.strip("'")] = value.strip("'")
    return found


def misbehave(command: str) -> None:
    """{"connect": {"code": 42, "message": "...", "seconds": 1}}."""
    fault = settings.faults("azcmagent").get(command)
    if fault:
        time.sleep(float(fault.get("seconds", 0)))
        if fault.get("code"):
            raise Failed(
                int(fault["code"]), str(fault.get("message", "The testbed was configured to fail so."))
            )


def moment() -> str:
    """Now, as the agent writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def say(text: str) -> None:
    """All output of the agent goes to standard output."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
