# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that only read: status, token, version."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from ..config.document import loads
from ..config.parse import parse
from ..engine.records.state import Phase
from ..identity.choice import audience_for, identity_for
from ..identity.token import claims, exec_credential
from ..machine.host import Host
from ..machine.program import COMMAND, VERSION
from ..operations.obtain import stored_document
from ..status.document import status_of
from ..status.pull import NOT_CONFIGURED, pull_line
from ..status.reasons import fix_with_log
from ..status.rollout import rollout_lines
from ..status.vpn import NO_VPN, vpn_line
from ..status.words import NO_DRIFT, in_words, is_right, reason_in_words
from .output import show
from .source import open_text

SHOWN = 10  # items of drift in a status


def status(options: argparse.Namespace, host: Host) -> int:
    """Exit status 0: the Node is Ready, and the machine is as its configuration says."""
    found = status_of(host)
    if options.json:
        show(json.dumps(found, indent=2))
    else:
        node, config, words = found["node"], found["config"], in_words(found)
        entry("phase", phase_line(found))
        kubelet, cluster = (node.get(name) for name in ("kubeletVersion", "cluster"))
        versions = (kubelet and f"kubelet {kubelet}", cluster and f"cluster {cluster}")
        parts = (node.get("name"), words["status"], *versions)
        entry("node", "  ".join(filter(None, parts)))
        if found["vpn"]["status"] != NO_VPN:
            entry("vpn", vpn_line(found["vpn"]))
        if config["version"]:  # a document of the inventory or of a file has none
            entry("config", f"version {config['version']}, applied {config['appliedVersion'] or 'not yet'}")
        entry("config polling", monitoring_line(found["monitoring"]))
        if found["pull"]["status"] != NOT_CONFIGURED:
            entry("pull", pull_line(found["pull"]))
        for number, line in enumerate(rollout_lines(found["rollout"])):
            entry("" if number else "rollout", line)
        entry("drift", drift_line(words["drift"]))
        for item in found["drift"][:SHOWN]:
            state = "" if item["state"] == "found" else f" ({item['state']})"
            entry("", f"{item['what']}{state}")
        if len(found["drift"]) > SHOWN:
            entry("", f"and {len(found['drift']) - SHOWN} more: {COMMAND} plan")
        entry("reason", reason_in_words(found))
        if fix := fix_with_log(found):
            entry("fix", fix)
    return 0 if is_right(found) else 3


def entry(label: str, text: str) -> None:
    """One line of the status."""
    show(f"{label:<16}{text}".rstrip())


def phase_line(found: dict[str, Any]) -> str:
    """NodeFailed of a machine that never joined: there is no Node to look for."""
    failed_to_join = found["phase"] == Phase.NODE_FAILED.value and not found["node"]["joined"]
    return f"{found['phase']} (the machine did not join)" if failed_to_join else str(found["phase"])


def drift_line(drift: str) -> str:
    """None: as this collection left the machine, which need not be as the inventory says by now."""
    return (
        f"{drift} (no change by others since the configuration was applied)" if drift == NO_DRIFT else drift
    )


def monitoring_line(monitoring: dict[str, Any]) -> str:
    """How the configuration is polled, in one line."""
    older = monitoring.get("olderVersion")
    ignored = f" (version {older}, which is older, was returned after it and is ignored)" if older else ""
    if monitoring["status"] == "NotConfigured":
        changes = f"playbook aks.flexnode.bootstrap or aks.flexnode.update, or `{COMMAND} join`"
        return f"off (the configuration changes only when you run {changes})"
    if monitoring["ok"]:
        pool = f"pool {monitoring['pool']}, machine " if monitoring.get("pool") else ""
        what = f"{pool}{monitoring['resource'].rpartition('/')[2]}" if pool else monitoring["url"]
        waiting = f": {monitoring['waiting']}" if monitoring.get("waiting") else ""
        return f"{monitoring['status']}  {what}{waiting}{ignored}"
    blocked = f"version {monitoring['blockedVersion']}, " if monitoring["blockedVersion"] else ""
    since = f"since {monitoring['since']}"
    return f"{monitoring['status']}  {blocked}{monitoring['code']} {since}: {monitoring['message']}{ignored}"


def token(options: argparse.Namespace, host: Host) -> int:
    """Print an ExecCredential: the kubelet's exec plugin."""
    document: Mapping[str, Any]
    if options.identity:
        document = loads(open_text(options.identity), where=options.identity)
    else:
        _store, document = stored_document(host, None)
    config = parse(document, purpose="prepare", pollable=True)
    identity = identity_for(config, host, options.purpose)
    issued = identity.token(audience_for(config, options.purpose))
    if not options.check:
        show(exec_credential(issued))
        return 0
    who = claims(issued.value)
    show(f"identity  {identity.name}")
    show(f"object    {who.get('oid', '-')}  tenant {who.get('tid', '-')}")
    show(f"audience  {who.get('aud', '-')}")
    show(f"valid     {issued.expires_on - host.clock.now():.0f} s more")
    return 0


def version(options: argparse.Namespace, host: Host) -> int:
    """Print the version, and nothing else."""
    show(VERSION)
    return 0
