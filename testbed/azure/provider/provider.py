# SPDX-License-Identifier: GPL-3.0-or-later
"""What the provider does for a request: configurations, invitations, status."""

from __future__ import annotations

import datetime
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.azure.database import Database
from testbed.azure.provider import bundle, status
from testbed.azure.provider.blobs import Blobs
from testbed.azure.provider.cluster import Cluster
from testbed.azure.provider.life import Invitation
from testbed.azure.provider.nodes import Node, Nodes
from testbed.azure.serving.place import Place


@dataclass(frozen=True)
class Issued:
    """What a machine needs to join."""

    url: str
    expires: str


class Provider:
    """Configurations of nodes, and the invitations that go with them."""

    def __init__(
        self, place: Place, database: Database, cluster: Cluster, blobs: Blobs, kubeconfig: Path
    ) -> None:
        self._place = place
        self._database = database
        self._kubeconfig = kubeconfig
        self.cluster = cluster
        self.blobs = blobs
        self.nodes = Nodes(database)
        self.work = threading.Event()
        """Set when the watch has something to check."""
        self._writing = threading.Lock()

    def wake(self) -> None:
        """Make the watch check at once."""
        self.work.set()

    def admin_kubeconfig(self) -> str:
        """The local administrator's way in."""
        return self._kubeconfig.read_text(encoding="utf-8")

    def put(self, name: str, properties: dict[str, Any]) -> tuple[Node, Issued]:
        """Write a configuration and invite its machine."""
        with self._writing:
            node = self.nodes.put(name, properties)
            return node, self._invite(node)

    def regenerate(self, node: Node) -> tuple[Node, Issued]:
        """Invite a machine once more; that counts as a new version."""
        with self._writing:
            again = self.nodes.put(node.name)
            return again, self._invite(again)

    def delete(self, name: str) -> dict[str, bool]:
        """Forget a node, with all that was issued for it."""
        with self._writing:
            self.nodes.delete(name)
            self._withdraw(name.lower())
            self._database.change("DELETE FROM last_seen WHERE name = ?", name.lower())
        return {"configUrlRevoked": True, "bootstrapTokenRevoked": True, "monitoringDisabled": True}

    def status(self, name: str) -> dict[str, Any]:
        """How a node is, from the Node; what was seen last is kept for when the Node is gone."""
        row = self._database.row("SELECT status FROM last_seen WHERE name = ?", name)
        remembered = json.loads(row["status"]) if row else {}
        node, lease = self.cluster.node(name)
        found = status.status(node, lease, remembered)
        if node is not None:
            kept = json.dumps({key: value for key, value in found.items() if key != "conditions"})
            self._database.change("REPLACE INTO last_seen VALUES (?, ?)", name, kept)
        return found

    def invitations(self) -> list[Invitation]:
        """Those that are still good for something."""
        rows = self._database.rows("SELECT * FROM invitations WHERE state != 'closed' ORDER BY id")
        return [Invitation(**row) for row in rows]

    def use(self, invitation: Invitation) -> None:
        """It was used: the URL goes, the token stays for this one join."""
        with self._writing:
            self._revoke_url(invitation)
            self._database.change(
                "UPDATE invitations SET state = 'used', used = ? WHERE id = ? AND state = 'open'",
                *(time.time(), invitation.id),
            )

    def close(self, invitation: Invitation) -> None:
        """Nothing of it is good any more."""
        with self._writing:
            self._revoke_url(invitation)
            self._end(invitation)

    def _revoke_url(self, invitation: Invitation) -> None:
        if self._latest(invitation.node) == invitation.id:  # else the container is a later one's by now
            self.blobs.revoke(invitation.node)

    def _latest(self, node: str) -> int | None:
        row = self._database.row("SELECT max(id) AS id FROM invitations WHERE node = ?", node)
        return row["id"] if row else None

    def _invite(self, node: Node) -> Issued:
        seconds = self._database.settings.bootstrap_token_seconds
        now = time.time()
        expires = datetime.datetime.fromtimestamp(int(now) + seconds, datetime.timezone.utc)
        azure = bundle.needs_azure(node.properties)
        token = None if azure else self.cluster.create_token(expires)
        # A token that was created is recorded before anything else can fail, so that it is cleaned up.
        self._database.change(
            "INSERT INTO invitations (node, token_id, state, created, expires) VALUES (?, ?, 'open', ?, ?)",
            *(node.name, token.partition(".")[0] if token else None, now, expires.timestamp()),
        )
        config = bundle.document(self._place, node.name, node.properties, token)
        url = self.blobs.publish(node.name, bundle.text(config, node.config_version), expires)
        latest = self._latest(node.name)
        for other in self.invitations():
            # One that is being used may finish its join.
            if other.node == node.name and other.state == "open" and other.id != latest:
                self._end(other)
        self.wake()
        return Issued(url, expires.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def _withdraw(self, name: str) -> None:
        self.blobs.revoke(name)
        for invitation in self.invitations():
            if invitation.node == name:
                self._end(invitation)

    def _end(self, invitation: Invitation) -> None:
        if invitation.token_id:
            self.cluster.delete_token(invitation.token_id)
        self._database.change("UPDATE invitations SET state = 'closed' WHERE id = ?", invitation.id)
