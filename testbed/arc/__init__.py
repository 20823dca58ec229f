# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Arc in the testbed: a stand-in for its agent, as a package that nodes install.

In a test:
    arc.variables(bed)                             # what an inventory needs to register machines
    url, digest = arc.publish(bed.mirror)          # what package_url and package_sha256 are to be
    arc.know_azure(machine, bed.azure, bed.ca_pem) # tells the machine where its Azure is, and to trust it
    arc.fail(machine, "himds", seconds=5)          # and arc.heal(machine)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.arc.agent_package import NAME, package, sha256
from testbed.arc.machine import fail, heal, know_azure, preinstall
from testbed.mirror import Mirror

if TYPE_CHECKING:
    from testbed import Testbed

__all__ = [
    "NAME",
    "fail",
    "heal",
    "know_azure",
    "package",
    "preinstall",
    "publish",
    "sha256",
    "variables",
]
ONBOARDING = "Azure Connected Machine Onboarding"


def publish(mirror: Mirror) -> tuple[str, str]:
    """Serve the package from the mirror: its URL and digest."""
    return mirror.publish(NAME, package()), sha256()


def variables(bed: Testbed) -> dict[str, Any]:
    """What an inventory needs to register machines: the package, and who may do that and nothing else."""
    url, digest = publish(bed.mirror)
    onboarding = bed.azure.app_registration("arc-onboarding")
    bed.azure.grant(onboarding, ONBOARDING, bed.azure.cluster_id.partition("/providers/")[0])
    return {
        "flexnode_arc_package_url": url,
        "flexnode_arc_package_sha256": digest,
        "flexnode_arc_onboarding_client_id": onboarding.client_id,
        "flexnode_arc_onboarding_client_secret": onboarding.secret,
        "flexnode_arc_onboarding_tenant_id": bed.azure.tenant_id,
    }
