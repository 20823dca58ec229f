# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The aks-flex-node command on the machine, and the units that poll its configuration."""

from __future__ import annotations

from ..config.auth import azure_method
from ..config.model import NodeConfig
from ..machine.facts import Facts
from ..machine.layout import (
    AGENT_DIR,
    APPLY_SERVICE,
    BIN_DIR,
    POLL_SERVICE,
    POLL_TIMER,
    PROGRAM_DIR,
    TEXTFILE_DIRECTORIES,
    UNIT_DIR,
)
from ..machine.program import COMMAND, sources
from ..resources.base import Resource
from ..resources.log_file import LogFile
from ..resources.paths import Directory, File, Link
from ..resources.program import Program
from .system_config import HEADER


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """The command, from the files that run now."""
    polls = config.continuous_monitoring
    program = Program(AGENT_DIR, sources(), COMMAND, compiled_for=facts.python if polls else "")
    return [
        Directory(PROGRAM_DIR, 0o755, ours=True),
        program,
        Link(f"{BIN_DIR}/{COMMAND}", f"{program.path}/{COMMAND}"),
        Directory(config.paths.log_dir, created=0o750),
        LogFile(config.log_file),
        *(monitoring(config) if polls else ()),
    ]


def monitoring(config: NodeConfig) -> list[Resource]:
    """A timer, the service that polls, and the service that applies a new configuration."""
    return [
        File(f"{UNIT_DIR}/{APPLY_SERVICE}", APPLY),
        File(f"{UNIT_DIR}/{POLL_SERVICE}", poll_service(config)),
        File(f"{UNIT_DIR}/{POLL_TIMER}", TIMER, restarts=(POLL_TIMER,)),
    ]


TIMER = f"""{HEADER}[Unit]
Description=Poll for a new configuration of this node

[Timer]
# Every 20 to 40 seconds, at random moments, so that nodes do not poll together; also after a boot, when
# the timer is started again.
OnActiveSec=5
OnUnitInactiveSec=20
RandomizedDelaySec=20
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


# The Arc agent's challenge files belong to its own user: root can't read them without this.
READS_CHALLENGE = "CAP_DAC_READ_SEARCH"
HOMES = ("/home/", "/root/", "/run/user/")


def protect_home(config: NodeConfig) -> str:
    """A credential in a home directory must be readable, nothing else there."""
    principal = config.azure.service_principal
    files = (principal.client_secret_file, principal.client_certificate_file) if principal else ()
    return "read-only" if any(file and file.startswith(HOMES) for file in files) else "yes"


def poll_service(config: NodeConfig) -> str:
    """One poll. It requests its source and writes its own state; the apply service does the rest."""
    data_dir = config.paths.data_dir.replace("%", "%%")
    capabilities = READS_CHALLENGE if azure_method(config) == "arc" else ""
    return f"""{HEADER}[Unit]
Description=Poll once for a new configuration of this node
After=network-online.target

[Service]
Type=oneshot
ExecStart={BIN_DIR}/{COMMAND} poll --hand-over
TimeoutStartSec=300
# A poll that finds nothing new logs nothing.
LogLevelMax=notice
RuntimeDirectory={COMMAND}
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
ReadWritePaths="-{data_dir}" {" ".join(f'"-{path}"' for path in TEXTFILE_DIRECTORIES)}
CapabilityBoundingSet={capabilities}
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome={protect_home(config)}
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077
"""


APPLY_SECONDS = 3600  # then systemd ends it
# It changes files everywhere, stops pods and unmounts volumes: it must see the whole machine. And it
# stops and replaces the other two units, so it has to be a third one.
APPLY = f"""{HEADER}[Unit]
Description=Apply the new configuration of this node
After=network-online.target

[Service]
Type=oneshot
ExecStart={BIN_DIR}/{COMMAND} poll
TimeoutStartSec={APPLY_SECONDS // 3600}h
LockPersonality=yes
RestrictRealtime=yes
SystemCallArchitectures=native
UMask=0022
"""
