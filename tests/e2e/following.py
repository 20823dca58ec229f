# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that follow their configuration: what is PUT for them, how they are polled, what they did."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import requests

from testbed import Testbed, arc
from testbed.azure.sign_in.directory import Principal
from testbed.document import SITE
from testbed.machine import Machine
from testbed.playbooks import Play, play, write_inventory
from testbed.services import imds
from tests.e2e import fleet
from tests.e2e.identities import ARM, Member, Method

API = "2026-05-01-preview"
STATE = "/var/lib/aks-flex-node"
TIMER = "aks-flex-node-poll.timer"
UNITS = ("aks-flex-node-poll.service", "aks-flex-node-apply.service")
DROP_IN = f"/etc/systemd/system/{TIMER}.d"
SCALED = """[Timer]
OnActiveSec=
OnBootSec=
OnUnitInactiveSec=
OnActiveSec=1
OnUnitInactiveSec=2
RandomizedDelaySec=1
AccuracySec=100ms
"""
READER = "Reader"
RESOURCE_READ = "/flexNodeConfig/{}"


def scale(machine: Machine) -> None:
    """Poll every 2 to 3 s instead of every 20 to 40 s."""
    machine.run(["mkdir", "-p", DROP_IN])
    machine.run(["tee", f"{DROP_IN}/scaled.conf"], input=SCALED)
    machine.run(["systemctl", "daemon-reload"])
    machine.run(["systemctl", "restart", TIMER])


def unscale(machine: Machine) -> None:
    """As installed again; also after the machine has left."""
    machine.run(["rm", "-rf", DROP_IN])
    machine.run(["systemctl", "daemon-reload"])
    machine.run(["systemctl", "try-restart", TIMER], check=False)


def journal(machine: Machine, since: str = "-1h") -> str:
    """What the two services said."""
    units = [word for unit in UNITS for word in ("--unit", unit)]
    return machine.run(["journalctl", "--no-pager", "--output=cat", f"--since={since}", *units]).stdout


def state(machine: Machine, name: str) -> dict[str, Any]:
    """A file of the machine's own state."""
    found: dict[str, Any] = json.loads(machine.read(f"{STATE}/{name}"))
    return found


