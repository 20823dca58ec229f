# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Networks in memory: what the gateway's life asks of Azure, without HTTP."""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import ChangedMeanwhile
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.resources import (
    GATEWAYS,
    SUBNET_NAME,
    VNETS,
    ResourceId,
)
from tests.contract.recorded import network

SUBSCRIPTION = "12345678-1234-1234-1234-123456789abc"
VNET = ResourceId(SUBSCRIPTION, "net", VNETS, "plant")
GATEWAY = ResourceId(SUBSCRIPTION, "net", GATEWAYS, "flexnode-vpn")
PROFILE = """client
remote vpn.example.com 443
proto tcp
<ca>
-----BEGIN CERTIFICATE-----
server root
-----END CERTIFICATE-----
</ca>
<tls-auth>
planted static key
</tls-auth>
<cert>
$CLIENTCERTIFICATE
</cert>
<key>
$PRIVATEKEY
</key>
"""


@dataclass
class FakeClock:
    """Time that passes only by sleeping."""

    time: float = 1_790_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Crash(Exception):
    """The run ends here."""


@dataclass
class FakeNetwork:
    """Azure's resources by id, and what was asked in order."""

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    profile: str = PROFILE
    guids: int = 0
    subnets_deleted: list[str] = field(default_factory=list)  # the VNets of GatewaySubnets
    updating: int = 0  # so many reads of a gateway still say Updating
    crash_at: str = ""  # a request before which the run ends
    meanwhile: list[Callable[[], Any]] = field(
        default_factory=list
    )  # what happens just before a gateway is put

    def add_vnet(self, *subnets: tuple[str, str], space: str = "10.224.0.0/16", **more: Any) -> None:
        known = [{"name": name, "properties": {"addressPrefix": prefix}} for name, prefix in subnets]
        properties = {"addressSpace": {"addressPrefixes": [space]}, "subnets": known, **more}
        self.resources[str(VNET)] = {"id": str(VNET), "location": "westeurope", "properties": properties}

    @property
    def gateway(self) -> dict[str, Any]:
        return self.resources[str(GATEWAY)]

    @property
    def clients(self) -> dict[str, Any]:
        found: dict[str, Any] = self.gateway["properties"]["vpnClientConfiguration"]
        return found

    def changes(self) -> list[str]:
        return [line for line in self.asked if not line.startswith("get")]

    def get(self, resource: ResourceId) -> dict[str, Any] | None:
        self._note("get", resource.name)
        known = {name.lower(): one for name, one in self.resources.items()}
        found = copy.deepcopy(known.get(str(resource).lower()))
        if found and resource.kind == GATEWAYS and self.updating:
            self.updating -= 1
            found["properties"]["provisioningState"] = "Updating"
        if found and resource.kind == VNETS and str(GATEWAY) in self.resources:
            for subnet in found["properties"]["subnets"]:
                if subnet["name"].lower() == SUBNET_NAME.lower():
                    used = [{"id": network.IN_CAPITALS.replace("{subscription}", SUBSCRIPTION)}]
                    subnet["properties"]["ipConfigurations"] = used
        return found

    def put(
        self, resource: ResourceId, body: Mapping[str, Any], etag: str = "", *, new: bool = False
    ) -> dict[str, Any]:
        self._note("put", resource.name)
        if resource.kind == GATEWAYS and self.meanwhile:
            self.meanwhile.pop(0)()
        there = self.resources.get(str(resource))
        if new and there:
            raise ChangedMeanwhile("the resource was changed meanwhile", why="PreconditionFailed")
        assert not etag or (there or {}).get("etag") == etag, "a write from an older version"
        self.guids += 1
        guid = (there or {}).get("properties", {}).get("resourceGuid") or f"guid-{self.guids}"
        document = {**copy.deepcopy(dict(body)), "id": str(resource), "etag": f'W/"{self.guids}"'}
        document["properties"] |= {"provisioningState": "Succeeded", "resourceGuid": guid}
        self.resources[str(resource)] = document
        return document

    def delete(self, resource: ResourceId) -> None:
        self._note("delete", resource.name)
        self.resources.pop(str(resource), None)

    def put_subnet(self, vnet: ResourceId, prefix: str) -> dict[str, Any]:
        self._note("put", SUBNET_NAME)
        subnet = {"name": SUBNET_NAME, "properties": {"addressPrefix": prefix}}
        self.resources[str(vnet)]["properties"]["subnets"].append(subnet)
        return subnet

    def delete_subnet(self, vnet: ResourceId, name: str) -> None:
        self._note("delete", name)
        known = self.resources[str(vnet)]["properties"]
        self.subnets_deleted.append(str(vnet))
        known["subnets"] = [one for one in known["subnets"] if one["name"] != name]

    def profile_url(self, gateway: ResourceId) -> str:
        self._note("profile", gateway.name)
        return "https://blob.example.com/vpn.zip?sig=planted"

    def fetch(self, url: str) -> bytes:
        assert "sig=" in url
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("OpenVPN/vpnconfig.ovpn", self.profile.replace("\n", "\r\n"))
        return packed.getvalue()

    def _note(self, verb: str, name: str) -> None:
        line = f"{verb} {name}"
        if self.crash_at == line:
            self.crash_at = ""
            raise Crash(line)
        self.asked.append(line)
