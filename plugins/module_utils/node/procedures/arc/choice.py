# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Azure Arc registration that a configuration describes, for the aks-flex-node command."""

from __future__ import annotations

from ...config.model import NodeConfig
from ...identity.choice import audience_for, identity_of
from ...machine.host import Host
from ...secret import Secret
from .agent import Registration, RegistrationRequest

# Absent values were refused by the parser before; Azure has no empty names.
ABSENT = ""


def requested_registration(
    config: NodeConfig, hostname: str, known: Registration | None = None
) -> RegistrationRequest:
    """The configured registration of this machine; defaults come from the cluster.

    known: its present registration. Without a configured name it keeps the one that it has: the playbook
    names a machine after its Node, which is not always the host name.
    """
    azure, cluster = config.azure, config.cluster_id
    principal = azure.service_principal
    return RegistrationRequest(
        registration=Registration(
            azure.subscription_id or cluster.subscription_id,
            azure.arc.resource_group or cluster.resource_group,
            azure.arc.machine_name or (known.machine_name if known else hostname),
        ),
        tenant_id=azure.tenant_id or (principal.client_tenant if principal else ABSENT),
        location=azure.arc.location or azure.target_cluster.location or ABSENT,
        cloud=azure.cloud,
        tags=azure.arc.tags,
    )


def installer_token(config: NodeConfig, host: Host) -> Secret | None:
    """A token of the configured service principal for the registration; None: there is none."""
    if config.azure.service_principal is None:
        return None
    identity = identity_of("servicePrincipal", config, host)
    return identity.token(audience_for(config, "azure")).value
