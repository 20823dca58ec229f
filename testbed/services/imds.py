# SPDX-License-Identifier: GPL-3.0-or-later
"""An Azure VM's metadata service (IMDS) in a node machine, with tokens of the emulated Entra.

In a test:
    vm = bed.azure.app_registration("vm-edge-1")     # stands for the VM's system-assigned identity
    imds.install(machine, bed.azure, system=vm)      # after arc.know_azure(machine, ...): TLS trust
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from testbed.arc.agent_package import library
from testbed.arc.machine import Place, put
from testbed.artifacts.archive import Entry
from testbed.azure.sign_in.directory import Principal
from testbed.machine import Machine

UNIT = "testbed-imds.service"
UNIT_FILE = """[Unit]
Description=Instance metadata service, as an Azure VM has it
After=network.target

[Service]
ExecStartPre=/sbin/ip address replace 169.254.169.254/32 dev lo
Environment=PYTHONPATH=/opt/testbed/lib PYTHONDONTWRITEBYTECODE=1
ExecStart=/usr/bin/python3 -m programs.imds
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


def install(
    machine: Machine, azure: Place, system: Principal | None = None, user_assigned: Sequence[Principal] = ()
) -> None:
    """Make a machine an Azure VM with these identities; again with others changes them."""
    known = [(one, False) for one in user_assigned] + ([(system, True)] if system else [])
    document = {
        "authority": azure.url,
        "tenant_id": azure.tenant_id,
        "identities": [
            {"client_id": one.client_id, "secret": one.secret, "system": is_system}
            for one, is_system in known
        ],
    }
    put(
        machine,
        {
            **library("opt/testbed/lib"),
            "etc/testbed/imds.json": Entry(json.dumps(document).encode(), 0o600),
            f"etc/systemd/system/{UNIT}": Entry(UNIT_FILE.encode()),
        },
    )
    machine.run(["systemctl", "daemon-reload"])
    machine.run(["systemctl", "enable", "--quiet", UNIT])
    machine.run(["systemctl", "restart", UNIT])


def remove(machine: Machine) -> None:
    """No Azure VM any more."""
    machine.run(["systemctl", "disable", "--quiet", "--now", UNIT])
    machine.run(["ip", "address", "delete", "169.254.169.254/32", "dev", "lo"], check=False)
    machine.run(["rm", "-rf", f"/etc/systemd/system/{UNIT}", "/etc/testbed/imds.json", "/opt/testbed/lib"])
