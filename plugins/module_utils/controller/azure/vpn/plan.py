# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway has to be, and how the one that exists differs. Pure."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....node.errors import counted
from .errors import GatewayUnusable
from .resources import ResourceId, properties, state_of

Json = dict[str, Any]
# On what this collection made. A subnet has no tags: the gateway and its address say whose it is.
MADE, MADE_BY = "aks-flexnode", "vpn"
SUBNET_MADE = "aks-flexnode-gateway-subnet"
PREFIX = "aks-flexnode-"  # of the names of our certificates in the gateway
ZONES = ("1", "2", "3")
MOST_ROOTS = 20  # Azure's limit
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
PROTOCOL, AUTHENTICATION = "OpenVPN", "Certificate"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings of the gateway."""

    sku: str
    pool: str
    zones: tuple[str, ...] = ()

    @property
    def generation(self) -> str:
        """VpnGw1 exists in the first generation only; the others are made in the second."""
        return "Generation1" if self.sku.startswith("VpnGw1") else "Generation2"


@dataclass(frozen=True, slots=True)
class Trust:
    """Which certificates the gateway has to accept and refuse, by thumbprint."""

    roots: Mapping[str, str]  # base64 of DER
    revoked: Mapping[str, str] = field(default_factory=dict)  # the node of each
    unused_roots: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()  # refused anyway: they need not be in the list
    only_these: bool = False  # roots with our names that are not known are removed


def thumbprint(public_data: str) -> str:
    """How Azure names a certificate: SHA-1 of DER in capital letters. Nothing is secured by it.

    Azure also takes base64 of a whole PEM file, and returns that.
    """
    try:
        der = base64.b64decode("".join(public_data.split()))
        if pem := PEM.search(der):
            der = base64.b64decode(b"".join(pem[1].split()))
    except ValueError:
        return ""
    return hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()


def is_ours(resource: Mapping[str, Any] | None) -> bool:
    """Whether this collection made a resource."""
    return ((resource or {}).get("tags") or {}).get(MADE) == MADE_BY


def made_subnet(resource: Mapping[str, Any] | None) -> bool:
    """Whether this collection made the GatewaySubnet of a gateway or an address of ours."""
    return is_ours(resource) and ((resource or {}).get("tags") or {}).get(SUBNET_MADE) == "created"


def tags_of(*, subnet_made: bool) -> dict[str, str]:
    """The tags of what this collection makes."""
    return {MADE: MADE_BY, **({SUBNET_MADE: "created"} if subnet_made else {})}


def address_body(location: str, zones: tuple[str, ...], tags: Mapping[str, str]) -> Json:
    """A public address, of the only kind that such gateways take."""
    body: Json = {
        "location": location,
        "tags": dict(tags),
        "sku": {"name": "Standard", "tier": "Regional"},
        "properties": {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
    }
    return {**body, "zones": list(zones)} if zones else body


def gateway_body(
    location: str, wanted: Wanted, subnet: str, address: ResourceId, trust: Trust, tags: Mapping[str, str]
) -> Json:
    """A new gateway."""
    place = {
        "privateIPAllocationMethod": "Dynamic",
        "subnet": {"id": subnet},
        "publicIPAddress": {"id": str(address)},
    }
    body: Json = {
        "location": location,
        "tags": dict(tags),
        "properties": {
            "gatewayType": "Vpn",
            "vpnType": "RouteBased",
            "vpnGatewayGeneration": wanted.generation,
            "enableBgp": False,
            "activeActive": False,
            "sku": {"name": wanted.sku, "tier": wanted.sku},
            "ipConfigurations": [{"name": "default", "properties": place}],
        },
    }
    return changed_body(body, wanted, trust, ours=True)


def changed_body(gateway: Mapping[str, Any], wanted: Wanted, trust: Trust, *, ours: bool) -> Json:
    """The gateway as it has to be. Of another owner's only certificates of this collection change."""
    body: Json = copy.deepcopy(dict(gateway))
    known = body.setdefault("properties", {})
    clients = known["vpnClientConfiguration"] = dict(known.get("vpnClientConfiguration") or {})
    if ours:
        known["sku"] = {"name": wanted.sku, "tier": wanted.sku}
        clients["vpnClientAddressPool"] = {"addressPrefixes": [wanted.pool]}
        clients["vpnClientProtocols"] = [PROTOCOL]
        clients["vpnAuthenticationTypes"] = [AUTHENTICATION]
    surplus = surplus_roots(gateway, trust)
    there = roots_of(gateway)
    kept = [one for one in clients.get("vpnClientRootCertificates") or () if one.get("name") not in surplus]
    clients["vpnClientRootCertificates"] = kept + [
        {"name": f"{PREFIX}{print_[:8].lower()}", "properties": {"publicCertData": data}}
        for print_, data in trust.roots.items()
        if print_ not in there
    ]
    if len(clients["vpnClientRootCertificates"]) > MOST_ROOTS:
        raise GatewayUnusable(
            f"the gateway would have more than {MOST_ROOTS} root certificates",
            where=str(gateway.get("id") or ""),
            fix="remove those that are no longer used: az network vnet-gateway root-cert delete ...",
        )
    refused = revoked_of(gateway)
    clients["vpnClientRevokedCertificates"] = [
        one
        for one in clients.get("vpnClientRevokedCertificates") or ()
        if _print(one) not in trust.expired or not str(one.get("name") or "").startswith(PREFIX)
    ] + [
        {"name": f"{PREFIX}{node[:40]}-{print_[:8].lower()}", "properties": {"thumbprint": print_}}
        for print_, node in trust.revoked.items()
        if print_ not in refused
    ]
    return body


