# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine polls from now on, decided when it obtains a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config.available import polls_resource
from ..config.document import beyond, layered
from ..config.model import NodeConfig
from ..config.resource import site_settings
from ..dataclass import replace
from ..engine.records.name import own_name
from ..engine.records.state import Store
from ..machine.host import Host
from .flexnode_config import digest_for, resource_id, url_of
from .machines import api_version, is_machine, machine_id, machine_name
from .source import Fetched, Inline, Seen, Source, Stored, Url, is_bundle
from .watched import Watched


def with_resource(
    watched: Watched | None,
    known: Watched | None,
    source: Source,
    fetched: Fetched,
    config: NodeConfig,
    host: Host,
    overrides: Mapping[str, Any],
) -> Watched | None:
    """The resource in Azure that is polled from now on, unless a durable URL is.

    A bundle of the resource provider comes from a temporary URL; the resource stays. A node of a pool follows
    its machine, wherever its document came from.
    """
    if watched and not watched.resource:
        return watched
    pool = config.azure.target_agent_pool_name
    if not polls_resource(config) or not (watched or pool or is_bundle(source, fetched)):
        return watched
    cluster, node = str(config.cluster_id), config.node_name or own_name(host)
    if pool:
        resource = machine_id(cluster, pool, machine_name(node))
        url = url_of(config.azure.resource_manager, resource, api_version(config))
    else:
        resource = resource_id(cluster, node)
        url = url_of(config.azure.resource_manager, resource)
    if watched:
        return replace(watched, url=url, resource=resource)
    before = known if known and known.resource == resource else Watched(url, resource=resource)
    now = replace(
        before,
        url=url,
        ca=source.ca if isinstance(source, Url) else "",
        # The goal of a machine is laid over the stored document, which has all the rest.
        over={}
        if pool
        else layered(
            # A file may have been completed by hand with what a resource has no place for.
            site_settings(fetched.document) if isinstance(source, Inline) else {},
            # What the provider's bundle says too is not an override: the resource is followed there.
            beyond(overrides, fetched.document),
        ),
        digest=digest_for(fetched.version),
        version=fetched.version,
        settled=True,
        missing_since=0.0,
        blocked=None,
        waiting="",
    )
    return now if now == known else replace(now, settled=False, etag="")


def watched_source(
    known: Store, source: Source, fetched: Fetched, overrides: Mapping[str, Any], *, durable: bool
) -> Watched | None:
    """What is polled from now on, if the source is a durable URL or nothing new; else None."""
    if isinstance(source, Seen):
        return source.watched
    # A damaged record is replaced, except where nothing else says what to poll: then it is an error.
    watched = Watched.of(known.source() if isinstance(source, Stored) else known.source_if_intact())
    if isinstance(source, Stored) and watched and is_machine(watched.resource):
        now: Watched | None = watched
    elif isinstance(source, Stored):
        more = beyond(overrides, fetched.document) if watched and watched.resource else overrides
        now = watched and replace(watched, over=layered(watched.over, more))
    elif durable and isinstance(source, Url):
        now = Watched(
            source.url,
            source.ca,
            overrides,
            watched.proxy if watched else {},
            fetched.etag,
            fetched.digest,
            fetched.version,
            settled=True,
        )
    else:
        return None
    # An unchanged source keeps its `settled`; a changed one is settled only after it has been applied.
    return now if now == watched or now is None else replace(now, settled=False)
