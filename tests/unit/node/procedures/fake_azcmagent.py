#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An azcmagent for tests, run as a program: keeps its state, and what it was given, below AGENT_ROOT."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["AGENT_ROOT"])
STATE, LOG, TROUBLE = ROOT / "agent.json", ROOT / "agent.log", ROOT / "trouble.json"


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def main(argv: list[str]) -> int:
    command, options, file = argv[0], {}, ""
    if "--config" in argv:
        file = argv[argv.index("--config") + 1]
        options = json.loads(Path(file).read_text())
    mode = stat.S_IMODE(os.stat(file).st_mode) if file else 0
    with LOG.open("a") as log:
        log.write(json.dumps({"argv": argv, "options": options, "mode": mode}) + "\n")
    trouble = load(TROUBLE).get(command)
    if trouble:
        sys.stdout.write(f'level=fatal msg="AZCM{trouble["code"]:04}: {trouble["text"]}"\n')
        if not trouble.get("after"):
            return int(trouble["code"])
    state = load(STATE)
    if command == "show":
        sys.stdout.write(json.dumps({"agentVersion": "1.62", "status": "Disconnected", **state}))
    elif command == "connect":
        made = {
            "resourceName": options["resource-name"],
            "resourceGroup": options["resource-group"],
            "subscriptionId": options["subscription-id"],
            "tenantId": options["tenant-id"],
            "location": options["location"],
            "vmId": "a-vm-id",
            "status": "Connected",
        }
        STATE.write_text(json.dumps({**state, **made}))
    elif command == "disconnect":
        STATE.write_text(json.dumps({key: value for key, value in state.items() if key == "proxy"}))
    elif argv[:2] == ["config", "get"]:
        sys.stdout.write(f"{state.get('proxy', '')}\n")
    elif argv[:2] == ["config", "set"]:
        STATE.write_text(json.dumps({**state, "proxy": argv[3]}))
    return int(trouble["code"]) if trouble else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
