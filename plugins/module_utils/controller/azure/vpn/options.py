# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the VPN modules, and what they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import env_fallback

from ....node.config.types.formats import dns_name
from ....node.config.types.setting import Refused
from ....node.errors import ConfigInvalid, Problem
from ....node.machine.clock import Clock
from ...members import IN_OPTIONS
from ..module import cluster_of
from .asked import Request
from .certificates import Pair, given_root
from .plan import ZONES, Wanted
from .ranges import ranges
from .resources import GATEWAYS, VNETS, Place, ResourceId, found_place, id_option

if TYPE_CHECKING:
    from ..login import Login
    from .api import Network

# The same as the doc fragment aks.flexnode.vpn.
PLACE: Mapping[str, Mapping[str, Any]] = {
    "cluster_id": {"type": "str"},
    "vnet_id": {"type": "str"},
    "gateway_id": {"type": "str"},
    "name": {"type": "str"},
    "resource_group": {"type": "str"},
    "directory": {"type": "path", "required": True},
    "poll_interval": {"type": "int", "default": 15},
    "operation_timeout": {"type": "int", "default": 5400},
}
GATEWAY: Mapping[str, Mapping[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "sku": {"type": "str", "default": "VpnGw2AZ"},
    "address_pool": {"type": "str", "default": "192.168.100.0/24"},
    "gateway_subnet_cidr": {"type": "str", "default": ""},
    "zones": {"type": "list", "elements": "str"},
    "other_cidrs": {"type": "list", "elements": "str", "default": []},
    "machines": {"type": "list", "elements": "str", "default": []},
    "renew": {"type": "list", "elements": "str", "default": []},
    "confirmed": {"type": "list", "elements": "str", "default": []},
    "gone": {"type": "list", "elements": "str", "default": []},
    "left": {"type": "list", "elements": "str", "default": []},
    "certificate_days": {"type": "int", "default": 365},
    "passphrase": {"type": "str", "no_log": True, "fallback": (env_fallback, ["FLEXNODE_VPN_PASSPHRASE"])},
    "ca_certificate": {"type": "str"},
    "ca_key": {"type": "str", "no_log": True},
    "new_root": {"type": "bool", "default": False},
    "refresh_profile": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "progress_file": {"type": "path"},
}


@dataclass(frozen=True, slots=True)
class Ids:
    """The resources that the options name, checked before any call."""

    vnet: ResourceId | None
    gateway: ResourceId | None
    cluster: Any = None  # the id of an AKS cluster

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Ids:
        """Read the ids; at least one of them has to be there."""
        cluster = cluster_of(params["cluster_id"]) if params["cluster_id"] else None
        vnet = id_option("vnet_id", params["vnet_id"], VNETS) if params["vnet_id"] else None
        gateway = id_option("gateway_id", params["gateway_id"], GATEWAYS) if params["gateway_id"] else None
        if cluster is None and vnet is None:
            problem = Problem("cluster_id", "not set", "the id of an AKS cluster, or vnet_id")
            raise ConfigInvalid([problem], fix=IN_OPTIONS)
        return cls(vnet, gateway, cluster)


def request_of(params: Mapping[str, Any], clock: Clock) -> Request:
    """The options of the module, checked before any call; all problems at once."""
    problems: list[Problem] = []
    pools = list(ranges("pool", [params["address_pool"]]))
    if len(pools) != 1:
        problems.append(Problem("address_pool", repr(params["address_pool"]), "one CIDR"))
    if params["gateway_subnet_cidr"] and not list(ranges("subnet", [params["gateway_subnet_cidr"]])):
        problems.append(Problem("gateway_subnet_cidr", repr(params["gateway_subnet_cidr"]), "a CIDR"))
    problems += [
        Problem(f"other_cidrs[{index}]", repr(text), "a CIDR")
        for index, text in enumerate(params["other_cidrs"])
        if not list(ranges("other", [text]))
    ]
    for option in ("machines", "renew", "confirmed", "gone"):
        for index, name in enumerate(params[option]):
            try:
                dns_name.read(name)
            except Refused as refused:
                problems += refused.under(f"{option}[{index}]")
    if params["certificate_days"] < 1:
        problems.append(Problem("certificate_days", str(params["certificate_days"]), "a number of days"))
    if bool(params["ca_certificate"]) != bool(params["ca_key"]):
        problems.append(Problem("ca_certificate", "one of two", "both ca_certificate and ca_key, or none"))
    if problems:
        raise ConfigInvalid(problems, fix=IN_OPTIONS)
    zones = params["zones"]
    if zones is None:
        zones = ZONES if params["sku"].upper().endswith("AZ") else ()
    return Request(
        wanted=Wanted(params["sku"], str(pools[0].network), tuple(zones)),
        subnet_cidr=params["gateway_subnet_cidr"],
        machines=list(dict.fromkeys(params["machines"])),
        renew=params["renew"],
        confirmed=params["confirmed"],
        gone=params["gone"],
        left=params["left"],
        days=params["certificate_days"],
        new_root=params["new_root"],
        refresh_profile=params["refresh_profile"],
        given_root=_given(params, clock),
    )


def _given(params: Mapping[str, Any], clock: Clock) -> Pair | None:
    if not params["ca_key"]:
        return None
    return given_root(params["ca_certificate"], params["ca_key"], params["passphrase"] or "", clock.now())


def place_of(params: Mapping[str, Any], ids: Ids, login: Login, network: Network) -> Place:
    """Where the gateway is, or will be; the cluster is read once."""
    from ..aks.cluster import Clusters

    place = found_place(
        network.get,
        vnet=ids.vnet,
        gateway=ids.gateway,
        cluster=Clusters(login).get(ids.cluster) if ids.cluster is not None else None,
        name=params["name"] or "",
        group=params["resource_group"] or "",
        others=list(ranges("another network", params.get("other_cidrs") or ())),
    )
    sites = ranges("a site of a local network gateway", network.on_premises(place.gateway))
    return replace(place, ranges=[*place.ranges, *sites])
