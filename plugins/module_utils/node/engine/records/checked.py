# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the whole machine was last compared with its configuration. In memory: a boot makes a check due."""

from __future__ import annotations

from ...machine.host import Host
from ...machine.layout import RUN_DIR

# Its content is the kernel's monotonic time: setting the clock has no effect.
CHECKED = f"{RUN_DIR}/drift-checked"


def note_checked(host: Host) -> None:
    """The machine was compared, or made equal, right now."""
    now = f"{host.clock.monotonic():.0f}\n".encode()
    if host.read(CHECKED) != now:
        host.make_directories(RUN_DIR, 0o700)
        host.write(CHECKED, now, 0o600, durable=False)


def is_due(host: Host, interval: float) -> bool:
    """Whether the last check is older than that, or there was none since the boot."""
    try:
        age = host.clock.monotonic() - float(host.text(CHECKED))
    except ValueError:
        return True
    return not 0 <= age < interval
