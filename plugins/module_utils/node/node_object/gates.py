# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates: what must be seen before a run counts as a success."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import (
    ApiUnreachable,
    CaMismatch,
    FlexNodeError,
    Forbidden,
    NodeNotReady,
    TokenRefused,
    UnitFailed,
)
from ..machine.host import Host
from ..net.kube import KubeClient, kubelet_version, ready_condition
from ..resources.units import unit_states
from .rights import OBTAIN, binding_command, roles_of

# A token serves one join. The words are those of all who can mint one.
HOW_TO_GO_ON = (
    "get a new token. For a configuration of a flexNodeConfig resource: ansible-playbook "
    "aks.flexnode.config_tokens, then bootstrap or `aks-flex-node join` with the new address. With the "
    "sources cluster and blob: run bootstrap again, it mints one. Else put one into "
    "azure.bootstrapToken.token and run bootstrap or `aks-flex-node join` again"
)
LOOK_EVERY = 0.1
READ_LOG_EVERY = 2.0
JUST_BEFORE = 5  # seconds: units are started right before their gate
# A kubelet that came back this often within one gate is not going to stay.
TOO_MANY_STARTS = 3
TROUBLE = re.compile(r"(?i)error|fail|fatal|panic|\bE\d{4}\b")
# Who is nobody is refused by anyone: that kubelets also ask as such says nothing.
FORBIDDEN = re.compile(
    r"User \\*\"(?!system:anonymous)([^\"\\]+)\\*\" cannot (\w+) resource \\*\"([^\"\\]+)\\*\""
)
UNREACHABLE = re.compile(
    r"dial tcp:? [^\"]*?(?:connection refused|i/o timeout|no such host|no route to host|unreachable)"
)
# A kubelet without a certificate that the API server answers: it has asked for one, and so used its token.
ANSWERED = re.compile(r"system:anonymous|CertificateSigningRequest")


@dataclass(frozen=True, slots=True)
class UnitsActive:
    """Units run, seen by systemd."""

    units: tuple[str, ...]
    seconds: float = 60

    def pass_(self, host: Host) -> None:
        """Wait until all are active; a unit that failed ends the wait at once."""
        deadline = host.clock.monotonic() + self.seconds
        since = host.clock.now() - JUST_BEFORE
        while True:
            states = unit_states(host, self.units)
            waiting = [unit for unit in self.units if states[unit]["ActiveState"] != "active"]
            if not waiting:
                return
            failed = [unit for unit in waiting if states[unit]["ActiveState"] == "failed"]
            if failed or host.clock.monotonic() >= deadline:
                raise unit_failed(host, (failed or waiting)[0], since)
            host.clock.sleep(LOOK_EVERY)


@dataclass(frozen=True, slots=True)
class NodeReady:
    """The Node is Ready at the API server, with the right kubelet version."""

    node: str
    version: str
    identity: str  # file with the kubelet's own certificate and key: appears when the join succeeded
    connect: Callable[[], KubeClient]
    cni_mode: str
    seconds: float = 120
    azure: str = ""  # the method, where the kubelet shows an Azure identity

    def pass_(self, host: Host) -> None:
        """Ask the API server, as the kubelet, until it says so; give up early where waiting can't help."""
        deadline = host.clock.monotonic() + self.seconds
        began = math.ceil(host.clock.now())  # a complaint of the process before this one is no reason now
        since = began - JUST_BEFORE
        starts = int(unit_states(host, ("kubelet.service",))["kubelet.service"]["NRestarts"] or 0)
        read_log = host.clock.monotonic() + READ_LOG_EVERY
        while True:
            waiting_for = self._missing(host)
            if waiting_for is None:
                return
            now = int(unit_states(host, ("kubelet.service",))["kubelet.service"]["NRestarts"] or 0)
            # A kubelet that is refused its first certificate does not end: it asks again and again.
            due = host.clock.monotonic() >= read_log and not host.exists(self.identity)
            if (due or now > starts) and (hopeless := refused(host, self.node, began, self.azure)):
                raise hopeless
            if due:
                read_log = host.clock.monotonic() + READ_LOG_EVERY
            if now - starts >= TOO_MANY_STARTS:
                raise self._explained(host, since) or unit_failed(host, "kubelet.service", since)
            if host.clock.monotonic() >= deadline:
                explained = self._explained(host, since) or self._used_up(host, since)
                raise explained or self._not_ready(waiting_for)
            host.clock.sleep(LOOK_EVERY)

    def _explained(self, host: Host, since: float) -> FlexNodeError | None:
        return explained_log(host, self.node, since, self.azure)

    def _missing(self, host: Host) -> str | ApiUnreachable | None:
        """What is still missing, None when all is seen."""
        if not host.exists(self.identity):
            return (
                "the kubelet has no certificate yet: its request is not approved, or it did not get through"
            )
        try:
            node = self.connect().node(self.node)
        except ApiUnreachable as error:
            return error
        except Forbidden as error:
            return f"{error.what}: {error.why}"
        if node is None:
            return "the Node is not registered yet"
        ready, message = ready_condition(node)
        if not ready:
            return message
        seen = kubelet_version(node)
        return None if seen == self.version else f"the Node still reports kubelet {seen}"

    def _used_up(self, host: Host, since: float) -> TokenRefused | None:
        """A token serves one join: one that was used, and brought no certificate, is not tried again."""
        if self.azure or host.exists(self.identity):
            return None
        if not ANSWERED.search("\n".join(unit_log(host, "kubelet.service", since))):
            return None
        return TokenRefused(
            "the bootstrap token is used up, and the kubelet has no certificate",
            where=self.node,
            why=f"its request was not approved within {self.seconds:g} s",
            fix=f"see that the cluster approves such requests (`kubectl get csr`), then {HOW_TO_GO_ON}",
        )

    def _not_ready(self, waiting_for: str | ApiUnreachable) -> FlexNodeError:
        if isinstance(waiting_for, ApiUnreachable):  # says more than that the Node was not seen
            return waiting_for
        fix = "look at `journalctl -u kubelet -n 50`, mend the cause, then run this again"
        if "cni" in waiting_for.lower() and self.cni_mode == "none":
            fix = (
                "cni.mode is `none`, so the cluster must bring a CNI that runs on this node (AKS's own do "
                "not): install one, or set cni.mode: bridge and a cni.podCIDR of its own"
            )
        return NodeNotReady(
            f"Node {self.node} is not Ready after {self.seconds:g} s",
            where=self.node,
            why=waiting_for,
            fix=fix,
        )


