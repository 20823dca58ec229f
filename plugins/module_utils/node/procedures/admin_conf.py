# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster's admin kubeconfig for writeAdminConf: fetched from Azure before anything is changed."""

from __future__ import annotations

import base64
import binascii
import json
from http import HTTPStatus

from ..config.model import NodeConfig
from ..errors import FlexNodeError
from ..identity.choice import audience_for, identity_for
from ..identity.token import claims
from ..machine.host import Host
from ..net.answer import HttpFailure, Response
from ..net.http_client import HttpClient
from ..net.proxy import proxies
from ..resources.admin_conf import stage
from .arc.errors import ArmUnusable, RolesMissing
from .arc.roles import ROLES

API = "2025-05-01"  # of Microsoft.ContainerService


def fetch_admin_conf(config: NodeConfig, host: Host) -> None:
    """Ask Azure with the machine's own identity, and keep the answer in memory (/run) until it is placed."""
    identity = identity_for(config, host, "azure")
    token = identity.token(audience_for(config, "azure")).value
    place = f"{config.azure.resource_manager.rstrip('/')}{config.cluster_id}/listClusterAdminCredential"
    client = HttpClient(proxies=proxies(config), clock=host.clock)
    headers = {"Authorization": f"Bearer {token.reveal()}", "Content-Length": "0"}
    try:
        answer = client.request("POST", f"{place}?api-version={API}", headers=headers)
    except HttpFailure as failure:
        raise refused(failure, config, str(claims(token).get("oid") or "OBJECT_ID")) from failure
    stage(host, kubeconfig_of(answer, place))


def refused(failure: HttpFailure, config: NodeConfig, principal: str) -> FlexNodeError:
    """Why there is no admin credential, and what to do."""
    what, without = "the admin credential of the cluster can't be fetched", "or remove writeAdminConf"
    if failure.status == HTTPStatus.FORBIDDEN:
        role = ROLES["cluster-admin"]
        grant = role.command(principal, str(config.cluster_id))
        why = f"the machine's identity needs the role {role.name!r}: {failure.reason}"
        return RolesMissing(what, where=str(config.cluster_id), why=why, fix=f"{grant}, {without}")
    fix = failure.advice or "read the reason (a cluster without local accounts has no such credential)"
    return ArmUnusable(what, where=failure.url, why=failure.reason, fix=f"{fix}, {without}")


def kubeconfig_of(answer: Response, place: str) -> bytes:
    """The kubeconfig in an answer of Azure."""
    try:
        first = json.loads(answer.body)["kubeconfigs"][0]["value"]
        return base64.b64decode(first, validate=True)
    except (ValueError, LookupError, TypeError, binascii.Error) as error:
        raise ArmUnusable(
            "the answer has no admin credential", where=place, why=f"{type(error).__name__}: {error}"
        ) from error
