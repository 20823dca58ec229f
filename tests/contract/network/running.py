# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module as people run it, and what it asked of Azure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testbed.layout.identifiers import CLUSTER_ID
from tests.contract.modules.conftest import Person
from tests.contract.network.conftest import PASSPHRASE, PlainAzure

QUICK = {"poll_interval": 0, "operation_timeout": 60}


def module(someone: Person, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """Run it; nothing that it says may hold the passphrase."""
    known = {"cluster_id": CLUSTER_ID, "directory": str(someone.directory / "vpn"), "passphrase": PASSPHRASE}
    answer = someone.run("flexnode_vpn_gateway", check=check, **{**known, **QUICK, **options})
    assert PASSPHRASE not in json.dumps(answer)
    return answer


def done(someone: Person, **options: Any) -> dict[str, Any]:
    answer = module(someone, **options)
    assert not answer.get("failed"), answer["msg"]
    return answer


def refused(someone: Person, **options: Any) -> tuple[str, str]:
    answer = module(someone, **options)
    assert answer.get("failed"), answer
    return answer["error"]["code"], answer["msg"]


def writes(azure: PlainAzure) -> list[str]:
    """Changes of networks so far, without what polls ask."""
    return [
        f"{one.method} {one.path.rpartition('/providers/')[2].removeprefix('Microsoft.Network/')}"
        for one in azure.requests()
        if one.method != "GET" and "/microsoft.network/" in one.path.lower() and one.status < 400
    ]


def record_of(someone: Person) -> Path:
    (found,) = (someone.directory / "vpn").glob("*.json")
    return found