def unit_log(host: Host, unit: str, since: float, lines: int = 1000) -> list[str]:
    """What a unit said last, but nothing from before: an old complaint is no reason now."""
    argv = ["journalctl", "-u", unit, "-n", str(lines), "-o", "cat", "--no-pager", f"--since=@{int(since)}"]
    return host.run(argv, check=False).stdout.splitlines()


def unit_failed(host: Host, unit: str, since: float) -> UnitFailed:
    """An error that quotes what the unit said last."""
    log = [line for line in unit_log(host, unit, since) if TROUBLE.search(line)]
    said = [line for line in log if not line.startswith(f"{unit}: ")] or log  # systemd only counts the dead
    return UnitFailed(
        f"{unit} does not run",
        where=unit,
        why=(said or ["it said nothing about it"])[-1][-400:],
        fix=f"look at `journalctl -u {unit} -n 50`, mend the cause, then run this again",
    )


def refused(host: Host, node: str, since: float, azure: str = "") -> FlexNodeError | None:
    """A refusal that no waiting will change."""
    log = "\n".join(unit_log(host, "kubelet.service", since))
    if azure and re.search(r"certificate signing request: Unauthorized|bootstrap.*Unauthorized", log):
        return Forbidden(
            "the API server does not accept the kubelet's Azure identity",
            where=f"{node}, {azure}",
            why="it answers Unauthorized: it does not trust tokens of this tenant",
            fix="check azure.tenantId, and that the cluster has Entra ID integration: az aks show --query "
            "aadProfile",
        )
    if re.search(r"certificate signing request: Unauthorized|bootstrap.*Unauthorized", log):
        return TokenRefused(
            "the API server refuses the bootstrap token",
            where=node,
            why="it is unknown, expired or was deleted",
            fix=HOW_TO_GO_ON,
        )
    if re.search(r"x509: certificate signed by unknown authority|x509: certificate is valid for", log):
        return CaMismatch(
            "the kubelet does not trust the API server",
            where=node,
            why=(re.findall(r"x509: [^\"\\]*", log) or [""])[-1],
            fix="check node.kubelet.serverURL and node.kubelet.caCertData against the cluster's kubeconfig",
        )
    return None


def explained_log(host: Host, node: str, since: float, azure: str = "") -> FlexNodeError | None:
    """The cause that the kubelet's own log names, once there is no more time to wait."""
    if error := refused(host, node, since, azure):
        return error
    log = "\n".join(unit_log(host, "kubelet.service", since))
    if azure and (said := re.findall(r"FLEX-18\d\d: [^\"\\]*", log)):
        return Forbidden(
            "the kubelet gets no token",
            where=f"{node}, {azure}",
            why=said[-1],
            fix="aks-flex-node token --check",
        )
    if azure and (denied := dict.fromkeys(FORBIDDEN.findall(log))):
        return not_allowed(node, azure, list(denied))
    # The kubelet also probes pods, whose troubles are not the API server's.
    asked = "\n".join(line for line in log.splitlines() if "prober.go" not in line)
    if trouble := UNREACHABLE.findall(asked):
        return ApiUnreachable("the kubelet can't reach the API server", where=node, why=trouble[-1])
    return None


def not_allowed(node: str, azure: str, denied: list[tuple[str, str, str]]) -> Forbidden:
    """The identity, what it may not do, and for the first certificate what lets it."""
    user = denied[-1][0]
    acts = list(dict.fromkeys(f"{verb} {resource}" for who, verb, resource in denied if who == user))
    fix = "grant what docs/permissions.md lists for this method and profile, then run this again"
    if any(act.endswith("certificatesigningrequests") for act in acts):
        lines = [binding_command(role, user, node) for role in roles_of(OBTAIN)]
        fix = "let it ask for a certificate, then run this again:" + "".join(f"\n  {line}" for line in lines)
    return Forbidden(
        "the kubelet's Azure identity lacks permissions in the cluster",
        where=f"{node}, {azure}",
        why=f"User {user} may not {', '.join(acts)}",
        fix=fix,
    )
