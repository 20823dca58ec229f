# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a FlexNodes pool: how they join it, what they ask Azure, what AKS and others see of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import build_agent
from testbed import Testbed, arc
from testbed.azure.behaviour.record import Request
from testbed.azure.pools.client import PRINCIPAL as ADMINISTRATOR
from testbed.azure.sign_in.directory import Principal
from testbed.document import SITE
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import Play, play, write_inventory
from tests.e2e import fleet, following, updating
from tests.e2e.identities import ARM, Member, Method, registrar, resource_group

ROLE = "Azure Kubernetes Service Flex Node Agent Role"
DELETING = "kubernetes.azure.com/flex-node-deleting"
OLDEST, OLD, NEW = versions.KUBERNETES_OLD_MINOR, versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES
BAD = versions.KUBELET_EXITS
PROGRAM, SETTINGS, SECRET = "/srv/aks-flex-node.pyz", "/srv/settings.json", "/srv/secret"
DROP_IN = "/etc/systemd/system/aks-flex-node-poll.service.d"
# Azure is asked every 5 to 10 minutes, by a file that says when it was asked last: here at each poll.
ASKS_EACH_TIME = "[Service]\nExecStartPre=-/bin/rm -f /run/aks-flex-node/machine-asked\n"


def offered(bed: Testbed, wanted: Sequence[str]) -> dict[str, Any]:
    """The site's settings, with the digests of all versions that a goal of these tests may name."""
    document = bed.node_document()
    for version in wanted:
        document = updating.with_versions(bed, document, kubernetes=version)
    return {part: document[part] for part in SITE}


def aks_labels(pool: str) -> dict[str, str]:
    """The labels by which everybody finds the nodes of a pool."""
    prefix = "kubernetes.azure.com"
    return {
        f"{prefix}/managed": "false",
        f"{prefix}/agentpool": pool,
        f"{prefix}/mode": "user",
        f"{prefix}/nodepool-type": "FlexNodes",
    }


def scale(machine: Machine) -> None:
    """Poll every 2 to 3 s, and ask Azure each time."""
    machine.run(["mkdir", "-p", DROP_IN])
    machine.run(["tee", f"{DROP_IN}/scaled.conf"], input=ASKS_EACH_TIME)
    following.scale(machine)


def unscale(machine: Machine) -> None:
    """As installed again; also after the machine has left."""
    machine.run(["rm", "-rf", DROP_IN])
    following.unscale(machine)


@dataclass(frozen=True)
class Site:
    """A pool, its administrator's settings, and the one who runs the playbooks."""

    bed: Testbed
    pool: str
    operator: Principal
    directory: Path
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        bed: Testbed,
        pool: str,
        directory: Path,
        *roles: str,
        offers: Sequence[str] = (OLDEST, OLD, BAD, NEW),
    ) -> Site:
        """The operator has the role of the pool there, and more roles on the cluster.

        offers: the versions that machines may install.
        """
        operator = registrar(bed, f"{pool}-operator", *roles)
        bed.azure.grant(operator, ROLE, bed.azure.pools.pool_id(pool))
        return cls(bed, pool, operator, directory, offered(bed, offers))

    @property
    def pool_id(self) -> str:
        return self.bed.azure.pools.pool_id(self.pool)

    def create_pool(self, version: str, **properties: Any) -> None:
        """An empty pool of this version, instead of those that an earlier run left."""
        self.bed.azure.end_acts()
        self.bed.azure.forget_pools()
        self.bed.azure.pools.put(self.pool, orchestratorVersion=version, **properties)

    def inventory(self, name: str, members: Sequence[PoolMember], **variables: Any) -> Path:
        """Source machines: the machines with who they are, the cluster, the pool."""
        return write_inventory(
            self.bed,
            [member.machine for member in members],
            self.directory / f"{name}.yml",
            host_configs={member.name: member.identity for member in members},
            flexnode_config={**self.settings, **variables.pop("flexnode_config", {})},
            flexnode_config_source="machines",
            flexnode_cluster_id=self.bed.azure.cluster_id,
            flexnode_pool=self.pool,
            flexnode_kubeconfig=str(self.bed.cluster.kubeconfig),
            **arc.variables(self.bed),
            **variables,
        )

    def play(self, playbook: str, inventory: Path, *options: str) -> Play:
        """Run a playbook as the operator."""
        return play(playbook, inventory, *options, environment=self.bed.azure.environment(self.operator))

    def calls(self, method: str, path: str, *, by: str = "") -> list[Request]:
        """Requests about the pool that match this path below it; by: the IP of a machine, or a principal.

        Those of the administrator, whom tests use, are left out.
        """
        pattern = re.compile(re.escape(self.pool_id) + path, re.IGNORECASE)
        return [
            one
            for one in self.bed.azure.requests()
            if one.method == method
            and pattern.fullmatch(one.path)
            and one.principal != ADMINISTRATOR
            and by in ("", one.client, one.principal)
        ]

    def assignments(self) -> dict[str, str]:
        """Everyone's role assignments at the pool and wider: id -> the principal that has it."""
        path = f"{self.pool_id}/providers/Microsoft.Authorization/roleAssignments?api-version=2022-04-01"
        found = self.bed.azure.pools.request("GET", path).json()["value"]
        return {one["id"]: one["properties"]["principalId"] for one in found}