def status(machine: Machine) -> dict[str, Any]:
    """What `aks-flex-node status --json` prints."""
    done = machine.run(["aks-flex-node", "status", "--json"], check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@dataclass
class Follower:
    """A machine with a flexNodeConfig resource, and the one who writes it."""

    bed: Testbed
    machine: Machine
    method: Method
    operator: Principal
    directory: Path
    properties: dict[str, Any] = field(default_factory=dict)  # as they were PUT

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def member(self) -> Member:
        return Member(self.bed, self.machine, self.method, operator=self.operator)

    @property
    def principal(self) -> Principal:
        """The node's own identity in Azure; a machine of Arc has none before it is registered."""
        return self.member.principal

    @property
    def url(self) -> str:
        return f"{self.bed.azure.url}{self.bed.azure.cluster_id}/flexNodeConfig/{self.name}"

    def exist(self) -> None:
        """The machine knows its Azure; its identity may read the cluster and, for both, get a certificate."""
        arc.know_azure(self.machine, self.bed.azure, self.bed.ca_pem)
        if self.method == "managedIdentity":
            imds.install(self.machine, self.bed.azure, system=self.principal)
        if self.method != "arc":
            self.bed.azure.grant(self.principal, READER)
        if self.method == "servicePrincipal":
            self.member.may()

    @property
    def auth(self) -> dict[str, Any]:
        """Who the machine is: the parts of the PUT, as in the seeds."""
        if self.method == "servicePrincipal":
            principal = {
                "clientId": self.principal.client_id,
                "clientSecret": self.principal.secret,
                "clientTenant": self.bed.azure.tenant_id,
            }
            auth = {"method": "servicePrincipal", "servicePrincipal": principal}
            return {"azureAuth": auth, "kubernetesAuth": {"useAzureAuth": True}}
        auth = {"method": "managedIdentity", "managedIdentity": {}}
        return {"azureAuth": auth, "kubernetesAuth": {"method": "bootstrapToken"}}

    def arm(self, method: str, url: str = "", body: Any = None, **query: str) -> requests.Response:
        """One call as the operator."""
        return requests.request(
            method,
            url or self.url,
            params={"api-version": API, **query},
            json=body,
            headers={"Authorization": f"Bearer {self.bed.azure.token(self.operator, ARM)}"},
            verify=str(self.bed.ca_file),
            timeout=20,
        )

    def put(self, **parts: Mapping[str, Any]) -> dict[str, Any]:
        """PUT the whole resource, with changed parts; the answer's properties."""
        for part, values in parts.items():
            self.properties[part] = {**self.properties.get(part, {}), **values}
        answer = self.arm("PUT", body={"properties": self.properties}, configUrl="true")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["properties"]
        return found

    def get(self) -> dict[str, Any]:
        """The resource's properties."""
        answer = self.arm("GET")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["properties"]
        return found

    def delete(self) -> None:
        """DELETE the resource."""
        self.arm("DELETE").raise_for_status()

    def inventory(self, name: str, **variables: Any) -> Path:
        """The machine, with what is the site's own; a source comes with the variables."""
        document = self.bed.node_document()
        config = {**{part: document[part] for part in SITE}, **variables.pop("flexnode_config", {})}
        return write_inventory(
            self.bed,
            [self.machine],
            self.directory / f"{self.name}-{name}.yml",
            flexnode_config=config,
            flexnode_cluster_id=self.bed.azure.cluster_id,
            flexnode_config_url_ca_cert=self.bed.ca_pem,
            flexnode_kubeconfig=str(self.bed.cluster.kubeconfig),
            **arc.variables(self.bed),
            **variables,
        )

    def play(self, playbook: str, inventory: Path, *options: str) -> Play:
        """Run a playbook as the operator."""
        return play(playbook, inventory, *options, environment=self.bed.azure.environment(self.operator))

    def join_by_url(self, **node: Any) -> None:
        """The seeds' way: PUT, take the configUrl, start the machine with it."""
        self.properties = {"continuousMonitoring": True, **self.auth, "nodeConfig": node}
        url = self.put()["configUrl"]
        # Versions of the testbed's mirror: they come with the resource, and change with it.
        inventory = self.inventory("url", flexnode_config_source="url", flexnode_config_url=url)
        fleet.succeeded(self.play("bootstrap", inventory))

    def polls(self) -> list[float]:
        """When the machine asked for its resource."""
        return [one.time for one in self.reads()]

    def reads(self) -> list[Any]:
        ending = RESOURCE_READ.format(self.name).lower()
        return [
            one
            for one in self.bed.azure.requests()
            if one.method == "GET" and one.path.lower().endswith(ending) and one.client == self.machine.ip
        ]

    def polled(self, times: int = 2, seconds: float = 60) -> None:
        """Wait for some more polls."""
        before = len(self.polls())
        fleet.eventually(
            f"{times} polls of {self.name}", lambda: len(self.polls()) >= before + times, seconds
        )

    def applied(self) -> bool:
        """Whether the resource says that its present version is applied."""
        found = self.get()
        return bool(found["status"].get("appliedConfigVersion") == found["configVersion"])

    def follows(self, seconds: float = 60) -> None:
        """Wait until the resource's present version is applied, as the resource shows it."""
        fleet.eventually(f"{self.name} applies its configuration", self.applied, seconds)

    def label(self, key: str) -> str | None:
        """A label of the Node."""
        labels = fleet.node(self.bed, self.name)["metadata"]["labels"]
        return None if key not in labels else str(labels[key])

    def gone(self, seconds: float = 120) -> None:
        """Wait until the machine has left, here and in the cluster."""
        fleet.eventually(f"{self.name} leaves", partial(has_left, self.machine), seconds)
        assert self.name not in fleet.node_names(self.bed)

    def written(self) -> str:
        """Names, times and sizes of the machine's own state: what a poll without news leaves alone."""
        return self.machine.run(["find", STATE, "-printf", "%p %s %T@ %C@\\n"]).stdout


def has_left(machine: Machine) -> bool:
    """Whether nothing of ours runs or waits on a machine."""
    shown = machine.run(
        ["systemctl", "show", "--property=LoadState", "--value", TIMER, *UNITS, "kubelet.service"],
        check=False,
    )
    apply = machine.run(["systemctl", "is-active", "aks-flex-node-apply.service"], check=False).stdout.strip()
    return set(shown.stdout.split()) == {"not-found"} and apply not in ("activating", "active")


def within(look: Callable[[], Any], wanted: Any) -> Callable[[], bool]:
    """Whether a look shows what is wanted."""
    return lambda: look() == wanted


def merged(base: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """A copy with other parts."""
    return {**copy.deepcopy(dict(base)), **parts}
