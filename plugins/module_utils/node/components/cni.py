# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pod networking: the standard plugins, and a bridge network if the cluster provides none."""

from __future__ import annotations

import json

from ..catalogue.artifacts import artifacts_of
from ..config.model import NodeConfig
from ..machine.facts import Facts
from ..resources.base import Resource
from ..resources.paths import File, Link
from ..resources.tree import Tree, place_of

# The plugins that upstream ships in every release since 1.4.
PLUGINS = (
    "bandwidth",
    "bridge",
    "dhcp",
    "dummy",
    "firewall",
    "host-device",
    "host-local",
    "ipvlan",
    "loopback",
    "macvlan",
    "portmap",
    "ptp",
    "sbr",
    "static",
    "tap",
    "tuning",
    "vlan",
    "vrf",
)


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Plugins for any network that the cluster uses, and the bridge network if configured."""
    artifact = artifacts_of(config, facts.arch)["cni-plugins"]
    directory = place_of(artifact)
    paths = config.paths.cni
    return [
        Tree(directory, artifact, tuple((name, name) for name in PLUGINS)),
        *(Link(f"{paths.bin_dir}/{name}", f"{directory}/{name}") for name in PLUGINS),
        *(
            [File(f"{paths.conf_dir}/10-flexnode.conflist", bridge(config))]
            if config.cni.mode == "bridge"
            else []
        ),
    ]


def bridge(config: NodeConfig) -> str:
    """A bridge with addresses from this node's own range, masqueraded outside of it."""
    is_ipv6 = config.cni.pod_cidr is not None and config.cni.pod_cidr.version == 6
    network = {
        "cniVersion": "1.0.0",
        "name": "flexnode",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{config.paths.cni.lib_dir}/networks",
                    "ranges": [[{"subnet": str(config.cni.pod_cidr)}]],
                    "routes": [{"dst": "::/0" if is_ipv6 else "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    return json.dumps(network, indent=2) + "\n"
