# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the stand-ins keep things, and what the testbed tells them. ARC_ROOT puts it elsewhere, for tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VERSION = "1.62.03460.1115"
PORT = 40342


def place(path: str) -> Path:
    """A path of the machine."""
    return Path(os.environ.get("ARC_ROOT", "") + path)


def state() -> Path:
    """The agent's own directory."""
    return place("/var/opt/azcmagent")


def tokens() -> Path:
    """Where challenges are."""
    return state() / "tokens"


def read(path: Path) -> dict[str, Any]:
    """A JSON file; nothing where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, content: dict[str, Any] | str, mode: int) -> None:
    """Put a file in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.touch(0o600)
    text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
    beside.write_text(text, encoding="utf-8")
    beside.chmod(mode)
    beside.replace(path)


def azure() -> dict[str, Any]:
    """resource_manager, authority, tenant_id: where Azure is. The real agent knows by --cloud."""
    return read(place("/etc/testbed/azure.json"))


def faults(name: str) -> dict[str, Any]:
    """The faults that a program was configured to show: /etc/testbed/{himds,imds,azcmagent}-faults.json."""
    return read(place(f"/etc/testbed/{name}-faults.json"))


def agent_config() -> Path:
    """What the machine is registered as."""
    return state() / "agentconfig.json"


def credential() -> Path:
    """The identity's own key; the real agent keeps a certificate there."""
    return state() / "certs" / "myCert"
