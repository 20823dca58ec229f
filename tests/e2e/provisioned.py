# SPDX-License-Identifier: GPL-3.0-or-later
"""A private site whose VPN gateway the playbooks make in the emulated Azure; a real server stands for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.record import Record, Store
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.resources import resource_id
from testbed import arc
from testbed.document import SITE
from testbed.playbooks import Play, play, write_inventory
from tests.e2e import cloud
from tests.e2e.identities import Member, registrar, resource_group
from tests.e2e.private import GATE_SECONDS, PROFILE, Private
from tests.e2e.test_secrets import LARGEST, PASSING, PLACES, READER, Sampler, Searcher, root

PASSPHRASE = "a passphrase for the records of this test"
NETWORK = "/providers/Microsoft.Network/"
GATEWAY = f"{NETWORK}virtualNetworkGateways/flexnode-vpn"
# What the site's part of an inventory says about Azure Arc and the VPN.
ARC = {"enabled": True, "autoRoleAssignment": True}
VPN = {"enabled": True, "autoProvision": True}


@dataclass(repr=False)
class Provisioned:
    """One machine from its first run, which fails, to the last; and all that could be seen of it."""

    site: Private
    directory: Path
    environment: dict[str, str]
    runs: dict[str, Play] = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def play(self, name: str, playbook: str, *options: str, **config: Any) -> Play:
        """A playbook at its most talkative, with five lines of inventory and this site's own."""
        bed, machine = self.site.bed, self.site.machine
        document = bed.node_document()
        azure = {
            "tenantId": bed.azure.tenant_id,
            "resourceManagerEndpoint": bed.azure.url,
            "activeDirectoryEndpoint": bed.azure.url,
            "arc": ARC,
            "vpn": VPN,
        }
        inventory = write_inventory(
            bed,
            [machine],
            self.directory / "hosts.yml",
            flexnode_config_source="cluster",
            flexnode_cluster_id=bed.azure.cluster_id,
            **arc.variables(bed),
            flexnode_vpn_passphrase=PASSPHRASE,
            flexnode_config={
                **{part: document[part] for part in SITE},
                "azure": azure,
                "upgrade": {"gateSeconds": GATE_SECONDS},
                **config,
            },
        )
        sampler = Sampler((self.directory, *(root(machine) / place for place in PASSING)))
        with sampler.at_work():
            run = play(playbook, inventory, "-vvv", "--diff", *options, environment=self.environment)
        self.runs[name] = run
        self._learn()
        self.texts |= {f"{name}: output": run.output, f"{name}: events": json.dumps(run.events)}
        self.texts |= {f"{name}: process {text[:80]}": text for text in sampler.processes}
        self.texts |= {f"{name}: {path}": text for path, text in sampler.files.items()}
        found = json.loads(machine.run(["python3", "-c", READER], input=json.dumps([PLACES, LARGEST])).stdout)
        self.texts |= {f"{name}: {machine.name}:{path}": text for path, text in found.items()}
        return run

    def _learn(self) -> None:
        """The secrets of now: the machine's profile, and what the controller keeps."""
        installed = self.site.machine.run(["cat", PROFILE], check=False).stdout
        if installed and installed not in self.profiles:
            self.profiles.append(installed)
        record = self.record()
        keys = record.keys if record else {}
        self.secrets |= {"passphrase": PASSPHRASE}
        self.secrets |= {f"key {name[:8]}": middle(key) for name, key in keys.items()}

    def record(self) -> Record | None:
        """What the controller knows of certificates; it is beside the inventory."""
        gateway = resource_id(f"{resource_group(self.site.bed)}{GATEWAY}", "virtualNetworkGateways")
        assert gateway
        return Store(str(self.directory / "flexnode_vpn"), gateway, PASSPHRASE).read()

    def hits(self) -> list[str]:
        """Where a secret was seen that should not be."""
        journal = self.site.machine.run(["journalctl", "--no-pager", "--output=export"]).stdout
        places = {**self.texts, "journal": journal}
        return Searcher(self.secrets, ()).hits(places)

    def writes(self) -> list[str]:
        """Which resources of Azure's networks were written since the record of requests was emptied."""
        asked = [one for one in self.site.bed.azure.requests() if NETWORK in one.path]
        return [
            f"{one.method} {one.path.partition(NETWORK)[2]}"
            for one in asked
            if one.method in ("PUT", "DELETE")
        ]


def middle(key: str) -> str:
    """A line of a PEM key that is found wherever the key is, indented or folded."""
    lines = key.strip().splitlines()
    return lines[len(lines) // 2].strip()


def network_of(subnet: IPv4Network) -> tuple[str, str]:
    """The address space of a VNet around the testbed's services, and half of it for the cluster's nodes."""
    return str(subnet), str(next(subnet.subnets(1)))


@contextmanager
def provisioned(site: Private, directory: Path) -> Iterator[Provisioned]:
    """A site without a gateway, and somebody who may make one; profiles will lead to the testbed's server."""
    azure, machine = site.bed.azure, site.machine
    space, nodes = network_of(site.bed.site.plan.subnet)
    azure.settings()
    azure.forget_network()
    azure.forget_requests()
    azure.set_network(space, nodes=nodes)
    azure.set_vpn_server(**site.gateway.server)
    operator = registrar(site.bed, "vpn-operator", cloud.ROLE)
    azure.grant(operator, "Network Contributor", resource_group(site.bed))
    member = Member(site.bed, machine, "arc", "token", operator)
    member.exist()
    try:
        yield Provisioned(site, directory, azure.environment(operator))
    finally:
        azure.forget_network()
        azure.settings()