def differences(gateway: Mapping[str, Any], wanted: Wanted, trust: Trust, *, ours: bool) -> list[str]:
    """Why a gateway has to be changed, in words; empty: it is as it has to be."""
    return list(_differences(gateway, wanted, trust, ours))


def _differences(gateway: Mapping[str, Any], wanted: Wanted, trust: Trust, ours: bool) -> Iterator[str]:
    if ours:
        sku = str((properties(gateway).get("sku") or {}).get("name") or "")
        if sku.lower() != wanted.sku.lower():
            yield f"SKU {sku} -> {wanted.sku}"
        pool = pool_of(gateway)
        if pool != [wanted.pool]:
            yield f"client addresses {', '.join(pool) or 'none'} -> {wanted.pool}"
        yield from unusable(gateway)
    there = roots_of(gateway)
    if missing := [one for one in trust.roots if one not in there]:
        yield f"root certificate {missing[0][:8].lower()} is missing"
    if surplus := surplus_roots(gateway, trust):
        yield f"{counted(len(surplus), 'root certificate')} no longer used"
    refused = revoked_of(gateway)
    if missing := [one for one in trust.revoked if one not in refused]:
        nodes = ", ".join(sorted({trust.revoked[one] for one in missing}))
        yield f"{counted(len(missing), 'client certificate')} to revoke: {nodes}"
    if state_of(gateway) in ("failed", "canceled"):
        yield "its last change failed"


def unusable(gateway: Mapping[str, Any]) -> Iterator[str]:
    """What of its configuration for clients does not fit."""
    clients = properties(gateway).get("vpnClientConfiguration") or {}
    protocols = clients.get("vpnClientProtocols") or []
    kinds = clients.get("vpnAuthenticationTypes") or [AUTHENTICATION]  # old gateways name none
    if PROTOCOL.lower() not in (str(one).lower() for one in protocols):
        yield f"clients use {', '.join(protocols) or 'no protocol'}, not {PROTOCOL}"
    if AUTHENTICATION.lower() not in (str(one).lower() for one in kinds):
        yield f"clients authenticate with {', '.join(kinds)}, not with certificates"


def require_usable(gateway: Mapping[str, Any], *, ours: bool) -> None:
    """Refuse a gateway of another kind, and one of another owner that would have to be changed."""
    known, where = properties(gateway), str(gateway.get("id") or "")
    kind, vpn = str(known.get("gatewayType") or ""), str(known.get("vpnType") or "")
    sku = str((known.get("sku") or {}).get("name") or "")
    if kind.lower() != "vpn" or vpn.lower() != "routebased" or sku.lower() == "basic":
        raise GatewayUnusable(
            f"the gateway is of type {kind}, {vpn}, SKU {sku}",
            where=where,
            why="OpenVPN needs a route-based VPN gateway, and not SKU Basic",
            fix="name another gateway or VNet (flexnode_vpn_gateway_id, flexnode_vpn_vnet_id)",
        )
    if ours:
        return
    reasons = list(unusable(gateway))
    reasons += [] if pool_of(gateway) else ["it has no addresses for clients"]
    if reasons:
        raise GatewayUnusable(
            "the VNet has a gateway of another owner that the machines can't use as it is",
            where=where,
            why="; ".join(reasons),
            # Its tag is never offered: it would give a run the right to rewrite and to delete this gateway.
            fix="set its point-to-site configuration to OpenVPN, certificates and an address pool",
        )


def pool_of(gateway: Mapping[str, Any] | None) -> list[str]:
    """The addresses of clients."""
    clients = properties(gateway).get("vpnClientConfiguration") or {}
    return list((clients.get("vpnClientAddressPool") or {}).get("addressPrefixes") or ())


def roots_of(gateway: Mapping[str, Any] | None) -> dict[str, str]:
    """The root certificates by thumbprint, with their names."""
    clients = properties(gateway).get("vpnClientConfiguration") or {}
    return {
        thumbprint(str(properties(one).get("publicCertData") or "")): str(one.get("name") or "")
        for one in clients.get("vpnClientRootCertificates") or ()
    }


def surplus_roots(gateway: Mapping[str, Any], trust: Trust) -> set[str]:
    """The names of root certificates of this collection that no machine needs."""
    return {
        name
        for print_, name in roots_of(gateway).items()
        if name.startswith(PREFIX)
        and print_ not in trust.roots
        and (print_ in trust.unused_roots or trust.only_these)
    }


def revoked_of(gateway: Mapping[str, Any] | None) -> set[str]:
    """The thumbprints of client certificates that are refused."""
    clients = properties(gateway).get("vpnClientConfiguration") or {}
    return {_print(one) for one in clients.get("vpnClientRevokedCertificates") or ()}


def shown(gateway: Mapping[str, Any] | None) -> Json:
    """What may be shown of a gateway, and what its diff compares."""
    if not gateway:
        return {}
    known = properties(gateway)
    return {
        "sku": (known.get("sku") or {}).get("name"),
        "address_pool": pool_of(gateway),
        "root_certificates": sorted(one for one in roots_of(gateway) if one),
        "revoked_certificates": sorted(revoked_of(gateway)),
        "provisioning_state": known.get("provisioningState"),
        "created_by_collection": is_ours(gateway),
    }


def _print(revoked: Mapping[str, Any]) -> str:
    return str(properties(revoked).get("thumbprint") or "").upper()
