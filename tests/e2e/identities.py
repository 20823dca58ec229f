# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that are somebody in Azure: with a service principal, as an Azure VM, by Azure Arc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import requests
import yaml

from testbed import Testbed, arc
from testbed.azure.sign_in.directory import Principal
from testbed.machine import Machine
from testbed.playbooks import ROOT, Play, play, write_inventory
from testbed.services import imds

Method = Literal["bootstrapToken", "servicePrincipal", "managedIdentity", "arc"]
Profile = Literal["certificate", "token"]

ARM = "https://management.azure.com"
RIGHTS: Mapping[Profile, str] = {
    "certificate": "identity_rbac.yaml",
    "token": "identity_token_rbac.yaml",
}
SUBJECT = "99999999-8888-7777-6666-555555555555"  # whom the examples name
# Who registers machines, takes that back, and gives machines their roles.
REGISTRAR_ROLES = ("Azure Connected Machine Resource Administrator",)
GRANTOR_ROLES = ("Role Based Access Control Administrator",)
# What differs between machines: who they are.
OWN_PARTS = ("azure", "kubernetesAuth", "azureAuth")


def resource_group(bed: Testbed) -> str:
    """The one of the cluster, where its Arc machines are too."""
    return bed.azure.cluster_id.partition("/providers/")[0]


def registrar(bed: Testbed, name: str, *cluster_roles: str) -> Principal:
    """Whoever runs the playbooks: may register machines, and what else is named, on the cluster."""
    principal = bed.azure.app_registration(name)
    for role in REGISTRAR_ROLES:
        bed.azure.grant(principal, role, resource_group(bed))
    for role in cluster_roles:
        bed.azure.grant(principal, role)
    return principal


@dataclass(frozen=True)
class Member:
    """A machine, how it joins, and who runs the playbooks for it."""

    bed: Testbed
    machine: Machine
    method: Method
    profile: Profile = "certificate"
    operator: Principal | None = None
    azure: Method | None = None  # the node's own identity in Azure, where it is not the kubelet's

    def exist(self) -> None:
        """Be somebody in Azure; an Arc machine becomes somebody by the playbook."""
        arc.know_azure(self.machine, self.bed.azure, self.bed.ca_pem)
        if self.method == "managedIdentity":
            imds.install(self.machine, self.bed.azure, system=self.principal)

    @property
    def principal(self) -> Principal:
        """The app registration of a service principal; the identity of a VM is one too."""
        return self.bed.azure.app_registration(f"{self.method}-{self.machine.name}")

    @property
    def object_id(self) -> str:
        """Whom Azure sees, and the API server where the kubelet joins with it."""
        if self.by_arc:
            return str(self.arc_resource()["identity"]["principalId"])
        return self.principal.object_id

    @property
    def by_arc(self) -> bool:
        """Whether Azure Arc gives the identity, so that there is none before the machine is registered."""
        return "arc" in (self.method, self.azure)

    def arc_resource(self) -> dict[str, Any]:
        """What Azure knows of the machine; empty where it knows nothing."""
        assert self.operator
        azure = self.bed.azure
        path = f"{resource_group(self.bed)}/providers/Microsoft.HybridCompute/machines/{self.machine.name}"
        answer = requests.get(
            f"{azure.url}{path}?api-version=2024-07-10",
            headers={"Authorization": f"Bearer {azure.token(self.operator, ARM)}"},
            verify=str(self.bed.ca_file),
            timeout=10,
        )
        if answer.status_code == 404:
            return {}
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def document(self) -> dict[str, Any]:
        """The configuration: its identity, and where this Azure is."""
        document = self.bed.node_document()
        azure = document["azure"]
        azure |= {
            "resourceManagerEndpoint": self.bed.azure.url,
            "activeDirectoryEndpoint": self.bed.azure.url,
        }
        if self.azure == "arc":
            azure["arc"] = {"enabled": True}
            document["azureAuth"] = {"method": "arc"}
        if self.method == "bootstrapToken":
            azure["bootstrapToken"] = {"token": self.bed.cluster.bootstrap_token()}
            return document
        if self.method == "servicePrincipal":
            azure["servicePrincipal"] = {
                "clientId": self.principal.client_id,
                "clientSecret": self.principal.secret,
                "clientTenant": azure["tenantId"],
            }
        elif self.method == "managedIdentity":
            azure["managedIdentity"] = {}
        else:
            azure["arc"] = {"enabled": True}
        document["kubernetesAuth"] = {"method": self.method, "profile": self.profile}
        return document

    def inventory(self, path: Path, document: Mapping[str, Any] | None = None, **variables: Any) -> Path:
        """This machine, and its document or another one."""
        return write_inventory(
            self.bed,
            [self.machine],
            path,
            flexnode_config=document or self.document(),
            **arc.variables(self.bed),
            **variables,
        )

    def play(self, playbook: str, inventory: Path, *options: str) -> Play:
        """Run a playbook, as the operator if there is one."""
        environment = self.bed.azure.environment(self.operator) if self.operator else {}
        return play(playbook, inventory, *options, environment=environment)

    def may(self, profile: Profile | None = None) -> None:
        """Give the identity what the documentation says that it needs in the cluster."""
        if self.method == "bootstrapToken":  # its rights are those of all such tokens
            return
        text = (ROOT / "docs" / "examples" / RIGHTS[profile or self.profile]).read_text(encoding="utf-8")
        found = yaml.safe_load(text.replace(SUBJECT, self.object_id))
        for one in found.get("items", [found]):
            if one["subjects"][0]["kind"] == "User":  # else it is of all nodes
                one["metadata"]["name"] += f"-{self.machine.name}"
            self.bed.cluster.kubectl("apply", "--filename=-", input=yaml.safe_dump(one))

    def may_nothing(self) -> None:
        """Take that away again."""
        names = [
            f"flexnode-identity-{word}-{self.machine.name}" for word in ("bootstrap", "approve", "kubelet")
        ]
        self.bed.cluster.kubectl("delete", "clusterrolebinding", *names, "--ignore-not-found")


def inventory_of(members: Sequence[Member], path: Path, **variables: Any) -> Path:
    """Several machines in one inventory, each as somebody else."""
    bed = members[0].bed
    documents = {member.machine.name: member.document() for member in members}
    return write_inventory(
        bed,
        [member.machine for member in members],
        path,
        host_configs={
            name: {part: document[part] for part in OWN_PARTS if part in document}
            for name, document in documents.items()
        },
        flexnode_config=bed.node_document(),
        **arc.variables(bed),
        **variables,
    )
