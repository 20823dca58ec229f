# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ids of network resources, what their JSON says, and where the gateway of a cluster belongs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ....node.errors import ConfigInvalid, Problem
from ...members import IN_OPTIONS
from ..errors import NotInAzure
from .errors import VnetUnusable
from .ranges import Range, ranges

Json = Mapping[str, Any]
VNETS, GATEWAYS, ADDRESSES = "virtualNetworks", "virtualNetworkGateways", "publicIPAddresses"
SITES = "localNetworkGateways"
SUBNET_NAME = "GatewaySubnet"  # the only name that Azure accepts, in whatever letters
_ID = (
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.Network/"
    rf"({VNETS}|{GATEWAYS}|{ADDRESSES})/([^/]+)(/subnets/[^/]+|/ipConfigurations/[^/]+)?"
)
NAME = "flexnode-vpn"  # of a gateway that is created
_KINDS = {kind.lower(): kind for kind in (VNETS, GATEWAYS, ADDRESSES)}


@dataclass(frozen=True, slots=True)
class ResourceId:
    """The id of a resource of Microsoft.Network."""

    subscription: str
    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
            f"/providers/Microsoft.Network/{self.kind}/{self.name}"
        )

    def beside(self, kind: str, name: str, group: str = "") -> ResourceId:
        """Another resource of the same subscription, by default of the same resource group."""
        return ResourceId(self.subscription, group or self.group, kind, name)

    def same(self, other: object) -> bool:
        """Whether both name one resource: ids have no letter case."""
        return str(self).lower() == str(other).lower()


def resource_id(text: str, kind: str) -> ResourceId | None:
    """The id in a text, also in that of something below it; None: it is another one."""
    found = re.fullmatch(_ID, text.strip(), re.IGNORECASE)
    if not found or found[3].lower() != kind.lower():
        return None
    return ResourceId(found[1].lower(), found[2], _KINDS[found[3].lower()], found[4])


def id_option(name: str, text: str, kind: str) -> ResourceId:
    """An option that must be an id of this kind."""
    found = resource_id(text, kind)
    if found is None:
        accepted = f"a resource id .../providers/Microsoft.Network/{kind}/NAME"
        raise ConfigInvalid([Problem(name, repr(text), accepted)], fix=IN_OPTIONS)
    return found


def properties(resource: Json | None) -> Json:
    """What a resource says of itself."""
    return (resource or {}).get("properties") or {}


def state_of(resource: Json | None) -> str:
    """Its provisioning state, in small letters."""
    return str(properties(resource).get("provisioningState") or "").lower()


def subnets_of(vnet: Json) -> list[Json]:
    """The subnets of a VNet."""
    return list(properties(vnet).get("subnets") or ())


def gateway_subnet(vnet: Json) -> Json | None:
    """The subnet of gateways, if the VNet has one."""
    return next((one for one in subnets_of(vnet) if name_of(one).lower() == SUBNET_NAME.lower()), None)


def name_of(subnet: Json | None) -> str:
    """The name of a subnet as Azure has it; one that is to be made gets the usual one."""
    return str((subnet or {}).get("name") or SUBNET_NAME)


def prefixes_of(subnet: Json) -> list[str]:
    """The ranges of a subnet: one, or a list."""
    known = properties(subnet)
    return [*(known.get("addressPrefixes") or ()), *filter(None, [known.get("addressPrefix")])]


def gateways_in(subnet: Json | None) -> list[ResourceId]:
    """The gateways in a GatewaySubnet; a VNet has at most one for VPN and one for ExpressRoute."""
    found = (
        resource_id(str(one.get("id") or ""), GATEWAYS)
        for one in properties(subnet).get("ipConfigurations") or ()
    )
    return list({str(one).lower(): one for one in found if one}.values())


def vnet_of_gateway(gateway: Json | None) -> ResourceId | None:
    """The VNet in which a gateway is."""
    known = (properties(one) for one in properties(gateway).get("ipConfigurations") or ())
    texts = (str((one.get("subnet") or {}).get("id") or "") for one in known)
    return next((found for text in texts if (found := resource_id(text, VNETS))), None)


def vnet_of_cluster(cluster: Json) -> ResourceId:
    """The VNet in which a cluster's node pools are."""
    profiles = properties(cluster).get("agentPoolProfiles") or ()
    texts = [str(one.get("vnetSubnetID") or "") for one in profiles]
    known = [one for one in (resource_id(text, VNETS) for text in texts if text) if one]
    found = {str(one).lower(): one for one in known}
    where = str(cluster.get("id") or "")
    if not found:
        group = properties(cluster).get("nodeResourceGroup") or "NODE_RESOURCE_GROUP"
        raise VnetUnusable(
            "the cluster's node pools name no subnet",
            where=where,
            why=f"AKS made their VNet itself, in {group}, where changes are not supported by AKS",
            fix=f"set vnet_id (flexnode_vpn_vnet_id): az network vnet list -g {group} --query [].id -o tsv",
        )
    if len(found) > 1:
        raise VnetUnusable(
            "the cluster's node pools are in several VNets",
            where=where,
            why=", ".join(sorted(found)),
            fix="set vnet_id (flexnode_vpn_vnet_id) to the one that the gateway belongs to",
        )
    return next(iter(found.values()))


