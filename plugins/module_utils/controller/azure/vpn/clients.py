# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates are issued, renewed and revoked, and what the gateway has to know of it.

Decides on a record in memory; nothing is written here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....node.errors import ConfigInvalid, Problem
from ....node.machine.clock import iso, moment
from .certificates import Pair, new_client, new_root
from .errors import RecordUnusable
from .plan import PREFIX, Trust, revoked_of, roots_of
from .record import ACTIVE, REPLACED, REVOKED, Client, Record

DAY = 86400.0
MOST_NAMES = 10  # in an error
NEW_ROOT = (
    "run this once for all machines with flexnode_vpn_new_root: true, or with a new root certificate of your "
    "own (flexnode_vpn_ca_certificate, flexnode_vpn_ca_key)"
)


@dataclass(frozen=True, slots=True)
class Issue:
    """The certificate of one machine: what was done about it, and why."""

    client: Client
    action: str  # unchanged, issued, renewed
    reason: str = ""

    def sentence(self) -> str:
        """What was done, in words; it names the certificate, which is no secret."""
        verb = "issue a VPN certificate for" if self.action == "issued" else "renew the VPN certificate of"
        return f"{verb} {self.client.node} ({self.reason})"


def with_root(
    record: Record | None,
    gateway: Mapping[str, Any] | None,
    gateway_id: str,
    given: Pair | None,
    now: float,
    *,
    replace: bool,
    path: str,
) -> tuple[Record, list[str]]:
    """The record with the root that signs from now on, and what changed about it, in words.

    A gateway that has our root without a record of it stops this: each run of an execution environment that
    forgets its files would issue everything anew, and nobody could revoke what came before. The same for a
    gateway that another controller made while this one was about to.
    """
    known = record or Record(gateway_id)
    ours = [print_ for print_, name in roots_of(gateway).items() if name.startswith(PREFIX)]
    if ours and not replace and not any(print_ in known.roots for print_ in ours):
        raise RecordUnusable(
            "the gateway trusts a root certificate of this collection, but there is no record of it here",
            where=path,
            why="without it nobody knows which certificates were issued, and none can be revoked",
            fix="set flexnode_vpn_directory to the directory of the earlier runs (in AWX: one that outlives "
            "a job), or restore it; if it is lost, run this once with flexnode_vpn_new_root: true: the old "
            "root is removed, and all machines get new certificates",
        )
    if given is not None:
        if known.root == given.thumbprint:
            return known, []
        _use(known, given, keep_key=False)
        return known, [f"use the given root certificate {given.thumbprint[:8].lower()}"]
    if known.root and not replace:
        return known, []
    root = new_root(gateway_id.rpartition("/")[2], now)
    _use(known, root, keep_key=True)
    return known, [f"create root certificate {root.thumbprint[:8].lower()}"]


def _use(record: Record, root: Pair, *, keep_key: bool) -> None:
    """Sign with this root from now on. The earlier one is trusted until no machine needs it."""
    record.keys.pop(record.root, None)
    record.root = root.thumbprint
    record.roots[root.thumbprint] = root.certificate
    if keep_key:
        record.keys[root.thumbprint] = root.key


def issued(
    record: Record, root: Pair, nodes: Iterable[str], renew: Iterable[str], now: float, days: int
) -> list[Issue]:
    """The certificate of each machine; new ones are added to the record."""
    asked = set(renew)
    found: list[Issue] = []
    for node in nodes:
        if root.expires <= now:
            raise RecordUnusable(
                f"root certificate {root.thumbprint[:8].lower()} has expired",
                why=f"it ended on {iso(root.expires)[:10]}, and all client certificates with it",
                fix=NEW_ROOT,
            )
        client = record.active(node)
        reason = _why_new(record, client, root, now, days, asked=node in asked)
        if client is not None and not reason:
            found.append(Issue(client, "unchanged"))
            continue
        if not root.key:
            raise RecordUnusable(
                "the key of the root certificate is not in the record",
                why="it was given to earlier runs as a variable, and is stored nowhere",
                fix="set flexnode_vpn_ca_certificate and flexnode_vpn_ca_key again, or run this once with "
                "flexnode_vpn_new_root: true",
            )
        action = "issued" if client is None else "renewed"
        fresh = record.add(node, new_client(root, node, now, days))
        found.append(Issue(fresh, action, reason))
    return found


def _why_new(record: Record, client: Client | None, root: Pair, now: float, days: int, *, asked: bool) -> str:
    """Why a machine needs a new certificate; empty: it does not."""
    if client is None:
        return "it has none"
    if asked:
        return "asked for"
    if client.root != root.thumbprint:
        return "the root certificate is another one"
    if not record.keys.get(client.thumbprint):
        return "its key is not in the record"
    ends = moment(client.expires)
    later = min(now + days * DAY, root.expires) - ends
    # A root that ends soon would make every run renew: a new certificate has to last longer than this one.
    if ends - now < days * DAY / 3 and later > DAY:
        return f"it expires on {client.expires[:10]}"
    return ""


