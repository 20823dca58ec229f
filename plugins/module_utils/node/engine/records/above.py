# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories above paths.dataDir that did not exist before: created with it, removed with it."""

from __future__ import annotations

import os

from ...machine.host import Host

ABOVE = "/etc/aks-flex-node/data-dir-above"  # one path per line


def record_missing(host: Host, directory: str) -> None:
    """Record the directories above that are about to be created. The journal can't: it is below them."""
    if missing := [path for path in directories_above(directory) if not host.exists(path)]:
        host.write(ABOVE, "".join(f"{path}\n" for path in missing).encode(), 0o644)
    else:
        host.remove(ABOVE)  # of a directory that a killed run was about to create


def remove_above(host: Host, directory: str) -> None:
    """Remove those that are empty now. What others have put into one, or mounted there, stays."""
    recorded = host.text(ABOVE).splitlines()
    for path in directories_above(directory):
        if path in recorded and host.stat(path).is_ == "directory":
            host.remove_directory(path)
    host.remove(ABOVE)


def directories_above(directory: str) -> list[str]:
    """Every directory above one, the deepest first, without the root."""
    above = []
    while (directory := os.path.dirname(directory)).strip("/"):
        above.append(directory)
    return above
