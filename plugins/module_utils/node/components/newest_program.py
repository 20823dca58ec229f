# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several releases may manage one machine, by push, by poll, at the machine: the newest program stays."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..config.types.values import Version
from ..machine.host import Host
from ..machine.layout import AGENT_DIR, BIN_DIR
from ..machine.program import COMMAND, PACKAGE, VERSION, place
from ..resources.base import Resource
from ..resources.paths import Link
from ..resources.program import Program

LINK = f"{BIN_DIR}/{COMMAND}"
ALTERED = "was changed by hand: install it again, with the bootstrap playbook or the file that it came from"


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


def altered_program(resources: Sequence[Resource]) -> str:
    """The directory of the installed program that runs now, if its files are not those it was named by."""
    wanted = [item.path for item in resources if isinstance(item, Program)]
    here = place()
    return here if os.path.dirname(here) == AGENT_DIR and wanted and here not in wanted else ""


def without_older_program(host: Host, resources: Sequence[Resource]) -> tuple[list[Resource], list[str]]:
    """The resources without our own program if the machine has a newer one; and a warning that says so.

    The same if the program that runs was changed by hand: it must not take itself for a new version.
    """
    if altered := altered_program(resources):
        others = [item for item in resources if not isinstance(item, Program)]
        link = Link(LINK, f"{altered}/{COMMAND}")
        return [link if item.name == LINK else item for item in others], [f"{altered} {ALTERED}"]
    installed = installed_version(host)
    if installed is None or installed <= Version.parse(VERSION):
        return list(resources), []
    # The link stays as it is: without it in the plan it would be removed as no longer configured.
    others = [item for item in resources if not isinstance(item, Program)]
    link = Link(LINK, host.stat(LINK).target)
    kept = [link if item.name == LINK else item for item in others]
    warning = (
        f"this machine has aks.flexnode {installed}, this run is of {VERSION}: the newer command stays. "
    )
    return kept, [
        warning + "Install that release here: ansible-galaxy collection install aks-flexnode-VERSION.tar.gz"
    ]
