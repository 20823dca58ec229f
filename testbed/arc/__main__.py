# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare machines of a testbed for Azure Arc, and print the variables of a run that registers them.

python -m testbed.arc edge-1 > site.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from testbed import Testbed, arc
from testbed.document import SITE


def variables(bed: Testbed) -> dict[str, Any]:
    """Variables that an inventory for real Azure would not have."""
    document = bed.node_document()
    return {
        "flexnode_cluster_id": bed.azure.cluster_id,
        **arc.variables(bed),
        "flexnode_config": {
            **{part: document[part] for part in SITE},
            "azure": {
                "tenantId": bed.azure.tenant_id,
                "resourceManagerEndpoint": bed.azure.url,
                "activeDirectoryEndpoint": bed.azure.url,
                "arc": {"enabled": True, "autoRoleAssignment": True},
            },
        },
    }


def main() -> int:
    """Configure the machines for this Azure."""
    parser = argparse.ArgumentParser(prog="python -m testbed.arc", description=__doc__)
    parser.add_argument("--name", default=os.environ.get("TESTBED_NAME", "flexnode"))
    parser.add_argument("machines", nargs="+")
    options = parser.parse_args()
    bed = Testbed(options.name)
    for machine in bed.nodes():
        if machine.name in options.machines:
            arc.know_azure(machine, bed.azure, bed.ca_pem)
    sys.stdout.write(json.dumps(variables(bed), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
