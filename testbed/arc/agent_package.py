# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's package: the command, its services and where it keeps things, as the real one has them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from testbed.arc import deb
from testbed.arc.programs.settings import VERSION
from testbed.artifacts.archive import Entry

PROGRAMS = Path(__file__).resolve().parent / "programs"
LIBRARY = "opt/azcmagent/lib"
NAME = f"azcmagent_{VERSION}_all.deb"
FIELDS = {
    "Package": "azcmagent",
    "Version": VERSION,
    "Section": "net",
    "Priority": "optional",
    "Architecture": "all",
    "Depends": "python3 (>= 3.10), systemd, passwd",
    "Maintainer": "aks.flexnode testbed",
    "Description": "Stand-in for the Azure Connected Machine agent",
}
LAUNCHER = f"""#!/bin/sh
PYTHONPATH=/{LIBRARY} PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 -m programs.azcmagent "$@"
"""
UNIT = """[Unit]
Description={about}
After=network.target

[Service]
Environment=PYTHONPATH=/{library} PYTHONDONTWRITEBYTECODE=1
ExecStart={command}
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""
SERVICES = {
    "himdsd": ("Azure Connected Machine Agent Service", "/usr/bin/python3 -m programs.himds"),
    "extd": ("Extension Service", "/bin/sleep infinity"),
    "gcad": ("GC Arc Service", "/bin/sleep infinity"),
}
UNITS = " ".join(f"{name}.service" for name in SERVICES)
POSTINST = f"""#!/bin/sh
set -e
getent group himds >/dev/null || groupadd --system himds
getent passwd himds >/dev/null || useradd --system --gid himds --no-create-home himds
mkdir -p /var/opt/azcmagent/tokens /var/opt/azcmagent/certs /var/opt/azcmagent/log /etc/opt/azcmagent
chown himds:himds /var/opt/azcmagent/tokens
chmod 0750 /var/opt/azcmagent/tokens
chmod 0700 /var/opt/azcmagent/certs
systemctl daemon-reload
systemctl enable --quiet {UNITS}
systemctl restart {UNITS}
"""
PRERM = f"""#!/bin/sh
set -e
systemctl disable --quiet --now {UNITS} || true
"""
POSTRM = """#!/bin/sh
set -e
systemctl daemon-reload || true
if [ "$1" = purge ]; then
  rm -rf /var/opt/azcmagent /etc/opt/azcmagent
  if getent passwd himds >/dev/null; then userdel himds; fi
  if getent group himds >/dev/null; then groupdel himds; fi
fi
"""


def library(below: str) -> dict[str, Entry]:
    """The programs as files below a directory of a machine."""
    return {
        f"{below}/programs/{path.name}": Entry(path.read_bytes()) for path in sorted(PROGRAMS.glob("*.py"))
    }


@cache
def package() -> bytes:
    """The .deb."""
    units = {
        f"usr/lib/systemd/system/{name}.service": Entry(
            UNIT.format(about=about, command=command, library=LIBRARY).encode()
        )
        for name, (about, command) in SERVICES.items()
    }
    files = {
        **library(LIBRARY),
        **units,
        "opt/azcmagent/bin/azcmagent": Entry(LAUNCHER.encode(), 0o755),
        "usr/bin/azcmagent": Entry("/opt/azcmagent/bin/azcmagent"),
    }
    scripts = {"postinst": POSTINST, "prerm": PRERM, "postrm": POSTRM}
    return deb.build(FIELDS, scripts, files)


def sha256() -> str:
    """Its digest: the same wherever and whenever it is built."""
    return hashlib.sha256(package()).hexdigest()
