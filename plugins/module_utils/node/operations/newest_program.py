# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several releases may manage one machine, by push, by poll, at the machine: the newest program stays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..config.types.values import Version
from ..machine.host import Host
from ..machine.layout import BIN_DIR
from ..machine.program import COMMAND, PACKAGE, VERSION
from ..resources.base import Resource
from ..resources.program import Program

LINK = f"{BIN_DIR}/{COMMAND}"


def installed_version(host: Host) -> Version | None:
    """The release of the command on this machine; None: there is none, or it can't be told."""
    directory = host.stat(LINK).target.rpartition("/")[0]
    found = re.search(
        r'^VERSION = "(.+)"$', host.text(f"{directory}/{PACKAGE}/machine/program.py"), re.MULTILINE
    )
    try:
        return Version.parse(found[1]) if found else None
    except ValueError:
        return None


def without_older_program(host: Host, resources: Sequence[Resource]) -> tuple[list[Resource], list[str]]:
    """The resources without our own program if the machine has a newer one; and a warning that says so."""
    installed = installed_version(host)
    if installed is None or installed <= Version.parse(VERSION):
        return list(resources), []
    kept = [item for item in resources if not isinstance(item, Program) and item.name != LINK]
    warning = (
        f"this machine has aks.flexnode {installed}, this run is of {VERSION}: the newer command stays. "
    )
    return kept, [
        warning + "Install that release here: ansible-galaxy collection install aks.flexnode --upgrade"
    ]
