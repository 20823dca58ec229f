# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection created in Azure for a machine that leaves: removed as far as its identity may."""

from __future__ import annotations

from ...config.model import NodeConfig
from ...engine.restarts import Progress
from ...errors import FlexNodeError
from ...identity.choice import audience_for, identity_of
from ...identity.token import claims
from ...machine.host import Host
from ...net.answer import HttpFailure
from ...net.http_client import HttpClient
from ...net.proxy import proxies
from ...secret import Secret
from ...sources.machines import ROLE as POOL_ROLE
from ...sources.machines import pool_id
from ..assignments import Assignments
from .choice import installer_token
from .record import Record
from .registration import query, unregister
from .roles import ROLES

NAMES = {role.id: role.name for role in ROLES.values()}
TIMEOUT, ATTEMPTS = 15.0, 3


def leave_azure(
    host: Host, config: NodeConfig | None, progress: Progress, token: Secret | None = None
) -> list[str]:
    """Remove roles and registration of this machine; returns what remains, and why.

    Only of a machine that this collection registered with Azure Arc: other identities may be used by several
    machines. The roles first: with the registration the identity is gone.
    """
    remains: list[str] = []
    try:
        if "registration" not in Record(host).read():
            return []
        seen = query(host)
        registered = seen.status.registration is not None  # otherwise a run was killed after it removed it
        if registered and not seen.ours:
            return []
        own: Secret | None = None
        if config is not None and registered:
            token = token or installer_token(config, host)
            own, remains = remove_roles(host, config, token, progress)
        remains += unregister(host, token or own, progress=progress).remains
    except FlexNodeError as error:
        remains.append(f"registration with Azure Arc: {error.what}: {error.why}. {error.fix}")
    return remains


def remove_roles(
    host: Host, config: NodeConfig, token: Secret | None, progress: Progress
) -> tuple[Secret | None, list[str]]:
    """Delete the roles of this machine on its cluster or pool; the machine's own token, and what remains."""
    pool, cluster = config.azure.target_agent_pool_name, str(config.cluster_id)
    scope, own = pool_id(cluster, pool) if pool else cluster, None
    principal = ""
    try:
        own = identity_of("arc", config, host).token(audience_for(config, "azure")).value
        principal = str(claims(own).get("oid") or "")
        client = HttpClient(proxies=proxies(config), clock=host.clock, timeout=TIMEOUT, attempts=ATTEMPTS)
        azure = Assignments(config.azure.resource_manager, client, token or own)
        created = azure.created_for(principal, scope)
    except FlexNodeError as error:
        return None, [f"roles of this machine on {scope} were not checked: {error.what}: {error.why}"]
    except HttpFailure as failure:
        left = f"roles of this machine on {scope} were not checked: {failure.reason}"
        remove = f"az role assignment delete --assignee {principal} --role {POOL_ROLE} --scope {scope}"
        return own, [f"{left}; remove its role: {remove}" if pool else left]
    remains = []
    for one in created:
        role = NAMES.get(one.role_id, one.role_id)
        progress(f"remove role {role} on {one.scope}")
        try:
            azure.delete(one)
        except HttpFailure as failure:
            remains.append(f"role {role} on {one.scope} ({failure.reason}); remove it: {one.command}")
    return own, remains
