# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of a site behind NAT, and a cluster that it reaches through a VPN gateway only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import Testbed
from testbed.cluster.credentials import API_PORT
from testbed.machine import Machine
from testbed.playbooks import Play
from testbed.vpn.gateway import Gateway
from tests.e2e import fleet, pulling
from tests.e2e.updating import Document, changed

UNIT, DEVICE = "aks-flex-node-vpn.service", "aksvpn0"
PROFILE = "/etc/aks-flex-node/vpn/client.conf"
GATE_SECONDS = 20  # of a profile that does not work; one that does takes a second or two
STATE = "/var/lib/aks-flex-node/state.json"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"

WATCH, SEEN = "phases", "/run/phases-seen"
# Runs on the machine: notes each new phase. A look from outside is too slow for short ones.
LOOK = """
import json, sys, time
last = ""
with open(sys.argv[2], "w", buffering=1) as seen:
    while True:
        try:
            with open(sys.argv[1]) as file:
                phase = json.load(file)["phase"]
        except (OSError, ValueError):
            phase = last
        if phase != last:
            seen.write(phase + "\\n")
            last = phase
        time.sleep(0.01)
"""


@dataclass(frozen=True)
class Private:
    """A machine at such a site, with what its inventory holds."""

    bed: Testbed
    machine: Machine
    inventory: Path
    document: Document  # without a VPN

    @property
    def gateway(self) -> Gateway:
        """The gateway to the cluster's network."""
        return self.bed.gateway

    @property
    def name(self) -> str:
        """Of the machine and its Node."""
        return self.machine.name

    def with_vpn(self, profile: str, **sections: Any) -> Document:
        """The document with a profile."""
        azure = {**self.document["azure"], "vpn": {"enabled": True, "profile": profile}}
        return changed(self.document, azure=azure, **sections)

    def play(self, playbook: str, document: Document, *options: str) -> Play:
        """What a user does, with this document in the inventory."""
        fleet.write_inventory(
            self.bed,
            [self.machine],
            self.inventory,
            flexnode_config=document,
            flexnode_kubeconfig=str(self.bed.cluster.kubeconfig),
        )
        return fleet.play(playbook, self.inventory, *options)

    def status(self) -> dict[str, Any]:
        """What the machine says of itself."""
        shown = self.machine.run(["aks-flex-node", "status", "--json"], check=False).stdout
        found: dict[str, Any] = json.loads(shown)
        return found

    def address(self) -> str:
        """The Node's address, as the API server uses it for logs and exec."""
        found = fleet.node(self.bed, self.name)["status"]["addresses"]
        return str(next(one["address"] for one in found if one["type"] == "InternalIP"))

    def reaches_api_server(self) -> bool:
        """Whether the machine can connect to the API server at all, whichever way."""
        address = self.bed.site.plan.service("kube-apiserver")
        argv = ["python3", "-c", CONNECT, address, str(API_PORT)]
        return self.machine.run(argv, check=False).returncode == 0

    def device(self) -> str:
        """The kernel's device of the way to the API server."""
        address = self.bed.site.plan.service("kube-apiserver")
        shown = self.machine.run(["ip", "-json", "route", "get", address], check=False).stdout
        return str(json.loads(shown)[0]["dev"]) if shown.strip() else ""

    def is_connected(self) -> bool:
        """Whether the client says that the tunnel is up."""
        return bool(self.status()["vpn"]["status"] == "Connected")

    def is_ready(self) -> bool:
        """Whether the Node is Ready."""
        return fleet.is_ready(fleet.node(self.bed, self.name))

    @contextmanager
    def phases(self) -> Iterator[list[str]]:
        """The phases that the machine recorded meanwhile, in their order; known at the end."""
        seen: list[str] = []
        self.machine.run(["systemd-run", "--quiet", f"--unit={WATCH}", "python3", "-c", LOOK, STATE, SEEN])
        try:
            yield seen
        finally:
            time.sleep(0.2)  # the last phase may be new
            self.machine.run(["systemctl", "stop", WATCH])
            seen += self.machine.read(SEEN).split()
            self.machine.run(["rm", SEEN])


def at_a_site(bed: Testbed, name: str, inventory: Path) -> Private:
    """A fresh machine at a site behind NAT; apt finds the VPN client there."""
    bed.gateway.up()
    for old in bed.nodes():
        if old.name == name:  # left over from a run that was killed
            old.remove()
    machine = bed.node(name, edge=True)
    pulling.offer_packages(machine, ("openvpn",))
    api = bed.site.plan.service("kube-apiserver")
    document = changed(
        fleet.join_document(bed),
        network={"vnetCIDRs": [f"{api}/32"]},
        upgrade={"gateSeconds": GATE_SECONDS},
    )
    return Private(bed, machine, inventory, document)