@dataclass(frozen=True, slots=True)
class Place:
    """A VNet, and the gateway in it or the one that is to be made there."""

    SPACE: ClassVar[str] = "the VNet"
    SUBNETS: ClassVar[str] = "a subnet of the VNet"

    vnet: ResourceId
    gateway: ResourceId
    address: ResourceId
    location: str
    subnet: Json | None
    space: Sequence[Range]
    subnets: Sequence[Range]
    ranges: Sequence[Range]  # what the addresses of clients must not overlap
    named: bool = False  # by its id: it has to exist, and is never made


def own_id(gateway: Json | None) -> ResourceId | None:
    """The id that a gateway has by itself."""
    return resource_id(str((gateway or {}).get("id") or ""), GATEWAYS)


def named_by(place: Place, gateway: Json | None) -> Place:
    """The place with the gateway's own id: that in its subnet has group and name in capital letters."""
    found = own_id(gateway)
    if found is None or not found.same(place.gateway):
        return place
    return replace(place, gateway=found, address=found.beside(ADDRESSES, f"{found.name}-ip"))


def missing_gateway(place: Place) -> NotInAzure:
    """The error for a gateway that is named by its id and does not exist."""
    gateway = place.gateway
    return NotInAzure(
        "the VPN gateway that gateway_id (flexnode_vpn_gateway_id) names was not found in Azure",
        where=str(gateway),
        why="one that is named by its id is not created",
        fix=f"correct flexnode_vpn_gateway_id: az network vnet-gateway list -g {gateway.group} "
        f"--subscription {gateway.subscription} --query [].id -o tsv; or remove it: then the VPN gateway of "
        "the VNet is used, and created if there is none",
    )


def found_place(
    get: Callable[[ResourceId], Json | None],
    *,
    vnet: ResourceId | None,
    gateway: ResourceId | None,
    cluster: Json | None,
    name: str = "",
    group: str = "",
    others: Iterable[Range] = (),
) -> Place:
    """The VNet (given, else the cluster's) and its gateway (given, else the one in its GatewaySubnet)."""
    if vnet is None:
        if cluster is None:
            raise VnetUnusable("it is not known where the gateway belongs", fix="set cluster_id or vnet_id")
        vnet = vnet_of_cluster(cluster)
    resource = get(vnet)
    if resource is None:
        raise NotInAzure(
            "the VNet was not found in Azure",
            where=str(vnet),
            fix="correct vnet_id (flexnode_vpn_vnet_id): az network vnet list --query [].id -o tsv",
        )
    subnet = gateway_subnet(resource)
    found = gateway or _gateway_in(get, subnet) or vnet.beside(GATEWAYS, name or NAME, group)
    known = properties(resource)
    space = list(ranges(Place.SPACE, (known.get("addressSpace") or {}).get("addressPrefixes") or ()))
    subnets = [one for inner in subnets_of(resource) for one in ranges(Place.SUBNETS, prefixes_of(inner))]
    peered = [
        one
        for peering in known.get("virtualNetworkPeerings") or ()
        for one in ranges(
            "a peered VNet",
            (properties(peering).get("remoteAddressSpace") or {}).get("addressPrefixes") or (),
        )
    ]
    return Place(
        vnet=vnet,
        gateway=found,
        address=found.beside(ADDRESSES, f"{found.name}-ip"),
        location=str(resource.get("location") or ""),
        subnet=subnet,
        space=space,
        subnets=subnets,
        ranges=[*space, *peered, *cluster_ranges(cluster), *others],
        named=gateway is not None,
    )


def cluster_ranges(cluster: Json | None) -> list[Range]:
    """The ranges of a cluster's pods and Services."""
    network = properties(cluster).get("networkProfile") or {}
    pods = [network.get("podCidr"), *(network.get("podCidrs") or ())]
    services = [network.get("serviceCidr"), *(network.get("serviceCidrs") or ())]
    return [
        *dict.fromkeys(ranges("the cluster's pods", pods)),
        *dict.fromkeys(ranges("the cluster's Services", services)),
    ]


def _gateway_in(get: Callable[[ResourceId], Json | None], subnet: Json | None) -> ResourceId | None:
    """The VPN gateway in a GatewaySubnet; one for ExpressRoute may be beside it."""
    found = gateways_in(subnet)
    if len(found) < 2:
        return next(iter(found), None)
    kinds = ((one, str(properties(get(one)).get("gatewayType") or "")) for one in found)
    return next((one for one, kind in kinds if kind.lower() == "vpn"), None)
