# SPDX-License-Identifier: GPL-3.0-or-later
"""What the provider does by itself: it sees tokens used, ends what is over, and binds roles."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import requests
from azure.core.exceptions import AzureError

from testbed.azure.authorization.grants import Grants
from testbed.azure.authorization.roles import covers
from testbed.azure.database import Database
from testbed.azure.provider.life import Invitation, Seen, Step, step
from testbed.azure.provider.provider import Provider
from testbed.basics.errors import TestbedError

INTERVAL = 0.5
"""Seconds between two looks while there is something to wait for."""
IDLE = 30
"""The same while there is nothing."""
LOG = logging.getLogger("testbed.azure")


def _created(node: Mapping[str, Any]) -> float:
    then = datetime.datetime.strptime(node["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
    return then.replace(tzinfo=datetime.timezone.utc).timestamp()


class Watch:
    """A thread that watches the cluster; at most four requests at a time."""

    def __init__(self, provider: Provider, grants: Grants, database: Database, cluster_id: str) -> None:
        self._provider = provider
        self._grants = grants
        self._database = database
        self._cluster_id = cluster_id
        self._bound: frozenset[str] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()
        self._provider.wake()
        self._thread.join(5)

    def look(self) -> bool:
        """Do what is due; whether something is still to come."""
        invitations = self._provider.invitations()
        if invitations:
            asked = self._provider.cluster.requests()
            for invitation in invitations:
                self._advance(invitation, asked)
        pending = self._bind()
        return bool(invitations) or pending

    def _advance(self, invitation: Invitation, asked: dict[str, bool]) -> None:
        token_id = invitation.token_id or ""
        node = None
        if invitation.state == "used" or invitation.token_id is None:
            node, _ = self._provider.cluster.node(invitation.node)
        seen = Seen(
            requested=token_id in asked,
            issued=asked.get(token_id, False),
            node_created=_created(node) if node else None,
        )
        what = step(invitation, seen, time.time(), self._database.settings.join_seconds)
        if what is Step.USE:
            LOG.info("token %s of node %s is used", token_id, invitation.node)
            self._provider.use(invitation)
        elif what is Step.CLOSE:
            LOG.info("invitation of node %s ends", invitation.node)
            self._provider.close(invitation)

    def _bind(self) -> bool:
        """Role assignments that Kubernetes knows about become bindings, once they count."""
        concerned = [
            one
            for one in self._grants.all()
            if one.definition and one.definition.cluster_role and covers(one.scope, self._cluster_id)
        ]
        counting = {one.name for one in self._grants.counting()}
        due = [one for one in concerned if one.name in counting]
        names = frozenset(one.name for one in due)
        if names != self._bound:
            self._provider.cluster.bind(due)
            self._bound = names
        return len(due) < len(concerned)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._provider.work.clear()
            try:
                more = self.look()
            except (TestbedError, requests.RequestException, AzureError) as error:
                LOG.warning("the cluster or the blob store does not answer: %s", error)
                self._bound, more = None, True
            self._provider.work.wait(INTERVAL if more else IDLE)
