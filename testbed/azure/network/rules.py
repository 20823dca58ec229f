# SPDX-License-Identifier: GPL-3.0-or-later
"""What Azure refuses about a VPN gateway. Pure."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography import x509

from testbed.azure.arm.errors import ArmError, invalid

SKUS = re.compile(r"Basic|VpnGw[1-5](AZ)?|ErGw[1-3]AZ")
MOST_ROOTS = 20


def check(
    properties: Mapping[str, Any], space: Sequence[str], zones: Sequence[str], unavailable: str
) -> None:
    """Refuse settings that Azure refuses. space: the VNet's; zones: those of the public address."""
    sku = str((properties.get("sku") or {}).get("name") or "")
    if not SKUS.fullmatch(sku):
        raise invalid(f"The gateway SKU '{sku}' is not valid.", "InvalidGatewaySkuSpecified")
    if sku == unavailable:
        message = f"The requested size {sku} is currently not available in this location. Try another size."
        raise ArmError(409, "SkuNotAvailable", message)
    if sku.endswith("AZ") and not zones:
        message = "Standard public IPs of VPN gateways with AZ SKUs must have zones configured."
        raise invalid(message, "VmssVpnGatewayPublicIpsMustHaveZonesConfigured")
    if clients := properties.get("vpnClientConfiguration"):
        _check_clients(clients, sku, space)


def _check_clients(clients: Mapping[str, Any], sku: str, space: Sequence[str]) -> None:
    pool = (clients.get("vpnClientAddressPool") or {}).get("addressPrefixes") or []
    if not pool:
        raise invalid("The VPN client address pool is not specified.", "VpnClientAddressPoolNotSpecified")
    for one in pool:
        for other in space:
            if ipaddress.ip_network(one).overlaps(ipaddress.ip_network(other)):
                message = (
                    "The virtual network gateway's VPN client address pool overlaps with the virtual "
                    f"network's address space. The overlapping address space prefixes are {other} and {one}."
                )
                raise invalid(message, "VpnClientAddressPoolOverlapsWithVirtualNetwork")
    protocols = clients.get("vpnClientProtocols") or []
    if "OpenVPN" in protocols and sku == "Basic":
        raise invalid("OpenVPN is not supported with the Basic SKU.", "VpnClientProtocolNotSupportedBySku")
    roots = clients.get("vpnClientRootCertificates") or []
    if len(roots) > MOST_ROOTS:
        raise invalid("Too many VPN client root certificates.", "VpnClientRootCertificateCountLimitReached")
    names = [one["name"].lower() for one in roots]
    if len(names) != len(set(names)):
        raise invalid("Names of VPN client root certificates repeat.", "DuplicateResourceName")
    for one in roots:
        authority(one["name"], one["properties"].get("publicCertData", ""))
    for one in clients.get("vpnClientRevokedCertificates") or ():
        if not re.fullmatch(r"[0-9A-Fa-f]{40}", one["properties"].get("thumbprint", "")):
            message = f"The thumbprint of revoked certificate {one['name']} is invalid."
            raise invalid(message, "VpnClientRevokedCertificateThumbprintInvalid")


def authority(name: str, data: str) -> x509.Certificate:
    """A root certificate as Azure takes it: base64 of DER, without the lines of PEM."""
    try:
        found = x509.load_der_x509_certificate(base64.b64decode(data, validate=True))
        constraints = found.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, binascii.Error, x509.ExtensionNotFound) as error:
        message = f"Data for certificate {name} is invalid."
        raise invalid(message, "VpnClientRootCertificateDataInvalid") from error
    if not constraints.ca or found.subject != found.issuer:
        raise invalid(f"Certificate {name} is no root certificate.", "VpnClientRootCertificateDataInvalid")
    return found
