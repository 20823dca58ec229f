# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's log: the cause of a join that fails, as the error that names it."""

from __future__ import annotations

import re

from ..errors import ApiUnreachable, CaMismatch, FlexNodeError, Forbidden, TokenRefused, UnitFailed
from ..machine.facts import hostname
from ..machine.host import Host
from ..machine.layout import KUBELET
from .advice import REPLACE
from .rights import GET_CERTIFICATE, binding_command, roles_of

DEAD = "the token does not exist, has expired, or its secret is wrong"
AGAIN = ", correct the cause, then run this again"
# klog: severity and date, time, process, place in the source. The text after it is what says something.
PREFIX = re.compile(r"^[EF]\d{4} [\d:.]+ +\d+ \S+\] ")
ERROR_LINE = re.compile(r"(?i)error|fail|fatal|panic|\bE\d{4}\b")
INFO = re.compile(r"[IW]\d{4} ")  # klog: a message of information may well contain the word fail
# Every cluster refuses anonymous requests, which kubelets also send: those say nothing about its identity.
FORBIDDEN = re.compile(
    r"User \\*\"(?!system:anonymous)([^\"\\]+)\\*\" cannot (\w+) resource \\*\"([^\"\\]+)\\*\""
)
UNREACHABLE = re.compile(
    r"dial tcp:? [^\"]*?(?:connection refused|i/o timeout|no such host|no route to host|unreachable)"
)
# A kubelet without a certificate got an answer: it has sent its request, and so used its token.
ANSWERED = re.compile(r"system:anonymous|CertificateSigningRequest")


def unit_log(host: Host, unit: str, since: float, lines: int = 1000) -> list[str]:
    """The last lines that a unit logged, none older than `since`: old errors are not the cause now."""
    argv = ["journalctl", "-u", unit, "-n", str(lines), "-o", "cat", "--no-pager", f"--since=@{int(since)}"]
    return host.run(argv, check=False).stdout.splitlines()


def unit_failed(host: Host, unit: str, since: float) -> UnitFailed:
    """An error that quotes the last error line of a unit."""
    log = [line for line in unit_log(host, unit, since) if ERROR_LINE.search(line) and not INFO.match(line)]
    own = [line for line in log if not _is_of_systemd(line, unit)] or log
    return UnitFailed(
        f"{unit} failed",
        why=PREFIX.sub("", (own or ["its log has no error"])[-1])[-400:],
        fix=f"{log_of_failure(host, unit)}{AGAIN}",
    )


def log_of_failure(host: Host, unit: str) -> str:
    """How to read what a unit logged until now: after a rollback a unit that works logs to the same place."""
    until = int(host.clock.now()) + 1
    return f"see the log of the failure on {hostname(host)}: `journalctl -u {unit} -n 50 --until=@{until}`"


def _is_of_systemd(line: str, unit: str) -> bool:
    """Whether systemd wrote a line of a unit's log: it says that the unit failed, not why."""
    return line.startswith((f"{unit}: ", f"Failed to start {unit}", f"Dependency failed for {unit}"))


def rejected(token: str) -> str:
    """What happened to a bootstrap token. token: its ID."""
    return f"the API server rejected the bootstrap token with ID {token}"


def refused(host: Host, node: str, since: float, azure: str = "", token: str = "") -> FlexNodeError | None:
    """A refusal in the kubelet's log that waiting can't change."""
    log = "\n".join(unit_log(host, KUBELET, since))
    if azure and re.search(r"certificate signing request: Unauthorized|bootstrap.*Unauthorized", log):
        return Forbidden(
            "the API server does not accept the kubelet's Azure identity",
            where=f"{node}, {azure}",
            why="it answers Unauthorized: it does not accept tokens of this tenant",
            fix="check azure.tenantId, and that the cluster has Entra ID integration: az aks show --query "
            "aadProfile",
        )
    if re.search(r"certificate signing request: Unauthorized|bootstrap.*Unauthorized", log):
        return TokenRefused(rejected(token), where=f"Node {node}", why=DEAD, fix=REPLACE)
    # Image pulls fail with the same words, and say nothing about the API server.
    log = "\n".join(line for line in log.splitlines() if not re.search(r"(?i)image", line))
    if re.search(r"x509: certificate signed by unknown authority|x509: certificate is valid for", log):
        return CaMismatch(
            "the kubelet does not trust the API server",
            where=node,
            why=(re.findall(r"x509: [^\"\\]*", log) or [""])[-1],
            fix="check node.kubelet.serverURL and node.kubelet.caCertData against the cluster's kubeconfig",
        )
    return None


def explained_log(
    host: Host, node: str, since: float, azure: str = "", token: str = ""
) -> FlexNodeError | None:
    """The cause that the kubelet's log names, once the wait is over."""
    if error := refused(host, node, since, azure, token):
        return error
    log = "\n".join(unit_log(host, KUBELET, since))
    if azure and (reasons := re.findall(r"FLEX-18\d\d: [^\"\\]*", log)):
        return Forbidden(
            "the kubelet gets no token",
            where=f"{node}, {azure}",
            why=reasons[-1],
            fix="aks-flex-node token --check",
        )
    if azure and (denied := dict.fromkeys(FORBIDDEN.findall(log))):
        return not_allowed(node, azure, list(denied))
    # The kubelet also probes pods; a failed probe says nothing about the API server.
    without_probes = "\n".join(line for line in log.splitlines() if "prober.go" not in line)
    if failures := UNREACHABLE.findall(without_probes):
        return ApiUnreachable("the kubelet can't reach the API server", where=node, why=failures[-1])
    return None


def not_allowed(node: str, azure: str, denied: list[tuple[str, str, str]]) -> Forbidden:
    """Names the identity and what it may not do; for the first certificate also the missing bindings."""
    user = denied[-1][0]
    acts = list(dict.fromkeys(f"{verb} {resource}" for who, verb, resource in denied if who == user))
    fix = "grant what docs/permissions.md lists for this method and profile, then run this again"
    if any(act.endswith("certificatesigningrequests") for act in acts):
        lines = [binding_command(role, user, node) for role in roles_of(GET_CERTIFICATE)]
        fix = "allow it to request a certificate, then run this again:" + "".join(
            f"\n  {line}" for line in lines
        )
    return Forbidden(
        "the kubelet's Azure identity lacks permissions in the cluster",
        where=f"{node}, {azure}",
        why=f"User {user} may not {', '.join(acts)}",
        fix=fix,
    )
