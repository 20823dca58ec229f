# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundles of many nodes: all are written first, then all new URLs are waited for together."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....node.machine.clock import Clock
from ....node.secret import REDACTED
from ...cluster.bootstrap_token import timestamp
from ...parallel import in_parallel
from .account import ACTIVE_SECONDS, Account
from .bundle import (
    BLOB,
    PREFIX,
    Plan,
    Stored,
    container_of,
    decide_absent,
    decide_present,
    decide_tombstone,
    shown,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one node; the URL is a secret."""

    name: str
    plan: Plan
    url: str = ""
    version: str = ""
    etag: str = ""
    new_url: bool = False  # one that Azure does not accept at once

    def as_dict(self) -> Json:
        """The node as the module returns it."""
        policy = self.plan.policy
        return {
            "name": self.name,
            "action": self.plan.kind,
            "reasons": list(self.plan.reasons),
            "config_version": self.version,
            "etag": self.etag,
            **({"url": self.url} if self.url else {}),
            **({"url_expires": timestamp(policy.expires)} if self.url and policy else {}),
        }

    def sentence(self) -> str:
        """What was done, in words."""
        verb = {
            "created": "create the bundle of",
            "updated": "update the bundle of",
            "tombstoned": "write a tombstone for",
            "deleted": "delete the bundle of",
        }[self.plan.kind]
        return f"{verb} {self.name} ({', '.join(self.plan.reasons)})"

    def diff(self) -> Json:
        """Before and after, without secrets."""
        title = f"{container_of(self.name)}/{BLOB}"
        before, after = shown(self.plan.before), shown(self.plan.after)
        return {"before_header": title, "after_header": title, "before": before, "after": after}


def keep_all(
    account: Account,
    nodes: Sequence[tuple[str, Mapping[str, Any]]],
    options: Mapping[str, Any],
    clock: Clock,
    *,
    check: bool,
) -> list[Outcome]:
    """Bring the bundles of all nodes to the state of the options. nodes: their names and their own options.

    Azure needs half a minute for a new URL: waited for one after the other, those of a fleet take many.
    """
    outcomes = in_parallel(
        lambda node: keep(account, *node, options, clock, check=check), nodes, lambda node: node[0]
    )
    until = clock.monotonic() + ACTIVE_SECONDS
    in_parallel(
        lambda one: account.await_access(one.name, one.url, clock, until),
        [one for one in outcomes if one.new_url],
        lambda one: one.name,
    )
    return outcomes


def keep(
    account: Account,
    name: str,
    node: Mapping[str, Any],
    options: Mapping[str, Any],
    clock: Clock,
    *,
    check: bool,
) -> Outcome:
    """Write one node's bundle, if it differs."""
    now, stored = float(int(clock.now())), account.stored(name)
    cluster_id = str(node.get("cluster_id") or "")
    if options["state"] == "absent":
        plan = decide_absent(stored, cluster_id=cluster_id)
    elif options["state"] == "tombstone":
        plan = decide_tombstone(stored, now=now, cluster_id=cluster_id)
    else:
        remove = options["token"] == "remove"  # noqa: S105 - a choice
        plan = decide_present(
            stored,
            node["document"],
            remove_token=remove,
            now=now,
            days=options["days"],
            new_policy=f"{PREFIX}{secrets.token_hex(8)}",  # a revoked URL must not become valid again
            cluster_id=cluster_id,
        )
    etag = stored.etag if check or not plan.changes else account.apply(name, stored, plan)
    url = _announced(account, name, stored, plan, check=check)
    version = "" if check and plan.content is not None else str(plan.after.get("configVersion") or "")
    return Outcome(name, plan, url, version, etag, not check and _is_new(stored, plan, now))


def _is_new(stored: Stored, plan: Plan, now: float) -> bool:
    """Whether Azure refused the URL until now: there was none, or it had expired."""
    if plan.policy is None or not plan.set_policies:
        return False
    return stored.policy is None or plan.policy.name != stored.policy.name or stored.policy.expires <= now


def _announced(account: Account, node: str, stored: Stored, plan: Plan, *, check: bool) -> str:
    """The URL; in check mode a mark if the URL or its content would be new."""
    if plan.policy is None:
        return ""
    fresh = (plan.set_policies and plan.policy != stored.policy) or plan.content is not None
    return REDACTED if check and fresh else account.read_url(node, plan.policy)
