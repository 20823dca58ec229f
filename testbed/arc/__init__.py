# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Arc in the testbed: a stand-in for its agent, as a package that nodes install.

In a test:
    url, digest = arc.publish(bed.mirror)          # what package_url and package_sha256 are to be
    arc.know_azure(machine, bed.azure, bed.ca_pem) # tells the machine where its Azure is, and to trust it
    arc.fail(machine, "himds", seconds=5)          # and arc.heal(machine)
"""

from __future__ import annotations

from testbed.arc.agent_package import NAME, package, sha256
from testbed.arc.machine import fail, heal, know_azure, preinstall
from testbed.mirror import Mirror

__all__ = ["NAME", "fail", "heal", "know_azure", "package", "preinstall", "publish", "sha256"]


def publish(mirror: Mirror) -> tuple[str, str]:
    """Serve the package from the mirror: its URL and digest."""
    return mirror.publish(NAME, package()), sha256()
