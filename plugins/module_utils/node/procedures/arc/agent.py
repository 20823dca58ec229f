# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The azcmagent command: show, connect, disconnect, proxy settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...dataclass import dataclass
from ...identity.cache import HANDOVER
from ...machine.command import Completed
from ...machine.host import Host
from ...machine.layout import RUN_DIR
from ...resources.units import RUNNING, unit_states
from ...secret import Secret
from .errors import ArcFailed, ArcMissing

COMMAND = "azcmagent"
SECONDS = 600.0  # a registration takes half a minute, or several on a slow connection
NOT_FOUND = 127
CLOUDS = {"AzurePublicCloud": "AzureCloud"}  # where the agent uses another name
METADATA, EXTENSIONS = "himdsd.service", "extd.service"
GUEST_CONFIGURATION = ("gcad.service", "gcarcservice.service")  # its name depends on the agent's version
MACHINE_ID = re.compile(
    r"/subscriptions/([^/]+)/resourcegroups/([^/]+)/providers/microsoft\.hybridcompute/machines/([^/]+)/?",
    re.IGNORECASE,
)
# The exit status is the number of the error (AZCM0042). The remedies for the frequent ones:
REMEDIES = {
    12: "the access token is refused: get a new one for Azure Resource Manager",
    18: "run as root",
    20: "check the region (location)",
    23: "check the options; the agent names the wrong one",
    26: "check DNS, firewall and proxy: azcmagent check --location REGION",
    41: "the credentials are refused: get a new access token, of the subscription's tenant",
    42: "grant the installer the role `Azure Connected Machine Onboarding` on the resource group, and wait "
    "some minutes",
    43: "grant it the role `Azure Connected Machine Resource Administrator` on the resource group",
    44: "choose another machine name, or delete the old resource: az connectedmachine delete --name NAME "
    "--resource-group GROUP",
    67: "it is registered already: azcmagent show",
    **dict.fromkeys((4, 61, 64, 65, 66, 70), "start the agent: systemctl restart himdsd"),
}


# A copy of a registered machine's disk has its identity: a plain disconnect would end it for the original.
CLONED = "if its disk is a copy of another machine's: azcmagent disconnect --force-local-only there"


@dataclass(frozen=True)
class Registration:
    """A machine in Azure Arc: subscription, resource group and name."""

    subscription_id: str
    resource_group: str
    machine_name: str

    @property
    def resource_id(self) -> str:
        """The ARM id, in ARM's spelling."""
        return (
            f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.HybridCompute/machines/{self.machine_name}"
        )

    def same(self, other: Registration) -> bool:
        """ARM ids are case-insensitive."""
        return self.resource_id.lower() == other.resource_id.lower()

    def settings(self, other: Registration) -> str:
        """The settings that name this machine, as far as they differ from those of the other one."""
        named = {
            "azure.arc.machineName": (self.machine_name, other.machine_name),
            "azure.arc.resourceGroup": (self.resource_group, other.resource_group),
            "azure.subscriptionId": (self.subscription_id, other.subscription_id),
        }
        unlike = {key: own for key, (own, others) in named.items() if own.lower() != others.lower()}
        return ", ".join(f"{key}: {own}" for key, own in unlike.items())

    @classmethod
    def parse(cls, resource_id: str) -> Registration | None:
        """Read an ARM id; None: not the id of an Arc machine."""
        found = MACHINE_ID.fullmatch(resource_id)
        return cls(found[1], found[2], found[3]) if found else None


@dataclass(frozen=True)
class Status:
    """The output of `azcmagent show`."""

    installed: bool
    state: str = ""  # Connected, Disconnected, Expired, ...
    registration: Registration | None = None
    vm_id: str = ""
    tenant_id: str = ""
    location: str = ""
    cloud: str = ""
    version: str = ""
    error: str = ""

    @property
    def connected(self) -> bool:
        """Registered, and connected to Azure."""
        return self.registration is not None and self.state.lower() == "connected"


@dataclass(frozen=True, kw_only=True)
class RegistrationRequest:
    """The requested registration of this machine."""

    registration: Registration
    tenant_id: str
    location: str
    cloud: str = "AzurePublicCloud"
    tags: Mapping[str, str]

    def options(self, token: Secret) -> dict[str, str]:
        """The options of `azcmagent connect`, including the token."""
        options = {
            "access-token": token.reveal(),
            "subscription-id": self.registration.subscription_id,
            "tenant-id": self.tenant_id,
            "resource-group": self.registration.resource_group,
            "resource-name": self.registration.machine_name,
            "location": self.location,
            "cloud": CLOUDS.get(self.cloud, self.cloud),
        }
        return {**options, "tags": tag_list(self.tags)} if self.tags else options


