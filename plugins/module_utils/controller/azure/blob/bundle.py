# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's bundle in blob storage: what is stored, what should be, and what to change. All pure."""

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
    """A stored access policy: without it the URL that names it is invalid."""

    name: str
    expires: float
    permission: str = "r"


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored for a node. `others` are policies of others."""

    container: bool = False
    public: bool = False
    bundle: Mapping[str, Any] | None = None
    etag: str = ""
    policy: Policy | None = None
    others: tuple[Any, ...] = ()

    @property
    def tombstone(self) -> bool:
        """Whether the bundle says that the node has to leave."""
        return bool(self.bundle and self.bundle.get("tombstone"))

    @property
    def version(self) -> str:
        """The version that is stored."""
        return str((self.bundle or {}).get("configVersion") or "")

    @property
    def cluster(self) -> str:
        """The cluster whose node it is for; empty where it says none."""
        bundle = self.bundle or {}
        config = bundle.get("config")
        return cluster_of(config if isinstance(config, Mapping) else {}) or str(bundle.get("clusterId") or "")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change for one node; parts that are None or False stay."""

    kind: Kind = "unchanged"
    reasons: tuple[str, ...] = ()
    content: Mapping[str, Any] | None = None
    delete: bool = False
    policy: Policy | None = None  # the wanted one
    set_policies: bool = False
    before: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether anything is written."""
        return self.kind != "unchanged"

    @property
    def after(self) -> Mapping[str, Any]:
        """The bundle afterwards."""
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
    """The account in a URL: the first label of the host, or the path if the host is an IP address."""
    host, _slash, path = url.partition("://")[2].partition("/")
    return path.strip("/") or host.split(".")[0].split(":")[0]


def checked(name: str, document: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a document, before it is written; paths start with the node's name."""
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


def refuse_other_cluster(stored: Stored, cluster_id: str) -> None:
    """A container is named by its node alone, so it may be that of a node of another cluster."""
    other = stored.cluster
    if other and cluster_id and _plain(other) != _plain(cluster_id):
        raise StorageRefuses(
            "this bundle belongs to a node of another cluster",
            where=other,
            why=f"this run is for {cluster_id}",
            fix="use another storage account or another agent.nodeName; to move the machine, "
            "unbootstrap it first",
        )


def _plain(cluster_id: str) -> str:
    return cluster_id.strip("/").lower()


def without_token(config: Mapping[str, Any]) -> Json:
    """The configuration with a placeholder for its bootstrap token, which the machine has stored."""
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
    refuse_other_cluster(stored, cluster_of(document or {}) or cluster_id)
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
        # The token is not part of what a node follows: if only the token differs, the version stays.
        same = known is not None and canonical(without_token(known)) == canonical(without_token(wanted))
        version = stored.version if same and stored.version else next_version(stored.version, now)
        content = {"config": wanted, "configVersion": version}
        reasons.append(
            "there is none" if stored.bundle is None else "the token" if same else "the configuration"
        )
    policy, renewed = stored.policy, False
    if policy is None or policy.permission != "r":
        policy, renewed = Policy(new_policy, now + days * DAY), True
        reasons.append("the URL")
    elif policy.expires < now + days * DAY / 2:
        policy, renewed = Policy(policy.name, now + days * DAY), True
        reasons.append("the URL expires")
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
    """What `tombstone` does: the node reads it at its next poll and leaves. Its URL stays valid for that."""
    refuse_other_cluster(stored, cluster_id)
    if stored.bundle is None or stored.tombstone:
        return Plan(policy=stored.policy)
    content = {"tombstone": True, "configVersion": next_version(stored.version, now)}
    if stored.cluster:
        content["clusterId"] = stored.cluster  # it is still the bundle of a node of that cluster
    return Plan("tombstoned", ("the node has to leave",), content, policy=stored.policy, before=stored.bundle)


def decide_absent(stored: Stored, *, cluster_id: str = "") -> Plan:
    """What `absent` does: the URL becomes invalid and the bundle is deleted. The node keeps working."""
    refuse_other_cluster(stored, cluster_id)
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
