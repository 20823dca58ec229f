# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FlexNodes pool that the command line names."""

from __future__ import annotations

import argparse
from typing import Any

from ..config.document import unwrap
from ..config.model import NodeConfig
from ..engine.records.name import own_name
from ..errors import ConfigInvalid, Problem, shown
from ..machine.host import Host
from ..procedures.pool.client import PoolClient
from ..procedures.pool.registration import Pool
from ..procedures.pool.settings import provisional, settings_for
from ..sources.machines import cluster_and_pool, is_machine, machine_name, pool_of
from .output import Say
from .source import named_document


def pool_settings(options: argparse.Namespace, host: Host) -> tuple[dict[str, Any], NodeConfig]:
    """The settings that the command line names, and what they mean so far. Nothing was asked of the pool."""
    more, _version = unwrap(named_document(options)) if options.config else ({}, None)
    settings = settings_for(
        host,
        options.cluster.rstrip("/"),
        options.pool,
        options.identity,
        client_id=options.client_id or "",
        tenant_id=options.tenant_id or "",
        secret_file=options.client_secret_file or "",
        more=more,
    )
    config = provisional(settings)
    if config.azure.target_agent_pool_name != options.pool or str(config.cluster_id).lower() != (
        options.cluster.rstrip("/").lower()
    ):
        accepted = "the cluster and the pool of the command line, or neither of them"
        raise ConfigInvalid(
            [Problem("azure", "set to another cluster or pool", accepted)], where=shown(options.config)
        )
    machine_name(config.node_name or own_name(host))
    return settings, config


def pool_source(
    settings: dict[str, Any], config: NodeConfig, host: Host, say: Say, *, dry: bool = False
) -> Pool:
    """The pool as a source of a configuration. dry: only look, and do not wait for a role."""
    name = machine_name(config.node_name or own_name(host))
    client = PoolClient.of(config, host, say)
    client.role_seconds = 0.0 if dry else client.role_seconds
    return Pool(client, name, settings, dry=dry)


def machine_left(resource: str) -> str:
    """What a machine that left says of its machine in Azure, and the command that deletes it."""
    if not is_machine(resource):
        return ""
    cluster, pool = cluster_and_pool(pool_of(resource))
    parts, name = cluster.split("/"), resource.rpartition("/")[2]
    return (
        f"machine {name} of pool {pool} stays in Azure; delete it: az aks nodepool delete-machines "
        f"--resource-group {parts[4]} --cluster-name {parts[-1]} --name {pool} --machine-names {name}"
    )
