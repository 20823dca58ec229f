# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for the system's journal, under the name of our command."""

from __future__ import annotations

import os

from ..machine.host import Host
from ..machine.program import COMMAND

SOCKET = "/run/systemd/journal/socket"
LEVELS = {"debug": 7, "info": 6, "warning": 4, "error": 3}  # of syslog


def to_journal(host: Host, level: str, line: str) -> None:
    """Send one line. A machine without journald has none: nothing depends on it."""
    if "JOURNAL_STREAM" in os.environ or not host.exists(SOCKET):
        return  # in a service of ours systemd reads what it prints
    import socket  # a run that changes nothing has nothing to send

    fields = f"SYSLOG_IDENTIFIER={COMMAND}\nPRIORITY={LEVELS[level]}\nMESSAGE={line}\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as journal:
        journal.settimeout(0.2)  # its queue is short: ten lines on some kernels
        try:
            journal.sendto(fields.encode(errors="replace"), host.path(SOCKET))
        except OSError:
            return  # full or gone; the run itself is what counts