def require_known(record: Record, nodes: Iterable[str], path: str) -> None:
    """Refuse names without any certificate: one that was mistyped would stay valid, and nobody would know."""
    if problems := unknown_nodes("gone", nodes, {one.node for one in record.clients}):
        raise ConfigInvalid(problems, where=path, fix="correct the names; nothing was revoked")


def unknown_nodes(option: str, nodes: Iterable[str], recorded: Iterable[str]) -> list[Problem]:
    """Names of an option that have no certificate, each with those that may have been meant."""
    known, problems = sorted(recorded), []
    for node in (node for node in nodes if node not in known):
        near = difflib.get_close_matches(node, known, n=3)
        some = ", ".join(near or known[:MOST_NAMES]) + (", ..." if not near and known[MOST_NAMES:] else "")
        accepted = (
            f"the name of a Node with a VPN certificate: {some}" if some else "nothing: it has no names"
        )
        hint = f"did you mean {near[0]}?" if near else "the record has no certificate of it"
        problems.append(Problem(option, repr(node), accepted, hint))
    return problems


def to_revoke(record: Record, confirmed: Iterable[str], gone: Iterable[str], now: float) -> dict[str, str]:
    """Certificates to refuse from now on, by thumbprint: replaced ones of machines that use their new one,
    and all of machines that left."""
    states: dict[str, tuple[str, ...]] = dict.fromkeys(confirmed, (REPLACED,))
    states |= dict.fromkeys(gone, (ACTIVE, REPLACED))
    return {
        one.thumbprint: one.node
        for one in record.clients
        if one.state in states.get(one.node, ()) and not one.expired(now)
    }


def settle(
    record: Record,
    confirmed: Sequence[str],
    gone: Sequence[str],
    now: float,
    gateway: Mapping[str, Any] | None,
) -> bool:
    """Note that the gateway refuses these certificates now; whether that changed the record."""
    changed = False
    for one in record.clients:
        left = one.node in gone and one.state in (ACTIVE, REPLACED)
        if left or (one.node in confirmed and one.state == REPLACED):
            one.state, changed = REVOKED, True
    record.forget_expired(now, revoked_of(gateway))
    used = {record.root, *(one.root for one in record.clients if one.state != REVOKED)}
    record.roots = {name: pem for name, pem in record.roots.items() if name in used}
    return changed


def trust_of(record: Record, revoking: Mapping[str, str], now: float, *, only_these: bool) -> Trust:
    """What the gateway has to know about the certificates of a record."""
    living = [one for one in record.clients if not one.expired(now)]
    used = {record.root} | {
        one.root for one in living if one.state != REVOKED and one.thumbprint not in revoking
    }
    return Trust(
        roots={name: record.pair(name).public_data for name in record.roots if name in used},
        revoked={**{one.thumbprint: one.node for one in living if one.state == REVOKED}, **revoking},
        unused_roots=frozenset(record.roots) - used,
        expired=frozenset(one.thumbprint for one in record.clients if one.expired(now)),
        only_these=only_these,
    )


def warnings_of(record: Record, gateway: Mapping[str, Any] | None, nodes: Iterable[str]) -> list[str]:
    """Machines whose certificate someone else revoked: it stays so until a new one is asked for."""
    refused = revoked_of(gateway)
    found = [node for node in nodes if (one := record.active(node)) and one.thumbprint in refused]
    return [
        f"the VPN certificate of {node} was revoked in Azure; a new one is issued with renew: [{node}] "
        "(flexnode_vpn_renew: true for this host)"
        for node in found
    ]


def about_end(root: Pair, now: float, days: int) -> list[str]:
    """A root certificate that ends before a new client certificate would."""
    if root.expires - now >= days * DAY:
        return []
    ends = "expired" if root.expires <= now else "ends"
    return [
        f"root certificate {root.thumbprint[:8].lower()} of the VPN {ends} on {iso(root.expires)[:10]}, and "
        f"no client certificate is valid longer: {NEW_ROOT}"
    ]


def listed(record: Record | None, now: float) -> list[dict[str, Any]]:
    """The certificates as a module returns them, without keys."""
    return [
        {
            "node": one.node,
            "thumbprint": one.thumbprint,
            "expires": one.expires,
            "state": "expired" if one.expired(now) else one.state,
        }
        for one in sorted((record.clients if record else ()), key=lambda one: (one.node, one.expires))
    ]