def tag_list(tags: Mapping[str, str]) -> str:
    """Tags as the agent reads them: NAME=VALUE, NAME='A VALUE'."""

    def quoted(text: str) -> str:
        if "'" in text:
            raise ArcFailed(
                "the Arc agent can't store this tag",
                where="azure.arc.tags",
                why="it reads a single quote as the end of a value",
                fix="remove the quote",
            )
        return text if re.fullmatch(r"[\w.:/@+-]+", text) else f"'{text}'"

    return ",".join(f"{quoted(name)}={quoted(value)}" for name, value in sorted(tags.items()))


def status(host: Host) -> Status:
    """The agent's status; also if no agent is installed."""
    done = host.run([COMMAND, "show", "-j"], timeout=60, check=False)
    if done.status == NOT_FOUND:
        return Status(installed=False)
    try:
        shown: dict[str, Any] = json.loads(done.stdout)
        if not isinstance(shown, dict):
            raise ValueError("not a mapping")
    except ValueError as error:
        raise failed("azcmagent show does not answer", done) from error

    def text(name: str) -> str:
        return str(shown.get(name) or "")

    registration = Registration.parse(text("resourceId"))
    if registration is None and text("resourceName") and text("subscriptionId"):
        registration = Registration(text("subscriptionId"), text("resourceGroup"), text("resourceName"))
    return Status(
        installed=True,
        state=text("status"),
        registration=registration,
        vm_id=text("vmId"),
        tenant_id=text("tenantId"),
        location=text("location"),
        cloud=text("cloud"),
        version=text("agentVersion"),
        error=" ".join(filter(None, (text("agentErrorCode"), text("agentErrorDetails"))))[:300],
    )


def connect(host: Host, request: RegistrationRequest, token: Secret) -> None:
    """Register. The token is passed in a file: every user of the machine can read arguments."""
    done = with_option_file(host, "connect", request.options(token))
    if done.status != 0:
        raise failed(f"this machine can't be registered as {request.registration.resource_id}", done, token)


def disconnect(host: Host, token: Secret | None) -> None:
    """Remove the registration in Azure and on this machine; without a token, on this machine only."""
    options = {"access-token": token.reveal()} if token else {"force-local-only": True}
    done = with_option_file(host, "disconnect", options)
    if done.status != 0:
        raise failed("this machine's registration can't be removed", done, token)


def with_option_file(host: Host, command: str, options: Mapping[str, object]) -> Completed:
    """Run an agent command with its options in a file: on a tmpfs, for root only, removed afterwards."""
    host.make_directories(RUN_DIR, 0o700)
    try:
        host.write(HANDOVER, json.dumps(options).encode(), 0o600, durable=False)
        done = host.run([COMMAND, command, "--config", host.path(HANDOVER)], timeout=SECONDS, check=False)
    finally:
        host.remove(HANDOVER)
    if done.status == NOT_FOUND:
        raise ArcMissing("azcmagent is not installed on this machine")
    return done


def proxy_of(host: Host) -> str:
    """The proxy that the agent uses."""
    done = host.run([COMMAND, "config", "get", "proxy.url"], timeout=60, check=False)
    return done.stdout.strip().rpartition(" ")[2] if done.status == 0 else ""


def set_proxy(host: Host, url: str) -> bool:
    """Set the agent's proxy; True: it changed."""
    if proxy_of(host) == url:
        return False
    argv = ["config", "set", "proxy.url", url] if url else ["config", "clear", "proxy.url"]
    done = host.run([COMMAND, *argv], timeout=60, check=False)
    if done.status != 0:
        raise failed("the proxy of the Arc agent can't be set", done)
    return True


def services(host: Host) -> dict[str, str]:
    """The agent's services and their states; guest configuration under its name in this version."""
    states = {
        unit: seen["ActiveState"]
        for unit, seen in unit_states(host, (METADATA, EXTENSIONS, *GUEST_CONFIGURATION)).items()
    }
    new, old = GUEST_CONFIGURATION
    states.pop(new if states[old] in RUNNING and states[new] not in RUNNING else old)
    return {unit.removesuffix(".service"): state for unit, state in states.items()}


def failed(what: str, done: Completed, token: Secret | None = None) -> ArcFailed:
    """An error that quotes the agent, with the remedy."""
    output = f"{done.stderr}\n{done.stdout}"
    if token:
        output = output.replace(token.reveal(), "<secret>")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    relevant = [line for line in lines if re.search(r"AZCM\d{4}|error|fail", line, re.IGNORECASE)]
    code = re.search(r"AZCM0*(\d+)", output)
    number = int(code[1]) if code else done.status
    return ArcFailed(
        what,
        where=" ".join(done.argv[:2]),
        why=" / ".join((relevant or lines or ["it printed no reason"])[-2:])[:500]
        + f" (exit status {done.status})",
        fix=REMEDIES.get(
            number, "check `azcmagent show` and `azcmagent logs`, fix the cause, then run this again"
        ),
    )
