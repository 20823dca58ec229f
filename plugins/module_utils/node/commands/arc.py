# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `arc`: this machine in Azure Arc."""

from __future__ import annotations

import argparse
import json
import sys

from ..engine.lease import held, new_operation
from ..machine.facts import gather
from ..machine.host import Host
from ..machine.program import COMMAND
from ..operations.obtain import Obtained, stored_config
from ..procedures.arc.choice import installer_token, requested_registration
from ..procedures.arc.registration import Outcome, query, register
from ..secret import Secret
from ..status.publish import publish
from .output import Say, progress, show


def arc(options: argparse.Namespace, host: Host) -> int:
    """Exit status 0: registered, connected, and all services run."""
    if options.action == "register":
        obtained = stored_config(host, pollable=True)
        say = (lambda _: None) if options.json else progress(host)
        with held(host, new_operation(), f"{COMMAND} arc register"):
            outcome = register_machine(obtained, say, from_stdin=options.access_token_stdin)
    else:
        outcome = query(host)
    found = outcome.as_dict()
    if options.json:
        show(json.dumps(found, indent=2))
    else:
        show(f"agent     {found['agent_version'] or 'not installed'}  {found['agent_status']}".rstrip())
        show(f"machine   {found['resource_id'] or '-'}")
        show(f"services  {', '.join(f'{name} {state}' for name, state in found['services'].items()) or '-'}")
    healthy = found["connected"] and all(state == "active" for state in found["services"].values())
    return 0 if healthy else 3


def register_machine(obtained: Obtained, say: Say, *, from_stdin: bool = False) -> Outcome:
    """Register with Azure Arc as configured."""
    host, config = obtained.node.host, obtained.node.config
    token = Secret(sys.stdin.readline().strip()) if from_stdin else None
    known = query(host).status.registration
    token = token or (None if known else installer_token(config, host))
    request = requested_registration(config, gather(host).hostname, known)
    try:
        return register(host, obtained.store, request, token, progress=say)
    finally:
        publish(host, obtained.store)
