# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bootstrap tokens in a cluster: one per machine that has not joined yet, deleted after the join."""

from __future__ import annotations

import datetime
import secrets
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...node.errors import ApiUnreachable
from ...node.machine.clock import Clock
from ...node.node_object.conditions import ready_condition
from ...node.secret import REDACTED, Secret
from ..parallel import in_parallel
from .binding import Changes, RbacClient, grant
from .rbac import AFTER_JOIN, RIGHTS, missing_rights
from .rollout import ensure_rollout

Json = dict[str, Any]
ALPHABET = string.ascii_lowercase + string.digits
LABEL, NODE = "aks.flexnode/token", "aks.flexnode/node"
NAMESPACE = "kube-system"
PREFIX = "bootstrap-token-"
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Token:
    """A token for one node; its password is masked unless revealed on purpose."""

    identifier: str
    password: Secret
    node: str
    expires: str

    @property
    def text(self) -> str:
        """The token in the form that a kubelet takes."""
        return f"{self.identifier}.{self.password.reveal()}"

    @property
    def secret(self) -> Json:
        """The Secret that makes it valid; the cluster's token cleaner removes it when it has expired."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"{PREFIX}{self.identifier}",
                "namespace": NAMESPACE,
                "labels": {LABEL: "true"},
                # A label's value is shorter than a Node's name may be.
                "annotations": {NODE: self.node},
            },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "description": f"aks.flexnode: for the join of Node {self.node}",
                "token-id": self.identifier,
                "token-secret": self.password.reveal(),
                "expiration": self.expires,
                "usage-bootstrap-authentication": "true",
            },
        }


def new_token(node: str, now: float, hours: float) -> Token:
    """A random token that is valid for some hours."""

    def random(length: int) -> str:
        return "".join(secrets.choice(ALPHABET) for _index in range(length))

    return Token(random(6), Secret(random(16)), node, timestamp(now + hours * 3600))


def timestamp(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class TokenClient(RbacClient):
    """The API calls for tokens; the user needs an administrator's rights."""

    def nodes(self) -> dict[str, Json]:
        """All Nodes by name."""
        return {node["metadata"]["name"]: node for node in self._items(self._core.list_node)}

    def tokens(self) -> dict[str, list[str]]:
        """The ids of the tokens that this collection created, by Node."""
        found: dict[str, list[str]] = {}
        for secret in self._items(self._core.list_namespaced_secret, NAMESPACE, label_selector=LABEL):
            metadata = secret["metadata"]
            node = (metadata.get("annotations") or {}).get(NODE, "")
            found.setdefault(node, []).append(str(metadata["name"]).removeprefix(PREFIX))
        return found

    def delete_token(self, identifier: str) -> bool:
        """Delete a token; False where there was none."""
        name = f"{PREFIX}{identifier}"
        return self._found(self._core.delete_namespaced_secret, name, NAMESPACE) is not None

    def create_token(self, token: Token) -> bool:
        """Create a token; False where its id is in use."""
        created = self._call(self._core.create_namespaced_secret, NAMESPACE, token.secret, accepted=(409,))
        return created is not None


@dataclass(slots=True)
class TokenChanges(Changes):
    """What was changed in one cluster, and for which nodes."""

    nodes: list[Json] = field(default_factory=list)


def joined_nodes(nodes: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> set[str]:
    """Those whose Node is Ready. A machine whose Node is not Ready may have been reinstalled."""
    return {name for name in names if name in nodes and ready_condition(nodes[name])[0]}


def create_tokens(
    client: TokenClient,
    names: Sequence[str],
    clock: Clock,
    *,
    hours: float,
    rights: bool,
    check: bool,
    without: Collection[str] = (),
    rollouts: bool = False,
) -> TokenChanges:
    """Create a token per node that has not joined; older tokens of the same node are deleted.

    Nodes in `without` join with another identity: for them only `joined` is returned.
    rollouts: some node takes part in rollouts (upgrade.maxUnavailable), which need a record in the cluster.
    """
    done = TokenChanges()
    joined = joined_nodes(client.nodes(), names)
    waiting = [name for name in names if name not in joined]
    bearers = [name for name in waiting if name not in without]
    if waiting and rights:
        needed = RIGHTS if bearers else AFTER_JOIN
        grant(client, missing_rights(client.bindings(), needed), done, check=check)
    if rollouts and rights:  # also of nodes that have joined: the setting may be new
        ensure_rollout(client, done, check=check)
    older = client.tokens() if bearers else {}
    done.actions += [f"create a bootstrap token for {name}" for name in bearers]

    def answer(name: str) -> Json:
        if name not in bearers:
            return {"name": name, "joined": name in joined}
        if check:
            return {"name": name, "joined": False, "token": REDACTED, "token_id": REDACTED}
        token = _created(client, name, clock, hours)
        for identifier in older.get(name, ()):
            client.delete_token(identifier)
        return {
            "name": name,
            "joined": False,
            "token": token.text,
            "token_id": token.identifier,
            "expires": token.expires,
        }

    done.nodes = in_parallel(answer, names, str)
    return done


def _created(client: TokenClient, node: str, clock: Clock, hours: float) -> Token:
    """Create a token in the cluster; if its random id is in use, try another."""
    for _attempt in range(ATTEMPTS):
        token = new_token(node, clock.now(), hours)
        if client.create_token(token):
            return token
    raise ApiUnreachable("no free id for a bootstrap token", why=f"after {ATTEMPTS} random ones")


def delete_tokens(
    client: TokenClient, names: Iterable[str], identifiers: Iterable[str], *, check: bool
) -> TokenChanges:
    """Delete the tokens of some nodes, and others by their ids."""
    done = TokenChanges()
    own = client.tokens()
    known = {identifier for group in own.values() for identifier in group}
    wanted = {identifier: name for name in names for identifier in own.get(name, ())}
    wanted |= {identifier: "" for identifier in identifiers if identifier not in wanted}
    for identifier, name in wanted.items():
        # In check mode only tokens with our label are known; otherwise the cluster knows.
        deleted = identifier in known if check else client.delete_token(identifier)
        if deleted:
            done.actions.append(f"delete the bootstrap token {identifier}{f' of {name}' if name else ''}")
            done.nodes.append({"name": name, "token_id": identifier})
    return done
