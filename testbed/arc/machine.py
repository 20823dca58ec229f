# SPDX-License-Identifier: GPL-3.0-or-later
"""What the testbed puts into a node machine for its stand-ins."""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

from testbed.arc.agent_package import NAME, package
from testbed.artifacts.archive import Entry, tar_bytes
from testbed.machine import Machine

CA = "usr/local/share/ca-certificates/testbed.crt"
UNPACK = "base64 --decode | tar --extract --directory / --no-overwrite-dir"
FAULTY = ("himds", "imds", "azcmagent")


class Place(Protocol):
    """The emulated Azure, as far as a machine needs to know it."""

    @property
    def url(self) -> str: ...

    @property
    def tenant_id(self) -> str: ...


def put(machine: Machine, files: dict[str, Entry]) -> None:
    """Unpack files into a machine, as root."""
    data = tar_bytes(files)
    machine.run(["sh", "-c", UNPACK], input=base64.b64encode(data).decode())  # exec takes text only


def know_azure(machine: Machine, azure: Place, ca_pem: str) -> None:
    """Configure a machine for this Azure; its CA goes into the system's store, as a site's own CA would."""
    where = {"resource_manager": azure.url, "authority": azure.url, "tenant_id": azure.tenant_id}
    put(
        machine,
        {
            "etc/testbed/azure.json": Entry(json.dumps(where).encode()),
            CA: Entry(ca_pem.encode()),
        },
    )
    machine.run(["update-ca-certificates"])


def preinstall(machine: Machine) -> None:
    """Install the agent on a machine before the collection does."""
    put(machine, {f"tmp/{NAME}": Entry(package())})
    machine.run(["dpkg", "--install", f"/tmp/{NAME}"])  # noqa: S108 - inside the machine


def fail(machine: Machine, program: str, **fault: Any) -> None:
    """Make a stand-in show faults from now on.

    himds, imds: status, times, retry_after, seconds, down, expired; himds: wrong_challenge, realm;
    azcmagent: connect and disconnect ({code, message, seconds}), show_status, show_error.
    """
    if program not in FAULTY:
        raise ValueError(f"{program} is not one of {', '.join(FAULTY)}")
    put(machine, {f"etc/testbed/{program}-faults.json": Entry(json.dumps(fault).encode())})


def heal(machine: Machine) -> None:
    """Stop all faults of stand-ins."""
    machine.run(["rm", "-f", *(f"/etc/testbed/{name}-faults.json" for name in FAULTY)])
