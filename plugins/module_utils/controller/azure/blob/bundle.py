# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's bundle in blob storage: what should be there, and what is to be done about it. All pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ....node.config.document import canonical, merge, redact
from ....node.config.parse import parse
from ....node.errors import ConfigInvalid, Problem
from ....node.secret import REDACTED
from ..errors import StorageRefuses

Json = dict[str, Any]
Kind = Literal["created", "updated", "unchanged", "deleted", "tombstoned"]
PREFIX = "flexnode-"
BLOB = "config.json"
DAY = 86400


@dataclass(frozen=True, slots=True)
class Policy:
    """A stored access policy: removing it voids the address that names it."""

    name: str
    expires: float
    permission: str = "r"


@dataclass(frozen=True, slots=True)
class Stored:
    """What is there for a node. `others` are policies that are not ours."""

    container: bool = False
    public: bool = False
    bundle: Mapping[str, Any] | None = None
    etag: str = ""
    policy: Policy | None = None
    others: tuple[Any, ...] = ()

    @property
    def tombstone(self) -> bool:
        """Whether the node is told to leave."""
        return bool(self.bundle and self.bundle.get("tombstone"))

    @property
    def version(self) -> str:
        """The number of what is there."""
        return str((self.bundle or {}).get("configVersion") or "")

    @property
    def cluster(self) -> str:
        """The cluster whose node it is for; empty where it says none."""
        bundle = self.bundle or {}
        config = bundle.get("config")
        return cluster_of(config if isinstance(config, Mapping) else {}) or str(bundle.get("clusterId") or "")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about one node; parts that are None or False stay as they are."""

    kind: Kind = "unchanged"
    reasons: tuple[str, ...] = ()
    content: Mapping[str, Any] | None = None
    delete: bool = False
    policy: Policy | None = None  # the one to have
    set_policies: bool = False
    before: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether anything is written."""
        return self.kind != "unchanged"

    @property
    def after(self) -> Mapping[str, Any]:
        """What is there then."""
        return {} if self.delete else self.content if self.content is not None else self.before


def container_of(node: str) -> str:
    """The container of a node, by Azure's rules: 3-63 small letters, digits and single hyphens."""
    plain = f"{PREFIX}{node}"
    if re.fullmatch(r"[a-z0-9](-?[a-z0-9])*", plain) and len(plain) <= 63:
        return plain
    digest = hashlib.sha256(node.encode()).hexdigest()[:8]
    stem = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:54].rstrip("-")
    return f"{stem}-{digest}"


def account_of(url: str) -> str:
    """The account in an address: the host's first label, or the path where the host is only an address."""
    host, _slash, path = url.partition("://")[2].partition("/")
    return path.strip("/") or host.split(".")[0].split(":")[0]


def checked(name: str, document: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a document, before it is put where a machine reads it; paths name the node."""
    try:
        parse(document, purpose="join", pollable=True)
    except ConfigInvalid as invalid:
        return [problem.under(name) for problem in invalid.problems]
    return []


def cluster_of(config: Mapping[str, Any]) -> str:
    """The resource id of the cluster that a configuration is for."""
    azure = merge({}, config).get("azure")
    target = azure.get("targetCluster") if isinstance(azure, Mapping) else None
    return str(target.get("resourceId") or "") if isinstance(target, Mapping) else ""


def refuse_stranger(stored: Stored, cluster_id: str) -> None:
    """A container is named by its node alone, so it may be that of a node of another cluster."""
    theirs = stored.cluster
    if theirs and cluster_id and _plain(theirs) != _plain(cluster_id):
        raise StorageRefuses(
            "this bundle belongs to a node of another cluster",
            where=theirs,
            why=f"this run is for {cluster_id}",
            fix="another storage account or another agent.nodeName; to move the machine: "
            "unbootstrap it first",
        )


def _plain(cluster_id: str) -> str:
    return cluster_id.strip("/").lower()


def without_token(config: Mapping[str, Any]) -> Json:
    """The configuration with a mark where its bootstrap token was: the machine knows it, nobody else need."""
    plain = merge({}, config)
    if "bootstrapToken" in (plain.get("azure") or {}):
        return merge(plain, {"azure": {"bootstrapToken": {"token": REDACTED}}})
    return plain


def next_version(known: str, now: float) -> str:
    """Unix seconds, and always more than before."""
    return str(max(int(now), int(known) + 1 if known.isdigit() else 0))


def decide_present(
    stored: Stored,
    document: Mapping[str, Any] | None,
    *,
    remove_token: bool,
    now: float,
    days: float,
    new_policy: str,
    cluster_id: str = "",
) -> Plan:
    """What `present` does. With `remove_token` only the token goes; the document stays as it is stored."""
    refuse_stranger(stored, cluster_of(document or {}) or cluster_id)
    known = None if stored.tombstone else (stored.bundle or {}).get("config")
    if remove_token:
        if known is None:
            return Plan()
        wanted = without_token(known)
    else:
        wanted = merge({}, document or {})
    reasons: list[str] = []
    content = None
    if known is None or canonical(known) != canonical(wanted):
        # A token is no part of what a node follows: with another one, or none, the version stays.
        same = known is not None and canonical(without_token(known)) == canonical(without_token(wanted))
        version = stored.version if same and stored.version else next_version(stored.version, now)
        content = {"config": wanted, "configVersion": version}
        reasons.append(
            "there is none" if stored.bundle is None else "the token" if same else "the configuration"
        )
    policy, renewed = stored.policy, False
    if policy is None or policy.permission != "r":
        policy, renewed = Policy(new_policy, now + days * DAY), True
        reasons.append("the address")
    elif policy.expires < now + days * DAY / 2:
        policy, renewed = Policy(policy.name, now + days * DAY), True
        reasons.append("the address expires")
    if stored.public:
        renewed = True
        reasons.append("public access")
    kind: Kind = "created" if stored.bundle is None else "updated"
    return Plan(
        kind=kind if reasons else "unchanged",
        reasons=tuple(reasons),
        content=content,
        policy=policy,
        set_policies=renewed,
        before=stored.bundle or {},
    )


def decide_tombstone(stored: Stored, *, now: float, cluster_id: str = "") -> Plan:
    """What `tombstone` does: the node reads it at its next poll and leaves. It needs its address for that."""
    refuse_stranger(stored, cluster_id)
    if stored.bundle is None or stored.tombstone:
        return Plan(policy=stored.policy)
    content = {"tombstone": True, "configVersion": next_version(stored.version, now)}
    if stored.cluster:
        content["clusterId"] = stored.cluster  # it is still the bundle of a node of that cluster
    return Plan("tombstoned", ("it is to leave",), content, policy=stored.policy, before=stored.bundle)


def decide_absent(stored: Stored, *, cluster_id: str = "") -> Plan:
    """What `absent` does: the address is void and the bundle is gone. The node works on."""
    refuse_stranger(stored, cluster_id)
    if stored.bundle is None and stored.policy is None:
        return Plan()
    return Plan(
        "deleted",
        ("it exists",),
        delete=stored.bundle is not None,
        set_policies=stored.policy is not None,
        before=stored.bundle or {},
    )


def shown(bundle: Mapping[str, Any]) -> Json:
    """A bundle as a diff may show it."""
    if "config" not in bundle:
        return dict(bundle)
    return {**bundle, "config": redact(bundle["config"])}
