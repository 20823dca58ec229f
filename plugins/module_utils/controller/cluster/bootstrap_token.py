# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bootstrap tokens in a cluster: one for each machine that has yet to join, gone after the join."""

from __future__ import annotations

import datetime
import secrets
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ...node.errors import ApiUnreachable
from ...node.machine.clock import Clock
from ...node.node_object.conditions import ready_condition
from ...node.secret import REDACTED, Secret
from ..parallel import each
from .binding import Done, RbacClient, grant
from .rbac import RIGHTS, STAYS, missing_rights

Json = dict[str, Any]
ALPHABET = string.ascii_lowercase + string.digits
LABEL, NODE = "aks.flexnode/token", "aks.flexnode/node"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
PREFIX = "bootstrap-token-"
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Token:
    """A token for one node; the password is shown only where it is asked for."""

    identifier: str
    password: Secret
    node: str
    expires: str

    @property
    def text(self) -> str:
        """The token as a kubelet wants it."""
        return f"{self.identifier}.{self.password.reveal()}"

    @property
    def secret(self) -> Json:
        """The Secret that makes it valid; the cluster's token cleaner removes it when it has expired."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"{PREFIX}{self.identifier}",
                "namespace": "kube-system",
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
    """The calls that tokens need, with an administrator's rights."""

    def nodes(self) -> dict[str, Json]:
        """All Nodes by name."""
        return {node["metadata"]["name"]: node for node in self.listed("/api/v1/nodes", {})}

    def tokens(self) -> dict[str, list[str]]:
        """The ids of our tokens, by the Node that each was made for."""
        found: dict[str, list[str]] = {}
        for secret in self.listed(SECRETS, {"labelSelector": LABEL}):
            metadata = secret["metadata"]
            node = (metadata.get("annotations") or {}).get(NODE, "")
            found.setdefault(node, []).append(str(metadata["name"]).removeprefix(PREFIX))
        return found

    def delete_token(self, identifier: str) -> bool:
        """Delete a token; False where there was none."""
        return self._call("DELETE", f"{SECRETS}/{PREFIX}{quote(identifier, safe='')}") is not None


@dataclass(slots=True)
class Minted(Done):
    """What was done in one cluster, and for which nodes."""

    nodes: list[Json] = field(default_factory=list)


def joined_nodes(nodes: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> set[str]:
    """Those that have joined: there is a Node, and it is Ready. One that is not may have been reinstalled."""
    return {name for name in names if name in nodes and ready_condition(nodes[name])[0]}


def mint(
    client: TokenClient,
    names: Sequence[str],
    clock: Clock,
    *,
    hours: float,
    rights: bool,
    check: bool,
    without: Collection[str] = (),
) -> Minted:
    """A token for each node that has not joined. A new one replaces those that were made for it before.

    Those `without` join with something else; of them it is told whether they have.
    """
    done = Minted()
    joined = joined_nodes(client.nodes(), names)
    waiting = [name for name in names if name not in joined]
    bearers = [name for name in waiting if name not in without]
    if waiting and rights:
        needed = RIGHTS if bearers else STAYS
        grant(client, missing_rights(client.bindings(), needed), done, check=check)
    older = client.tokens() if bearers else {}
    done.actions += [f"mint a bootstrap token for {name}" for name in bearers]

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

    done.nodes = each(answer, names, str)
    return done


def _created(client: TokenClient, node: str, clock: Clock, hours: float) -> Token:
    """A token that the cluster has; an id that is taken is replaced by another."""
    for _attempt in range(ATTEMPTS):
        token = new_token(node, clock.now(), hours)
        if client.create(SECRETS, token.secret):
            return token
    raise ApiUnreachable("no free id for a bootstrap token", why=f"after {ATTEMPTS} random ones")


def revoke(client: TokenClient, names: Iterable[str], identifiers: Iterable[str], *, check: bool) -> Minted:
    """Delete the tokens of some nodes, and some by their ids."""
    done = Minted()
    ours = client.tokens()
    known = {identifier for group in ours.values() for identifier in group}
    wanted = {identifier: name for name in names for identifier in ours.get(name, ())}
    wanted |= {identifier: "" for identifier in identifiers if identifier not in wanted}
    for identifier, name in wanted.items():
        # One that we did not label may be ours all the same; only the cluster can tell.
        deleted = identifier in known if check else client.delete_token(identifier)
        if deleted:
            done.actions.append(f"delete the bootstrap token {identifier}{f' of {name}' if name else ''}")
            done.nodes.append({"name": name, "token_id": identifier})
    return done
