# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can only be reported: certificates that are not renewed, unit drop-ins of others, a new host name,
another machine that reports the same Node.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..components.vpn.client import certificate_in
from ..engine.records.state import Store
from ..machine.certificates import validity
from ..machine.facts import UNIT_DIRS, hostname, resolver_file
from ..machine.host import Host
from ..node_object.reporter import RENAME, By, Ids, of_another, other_reporter, reported_by
from ..node_object.this_node import ThisNode
from .other_owners import CONFLICT, foreign_units
from .record import REPORT, Finding

# A kubelet renews its certificate when 70 to 90 % of its lifetime are over.
LAST_PART = 0.1
DAY = 86400.0
OTHER_MACHINE = "machine:"  # how the key of a Node that two machines report begins
CA_DAYS = 30.0  # a CA is renewed by its owner, who needs time


def certificates(
    host: Host, client: str, ca: str, profile: str, now: float, *, renewal: str = ""
) -> Iterator[Finding]:
    """Certificates near their end: the kubelet's, which it should have renewed, the VPN's, the cluster's CA.

    client: the kubelet's certificate; empty: it has none, it uses tokens. profile: that of the VPN client.
    renewal: how the kubelet gets another certificate when its own has expired.
    """
    if client and (valid := validity(host.read(client) or b"")):
        end = valid.expires
        if end - now < (end - valid.issued) * LAST_PART:
            advice = renewal if end <= now else "journalctl -u kubelet"
            what = f"the kubelet's certificate {_ends(end, now)}, and was not renewed: {advice}"
            yield Finding(f"certificate:{client}", REPORT, what)
    block = certificate_in(host.read(profile) or b"") if profile else b""
    if (valid := validity(block)) and valid.expires - now < (valid.expires - valid.issued) * LAST_PART:
        what = (
            f"the VPN certificate {_ends(valid.expires, now)}: run playbook aks.flexnode.update; "
            "without azure.vpn.autoProvision it needs a new azure.vpn.profile"
        )
        yield Finding(f"certificate:{profile}", REPORT, what)
    if (valid := validity(host.read(ca) or b"")) and valid.expires - now < CA_DAYS * DAY:
        what = f"the cluster's CA {_ends(valid.expires, now)}: rotate it, then update node.kubelet.caCertData"
        yield Finding(f"certificate:{ca}", REPORT, what)


def _ends(end: float, now: float) -> str:
    return (
        f"{'expired' if end <= now else 'expires'} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(end))}"
    )


def drop_ins(host: Host, units: Collection[str], ours: Collection[str]) -> Iterator[Finding]:
    """Drop-ins of our units that this collection did not write: they change what runs, and stay."""
    for directory in dict.fromkeys(UNIT_DIRS):
        if directory.startswith("/lib/") and host.stat("/lib").is_ == "link":
            continue  # the same directory as below /usr
        for unit in units:
            for name in host.names(f"{directory}/{unit}.d"):
                path = f"{directory}/{unit}.d/{name}"
                if name.endswith(".conf") and path not in ours:
                    what = f"{path} of another owner changes {unit}"
                    yield Finding(f"drop-in:{path}", REPORT, what)


def rivals(host: Host, store: Store) -> Iterator[Finding]:
    """A container runtime or kubelet that others installed after the join: they must remove it."""
    for path in foreign_units(host, store):
        what = f"{path} was not installed by this collection, beside a node: {CONFLICT}; uninstall it"
        yield Finding(f"rival:{path}", REPORT, what)


def renamed(host: Host, name: str) -> Iterator[Finding]:
    """The host name differs from that of the Node, which was named after it. The Node keeps its name."""
    now = hostname(host)
    if now and now != name:
        what = (
            f"the host name is {now}, and this machine stays Node {name}, the name of its certificate: set "
            f"agent.nodeName to {name}, or the host name back; for a Node {now} unbootstrap, then bootstrap"
        )
        yield Finding(f"host-name:{now}", REPORT, what)


def resolver(host: Host, path: str) -> Iterator[Finding]:
    """The file with the name servers that pods get is gone: no new pod starts, and the Node stays Ready."""
    other = resolver_file(host)
    if other != path and not host.exists(path):
        what = (
            f"new pods can't start: {path}, from which the kubelet takes their name servers, is missing: "
            f"start systemd-resolved; if it was removed, run aks-flex-node update, which uses {other}"
        )
        yield Finding(f"resolver:{path}", REPORT, what)


def two_machines(node: ThisNode, seen: Mapping[str, Any], known: Collection[str]) -> Iterator[Finding]:
    """Another machine reports the Node of this one.

    known: what was found before. The two take turns: one that was found is looked for until its turn is over.
    """
    key = f"{OTHER_MACHINE}{node.name}"
    found: Mapping[str, Any] | None = seen
    if reported_by(seen, Ids.of(node.host)) is not By.OTHER:
        found = other_reporter(node) if key in known else None
    if found is not None:
        yield Finding(key, REPORT, f"{of_another(node.name, found)}, as well as by this one: {RENAME}")
