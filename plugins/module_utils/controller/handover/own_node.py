# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Node a host is, and what the controller changes there because the host asks for it. Pure.

The controller has an administrator's credential, and a machine's answer can be forged by who has root there.
So the inventory must agree: a machine chooses neither another Node nor its own taints.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...node.config.types.formats import dns_name
from ...node.config.types.labels import taints as taint_list
from ...node.config.types.setting import Refused
from ...node.config.types.values import Taint
from ..inventory.machines import Machine, section

Json = Mapping[str, Any]
UNREADABLE = "NODE"  # stands for a name that can be none of a Node


def node_names(machines: Iterable[Machine], others: Iterable[Machine] = ()) -> dict[str, list[str]]:
    """By host, the names under which the controller takes a Node for that of this host.

    The name in the inventory's document or, where the machine's host name decides, that of the host in the
    inventory, with or without its domain; never a name that another host has or may have.
    """
    run = list(machines)
    everyone = [*run, *others]
    named = {one.node for one in everyone if one.node}
    nameless = [one.host.lower() for one in everyone if not one.node]
    whole, short = Counter(nameless), Counter(map(_label, nameless))

    def may_be(host: str) -> Iterator[str]:
        if whole[host] == 1 and host not in named:
            yield host
        label = _label(host)
        if label != host and short[label] == 1 and label not in named:
            yield label

    return {one.host: [one.node] if one.node else list(may_be(one.host.lower())) for one in run}


def _label(host: str) -> str:
    """A name without its domain; an address has none."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.partition(".")[0]
    return host


def taints_in(document: Json) -> list[str]:
    """The taints of a document, as kubectl writes them. What is none is refused by the machine."""
    return [str(taint) for taint in _read(section(document, "node").get("taints") or ())]


def taint_changes(answer: Json, handover: Json, host: str) -> dict[str, Any]:
    """The taints that the controller changes after a join, of those that the machine asks for.

    answer: of flexnode_reconcile. Set are taints of the document that the controller has. Removed are taints
    that a document can have and this one has not: which ones it had before, only the machine remembers.
    refused: commands for the others, for who can tell whether they are right; why: the reason.
    """
    said, wanted = _name(section(answer, "node").get("name")), list(handover["taints"])
    asked = section(answer, "taints")
    found = {key: [one for raw in _list(asked.get(key)) for one in _read([raw])] for key in ("set", "remove")}
    kept = {_identity(taint) for taint in _read(wanted)}
    to_set = [taint for taint in found["set"] if str(taint) in wanted]
    to_remove = [taint for taint in found["remove"] if _identity(taint) not in kept]
    others = [taint for taint in found["set"] if taint not in to_set]
    if said not in handover["node_names"]:
        why = not_own(host, said, handover["node"])
        refused = list(_commands(said, found["set"], to_remove))
        return {"name": said, "set": [], "remove": [], "commands": [], "refused": refused, "why": why}
    return {
        "name": said,
        "set": [{"key": one.key, "value": one.value, "effect": one.effect} for one in to_set],
        "remove": [{"key": one.key, "effect": one.effect} for one in to_remove],
        "commands": list(_commands(said, to_set, to_remove)),
        "refused": list(_commands(said, others, [])),
        "why": f"node.taints of {host} in the inventory does not have them" if others else "",
    }


def not_own(host: str, said: str, known: str) -> str:
    """Why the controller does not take a Node for that of a host, and what to do if it is."""
    if known:
        return f"{host} is Node {known} in the inventory"
    name = said or UNREADABLE
    return (
        f"the inventory does not say that {host} is Node {name}; if it is, set agent.nodeName: {name} in "
        f"flexnode_host_config of {host}"
    )


def _commands(name: str, to_set: Iterable[Taint], to_remove: Iterable[Taint]) -> Iterator[str]:
    """What an administrator types. All parts were read by Kubernetes' rules, and mean nothing to a shell."""
    node = name or UNREADABLE
    for one in to_set:
        yield f"kubectl taint nodes {node} {one} --overwrite"
    for one in to_remove:
        yield f"kubectl taint nodes {node} {one.key}:{one.effect}-"


def _name(raw: object) -> str:
    try:
        return str(dns_name.read(raw))
    except Refused:
        return ""


def _read(raw: object) -> tuple[Taint, ...]:
    """Taints by the rules of the document, which leaves those of Kubernetes and AKS to their owners."""
    try:
        return tuple(taint_list.read(list(_list(raw))))
    except Refused:
        return ()


def _list(raw: object) -> list[Any]:
    return list(raw) if isinstance(raw, (list, tuple)) else []


def _identity(taint: Taint) -> tuple[str, str]:
    return taint.key, taint.effect
