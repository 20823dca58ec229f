# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Nodes that a module works on, and whether they are those of the machines that are meant. Pure.

Machines of two clusters may have the same name, and a kubeconfig may be of either cluster. What is known of a
machine comes from the machine itself: it can keep a Node from being changed, and does not choose one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ...node.machine.certificates import fingerprints
from .errors import OtherCluster
from .kubeconfig import Access

HTTPS = 443
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN = 8  # characters of a machine id


@dataclass(frozen=True, slots=True)
class Target:
    """A Node by its name, and what is known of its machine. Empty: not known."""

    name: str
    machine_id: str = ""
    api_server: str = ""  # as the machine reaches it
    ca_sha256: tuple[str, ...] = ()
    kubeconfig: str = ""
    image: str = ""  # of a pod that tests it

    @property
    def home(self) -> str:
        """The cluster of its machine, in words."""
        return f"the cluster of this machine{f' ({self.api_server})' if self.api_server else ''}"


def targets_of(names: Iterable[str], nodes: Iterable[Mapping[str, Any]]) -> list[Target]:
    """What the options `names` and `nodes` ask for: those that are named, else all of `nodes`."""
    known = list(dict.fromkeys(_target(node) for node in nodes))
    # Ansible splits a text at its commas and leaves the blanks.
    asked = list(dict.fromkeys(name.strip() for name in names))
    found: list[Target] = []
    for name in asked:
        found += [one for one in known if one.name == name] or [Target(name)]
    return found if asked else known


def _target(node: Mapping[str, Any]) -> Target:
    return Target(
        name=str(node["name"]).strip(),
        machine_id=str(node.get("machine_id") or ""),
        api_server=str(node.get("api_server") or ""),
        ca_sha256=tuple(str(one) for one in node.get("ca_sha256") or ()),
        kubeconfig=str(node.get("kubeconfig") or ""),
        image=str(node.get("image") or ""),
    )


def require_machine(
    target: Target, node: Mapping[str, Any], server: str, *, otherwise: str = "", proven: bool = False
) -> None:
    """Refuse a Node of another machine. A Node that never reported an id is not compared.

    otherwise: what to do if it is the right one all the same. proven: refuse it also if the machine has told
    no id: what it leaves out must not make it right.
    """
    ours = _machine_id(target.machine_id)
    theirs = _machine_id(((node.get("status") or {}).get("nodeInfo") or {}).get("machineID"))
    if not theirs or ours == theirs or not (ours or proven):
        return
    verb, mine = ("is", _short(ours)) if ours else ("may be", "told none")
    surely = f". If it is certainly the Node of this machine: {otherwise}" if otherwise else ""
    raise OtherCluster(
        f"Node {target.name} in this cluster {verb} another machine, and was not changed",
        where=server,
        why=f"the Node has the machine id {_short(theirs)}, this machine has {mine}",
        fix=f"use a kubeconfig (flexnode_kubeconfig), context or cluster id of {target.home}{surely}",
    )


def require_cluster(target: Target, access: Access, *, otherwise: str = "") -> None:
    """Refuse a cluster that has no such Node, and may not be the one of the machine.

    otherwise: what to do in its own cluster instead.
    """
    if is_cluster_of(target, access):
        return
    there = f", or type there: {otherwise}" if otherwise else ""
    raise OtherCluster(
        f"this cluster has no Node {target.name}",
        where=access.server,
        why=f"the machine belonged to {target.api_server or 'a cluster with another CA'}",
        fix="if these are two clusters, use a kubeconfig (flexnode_kubeconfig), context or cluster id of the "
        f"machine's own{there}",
    )


def is_cluster_of(target: Target, access: Access) -> bool:
    """Whether the machine reaches the same API server, or trusts the same CA; also if nobody can tell.

    One of both is enough: behind a gateway, or at a private name, a cluster has another URL.
    """
    here, there = set(fingerprints(access.ca_pem.encode())), set(target.ca_sha256)
    agree = [bool(here & there)] if here and there else []
    if target.api_server:
        agree.append(_place(target.api_server) == _place(access.server))
    return any(agree) or not agree


def _place(url: str) -> tuple[str, int]:
    """Host and port of an API server."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "").rstrip("."), parts.port or HTTPS
    except ValueError:  # of a port that is none
        return url, 0


def _machine_id(value: object) -> str:
    """A machine id in one spelling; empty: none. systemd calls one `uninitialized` before the first boot."""
    found = str(value or "").strip().lower().replace("-", "")
    return found if _MACHINE_ID.fullmatch(found) else ""


def _short(machine_id: str) -> str:
    return f"{machine_id[:_SHOWN]}..."