@dataclass(frozen=True)
class PoolMember:
    """A machine that joins a pool, and who it is in Azure."""

    site: Site
    machine: Machine
    method: Method

    @property
    def bed(self) -> Testbed:
        return self.site.bed

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def member(self) -> Member:
        return Member(self.bed, self.machine, self.method, operator=self.site.operator)

    @property
    def principal(self) -> Principal:
        """Its own identity; one of Arc exists as soon as the machine is registered."""
        if self.method == "arc":
            return Principal(name="", object_id=self.member.object_id, client_id="", secret="")
        return self.member.principal

    def exist(self, *, granted: bool = True) -> None:
        """Be somebody in Azure who has the role at the pool; Arc's role comes with the registration."""
        self.member.exist()
        if granted and self.method not in ("arc", "bootstrapToken"):
            self.bed.azure.grant(self.principal, ROLE, self.site.pool_id)

    @property
    def identity(self) -> dict[str, Any]:
        """Who the machine is: its own part of an inventory."""
        azure: dict[str, Any] = {
            "tenantId": self.bed.azure.tenant_id,
            "resourceManagerEndpoint": self.bed.azure.url,
            "activeDirectoryEndpoint": self.bed.azure.url,
        }
        if self.method == "servicePrincipal":
            azure["servicePrincipal"] = {
                "clientId": self.principal.client_id,
                "clientSecret": self.principal.secret,
                "clientTenant": self.bed.azure.tenant_id,
            }
        elif self.method == "managedIdentity":
            azure["managedIdentity"] = {}
        elif self.method == "bootstrapToken":
            return {}  # nobody in Azure: the controller does all
        else:
            azure["arc"] = {"enabled": True, "autoRoleAssignment": True}
        return {"continuousMonitoring": True, "azureAuth": {"method": self.method}, "azure": azure}

    # --- at the edge --------------------------------------------------------------------------------------

    def prepare_edge(self, directory: Path, **config: Any) -> None:
        """What an engineer brings: the program, the site's settings, a secret where there is one."""
        self.machine.copy_to(build_agent.build(directory / f"dist-{self.name}"), PROGRAM)
        self.settings(**config)
        if self.method == "servicePrincipal":
            script = f"umask 077; cat > {SECRET}"
            self.machine.run(["sh", "-c", script], input=self.principal.secret)

    def settings(self, **config: Any) -> None:
        """The settings of the site, and more, for --config."""
        endpoints = {
            key: self.identity["azure"][key] for key in ("resourceManagerEndpoint", "activeDirectoryEndpoint")
        }
        document = {**self.site.settings, "azure": endpoints, **config}
        document["cni"] = {**document["cni"], "podCIDR": self.machine.pod_cidr}
        self.machine.run(["tee", SETTINGS], input=json.dumps(document))

    def register_arc(self) -> None:
        """Registered by hand, as `join --identity arc` expects it, with the role at the pool."""
        azure = self.bed.azure
        options = {
            "access-token": azure.token(self.site.operator, ARM),
            "subscription-id": azure.subscription_id,
            "tenant-id": azure.tenant_id,
            "resource-group": resource_group(self.bed).rpartition("/")[2],
            "location": "westeurope",
        }
        arc.preinstall(self.machine)
        script = "umask 077; cat > /run/hand.json; azcmagent connect --config /run/hand.json"
        self.machine.run(["sh", "-c", f"{script}; rm /run/hand.json"], input=json.dumps(options))
        azure.grant(self.principal, ROLE, self.site.pool_id)

    def join(self, *, program: str = PROGRAM) -> tuple[int, str]:
        """`aks-flex-node join --cluster ID --pool NAME --identity ...`: exit status, output."""
        start = ["python3", program] if program == PROGRAM else [program]
        argv = [*start, "join", "--cluster", self.bed.azure.cluster_id, "--pool", self.site.pool]
        argv += ["--identity", self.method, "--config", SETTINGS]
        if self.method == "servicePrincipal":
            argv += ["--client-id", self.principal.client_id, "--tenant-id", self.bed.azure.tenant_id]
            argv += ["--client-secret-file", SECRET]
        done = self.machine.run(argv, check=False, timeout=400)
        return done.returncode, done.stdout + done.stderr

    # --- what is seen of it -------------------------------------------------------------------------------

    def node(self) -> dict[str, Any]:
        """Its Node."""
        return fleet.node(self.bed, self.name)

    def is_node(self) -> bool:
        """Whether its Node is there, Ready, and of the pool."""
        found = self.node()
        labels = found["metadata"]["labels"]
        return fleet.is_ready(found) and aks_labels(self.site.pool).items() <= labels.items()

    def uid(self) -> str:
        """Changes when the Node is registered anew; empty where there is none."""
        shown = self.bed.cluster.kubectl(
            "get", "node", self.name, "--ignore-not-found", "--output=jsonpath={.metadata.uid}"
        )
        return shown.strip()

    def version(self) -> str:
        """The kubelet's, as the API server has it."""
        return str(self.node()["status"]["nodeInfo"]["kubeletVersion"]).removeprefix("v")

    def taints(self) -> set[str]:
        """Its taints, without those that Kubernetes sets by itself."""
        found = self.node()["spec"].get("taints") or []
        texts = (f"{one['key']}={one.get('value', '')}:{one['effect']}" for one in found)
        return {text for text in texts if "kubernetes.io/" not in text}

    def goal(self) -> dict[str, Any]:
        """Its machine in Azure."""
        found = self.bed.azure.pools.machine(self.name, self.site.pool)
        assert found
        properties: dict[str, Any] = found["properties"]
        return properties

    def set_goal(self, **goal: Any) -> str:
        """Somebody changes its goal in Azure; the new eTag."""
        found = self.bed.azure.pools.set_goal(self.name, self.site.pool, **goal)
        return str(found["properties"]["eTag"])

    def status(self) -> dict[str, Any]:
        """What `aks-flex-node status --json` prints."""
        return following.status(self.machine)

    def monitoring(self) -> dict[str, Any]:
        """How it follows its machine."""
        found: dict[str, Any] = self.status()["monitoring"]
        return found

    def has_applied(self, etag: str) -> bool:
        """Whether it says that a goal is applied, and that all is well."""
        said = self.status()
        return bool(said["config"]["appliedVersion"] == etag and said["monitoring"]["status"] == "Ok")

    def follows(self, etag: str, seconds: float = 120) -> None:
        """Wait until a goal is applied."""
        fleet.eventually(f"{self.name} applies {etag}", lambda: self.has_applied(etag), seconds)

    def polled(self, times: int = 2, seconds: float = 90) -> None:
        """Wait until it has asked for its machine some more times."""
        wanted = len(self.reads()) + times
        fleet.eventually(f"{times} polls of {self.name}", lambda: len(self.reads()) >= wanted, seconds)

    def reads(self) -> list[Request]:
        """Its requests for its machine."""
        return self.site.calls("GET", f"/machines/{self.name}", by=self.machine.ip)

    def journal(self) -> str:
        """What its two services said."""
        return following.journal(self.machine)
