# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a machine that joins a pool by itself: what it was told, and what its identity knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config.document import merge
from ...config.model import NodeConfig
from ...config.parse import parse
from ...identity.choice import audience_for, identity_for
from ...identity.errors import IdentityMissing
from ...identity.token import claims
from ...machine.host import Host
from ..arc.registration import query

Document = dict[str, Any]
UNKNOWN_VERSION = "0.0.0"  # the parser requires one; the pool names it later


def settings_for(
    host: Host,
    cluster: str,
    pool: str,
    method: str,
    *,
    client_id: str = "",
    tenant_id: str = "",
    secret_file: str = "",
    more: Mapping[str, Any] | None = None,
) -> Document:
    """The part of a document that neither the pool nor the machine in Azure knows.

    more: settings of the user, over all others.
    """
    azure: Document = {"targetCluster": {"resourceId": cluster}, "targetAgentPoolName": pool}
    if tenant_id and method != "servicePrincipal":
        azure["tenantId"] = tenant_id
    if method == "servicePrincipal":
        azure["servicePrincipal"] = {
            "clientId": client_id or None,
            "clientTenant": tenant_id or None,
            "clientSecretFile": secret_file or None,
        }
    elif method == "managedIdentity":
        azure["managedIdentity"] = {"clientId": client_id} if client_id else {}
    else:
        azure = merge({"azure": arc_settings(host)}, {"azure": azure})["azure"]
    settings: Document = {"continuousMonitoring": True, "azureAuth": {"method": method}, "azure": azure}
    settings = merge(settings, more or {})
    if method == "managedIdentity" and not settings["azure"].get("tenantId"):
        settings = merge(settings, {"azure": {"tenantId": tenant_of(host, settings)}})
    return settings


def arc_settings(host: Host) -> Document:
    """The present registration of this machine in Azure Arc, as a document describes it."""
    seen = query(host).status
    if seen.registration is None:
        raise IdentityMissing(
            "this machine is not registered with Azure Arc",
            where="--identity arc",
            why=seen.state or "azcmagent is not installed, or not connected",
            fix="register it first (docs/arc.md): azcmagent connect ...",
        )
    arc = {
        "enabled": True,
        "machineName": seen.registration.machine_name,
        "resourceGroup": seen.registration.resource_group,
        "location": seen.location or None,
    }
    found = {"subscriptionId": seen.registration.subscription_id, "tenantId": seen.tenant_id or None}
    return {**{key: value for key, value in found.items() if value}, "arc": arc}


def tenant_of(host: Host, settings: Mapping[str, Any]) -> str | None:
    """The tenant of this machine's identity, from its own token; None: the token does not name it."""
    config = provisional(settings)
    issued = identity_for(config, host, "azure").token(audience_for(config, "azure"))
    return str(claims(issued.value).get("tid") or "") or None


def provisional(settings: Mapping[str, Any]) -> NodeConfig:
    """The configuration as far as it is known before the pool was asked: enough to sign in to Azure."""
    version = (settings.get("kubernetes") or {}).get("version") or UNKNOWN_VERSION
    return parse(merge(settings, {"kubernetes": {"version": version}}), purpose="prepare", pollable=True)
