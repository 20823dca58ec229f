# SPDX-License-Identifier: GPL-3.0-or-later
"""IMDS: the metadata service that an Azure VM has at 169.254.169.254; here it runs inside the machine.

What it knows (/etc/testbed/imds.json) stands for what Azure knows, outside of a VM.
"""

from __future__ import annotations

from typing import Any

from . import metadata, settings
from .azure_http import token
from .metadata import Answer

ADDRESS = "169.254.169.254"


def give(resource: str, query: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
    """A token of the identity that is asked for: by its client id, else the system-assigned one."""
    known = settings.read(settings.place("/etc/testbed/imds.json"))
    wanted = query.get("client_id", "").lower()
    identities: list[dict[str, Any]] = known.get("identities", [])
    found = [
        one for one in identities if (one["client_id"].lower() == wanted if wanted else one.get("system"))
    ]
    if not found:
        raise Answer(400, "invalid_request", "Identity not found")
    one = found[0]
    return token(known["authority"], known["tenant_id"], one["client_id"], one["secret"], resource)


if __name__ == "__main__":
    metadata.serve("imds", ADDRESS, 80, give)
