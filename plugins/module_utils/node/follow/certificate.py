# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a pool that the cluster lost: its certificate is renewed, or its Node registered again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..config.document import merge
from ..config.parse import parse
from ..dataclass import replace
from ..engine.records.record import Record
from ..engine.records.state import Store
from ..engine.run_log import note_failure
from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.program import COMMAND
from ..operations.obtain import obtain
from ..operations.reconcile import EVERYTHING, reconcile
from ..procedures.pool.client import PoolClient
from ..sources.bootstrap_data import document_from
from ..sources.errors import MachineMissing
from ..sources.flexnode_config import digest_for
from ..sources.machines import cluster_and_pool
from ..sources.source import Seen
from ..sources.watched import Watched
from ..status.publish import publish
from .following import failed_with
from .repair import applied_config

Say = Callable[[str], None]


def renew_certificate(
    host: Host, store: Store, watched: Watched, document: Mapping[str, Any], say: Say
) -> None:
    """Join again with a token of fresh bootstrap data. It is fetched first, before anything is stopped.

    The cluster may have a new CA since; the goal of the machine stays as it was applied, and one that failed
    stays blocked. A machine that was deleted meanwhile does not come back by itself.
    """
    config = parse(document, pollable=True)
    client = PoolClient.of(config, host, say)
    client.patient = False  # the next poll tries again
    cluster, pool = cluster_and_pool(client.pool)
    if client.machine(watched.resource.rpartition("/")[2]).status == 404:
        raise MachineMissing(
            "the machine of this node does not exist",
            where=watched.resource,
            why="it may have been deleted while this host was off",
        )
    fresh, _notes = document_from(client.bootstrap_data(), cluster=cluster, pool=pool)
    kubelet = {key: fresh["node"]["kubelet"][key] for key in ("serverURL", "caCertData")}
    token = {"bootstrapToken": fresh["azure"]["bootstrapToken"]}
    renewed = merge(document, {"azure": token, "node": {"kubelet": kubelet}})
    version = store.config_version()  # of this document; the last goal that was seen may have failed
    bundle = {"config": renewed, **({"configVersion": version} if version else {})}
    source = replace(watched, version=version, digest=digest_for(version), settled=False)
    obtained = obtain(host, Seen(bundle, source), {})
    try:
        run = reconcile(obtained, EVERYTHING, progress=say)
    except FlexNodeError as error:
        note_failure(host, store.journal, error, f"{COMMAND} poll")
        raise
    blocked = watched.blocked
    store.set_monitoring(failed_with(blocked, host) if blocked else {})
    publish(host, store)
    say(f"the kubelet has a new certificate: {run.summary}")


def register_again(host: Host, store: Store, say: Say) -> FlexNodeError | None:
    """The Node was deleted, and nothing else is new: the kubelet registers it with its certificate."""
    say("the Node of this machine was deleted: the kubelet registers it again")
    try:
        run = reconcile(
            applied_config(host, store), EVERYTHING, progress=say, leave=frozenset(), register=True
        )
    except FlexNodeError as error:
        note_failure(host, store.journal, error, f"{COMMAND} poll")
        record = Record.of(store.transaction())
        if record and not record.before:  # only a restart: no change to complete or to roll back
            store.finish()
        return error
    say(f"the Node is registered again: {run.summary}")
    return None
