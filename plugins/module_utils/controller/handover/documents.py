# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each machine gets the configuration that was resolved on the controller. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...node.catalogue.artifacts import Catalogue
from ...node.config.document import merge, unwrap
from ...node.errors import ConfigInvalid, Problem, shown
from ...node.secret import REDACTED
from ...on_machine.arc_request import arc_proxy
from ..inventory.machines import RESOLVED, Machine
from ..needs.arc import request_of
from ..needs.vpn import vpn_of
from .own_node import taints_in

Document = Mapping[str, Any]
Answers = Iterable[Mapping[str, Any]]  # of a module: one per node, with its name
NOTHING: Sequence[Mapping[str, Any]] = ()
WITH_SOURCE = ("azure", "azureAuth", "continuousMonitoring", "kubernetesAuth")


def with_clusters(machines: Iterable[Machine], clusters: Answers, tokens: Answers) -> dict[str, Document]:
    """By host: its settings over what its cluster determines, with the token that was created for it.

    A node that has joined has its own credentials: the placeholder stands for what is stored there.
    """
    by_id = {str(cluster["id"]).lower(): cluster["document"] for cluster in clusters}
    created = _by_node(tokens)
    completed: dict[str, Document] = {}
    for machine in machines:
        document = merge(by_id.get(machine.cluster_id.lower(), {}), machine.document)
        answer = _about(machine, created)
        if answer is not None and machine.wants_token:
            token = {"azure": {"bootstrapToken": {"token": answer.get("token") or REDACTED}}}
            document = merge(token, document)  # a token in the inventory takes precedence
        completed[machine.host] = document
    return completed


def taken_names(machines: Iterable[Machine], answers: Answers, new: Container[str]) -> dict[str, str]:
    """By host, why it can't join: its Node is Ready, on another machine as far as anyone can tell.

    answers: of the modules that look for Nodes. new: hosts that say themselves that they have not joined.
    Only those that would need a token are refused: with an identity of its own, a machine can repair itself.
    """
    by_node, found = _by_node(answers), {}
    for machine in machines:
        answer = _about(machine, by_node) or {}
        ready = answer.get("action") == "refused" if machine.source == "rp" else answer.get("joined")
        if ready and machine.host in new and machine.wants_token:
            name = machine.node
            hint = f"Node {name} is Ready, and this machine has not joined"
            problem = Problem("agent.nodeName", shown(name), "another name", hint)
            fix = (
                f"if another machine is Node {name}, set another agent.nodeName for this host "
                "(flexnode_host_config). If this machine was installed anew, or /var/lib/aks-flex-node was "
                f"deleted, delete the Node: kubectl delete node {name}. Then run this again"
            )
            found[machine.host] = str(ConfigInvalid([problem], fix=fix))
    return found


def handovers(
    machines: Iterable[Machine],
    *,
    documents: Mapping[str, Document],
    configs: Answers = NOTHING,
    blobs: Answers = NOTHING,
    tokens: Answers = NOTHING,
    pools: Mapping[str, Document] | None = None,
) -> dict[str, dict[str, Any]]:
    """By host: the options of the modules that obtain the configuration on the machine, and of Azure Arc.

    documents: the completed ones, of source `cluster`. configs, blobs, tokens: what the modules returned.
    pools: by host, how a machine of a FlexNodes pool gets its configuration.
    """
    by_config, by_blob, by_token = _by_node(configs), _by_node(blobs), _by_node(tokens)
    found: dict[str, dict[str, Any]] = {}
    for machine in machines:
        document = documents.get(machine.host, machine.document)
        config, blob = _about(machine, by_config), _about(machine, by_blob)
        if pools and machine.host in pools:
            options = dict(pools[machine.host])
            document = unwrap(options["document"])[0]
        elif config is not None and machine.source == "rp":
            options = {**_url(config.get("config_url"), bool(config.get("joined"))), "document": document}
        elif blob is not None and machine.source == "blob":
            joined = bool((_about(machine, by_token) or {}).get("joined"))
            url = _url(blob.get("url"), joined)
            options = {**url, "durable": True, "document": {}}  # the blob holds the whole document
        elif machine.source == "url":
            options = {
                "source": "url",
                "url": machine.url,
                "durable": machine.durable,
                "document": machine.document,
            }
        else:
            options = {"source": "inline", "document": document}
        found[machine.host] = {
            "url": "",
            "durable": False,
            **options,
            "node": machine.node,
            "taints": options.get("taints", taints_in(document)),
            "origin": machine.source,
            # Its Node can be changed with the Azure login that resolved this source.
            "cluster_id": machine.cluster_id if machine.source in RESOLVED else "",
            "arc": request_of(document, machine.cluster_id, machine.node or machine.host),
            "arc_proxy": arc_proxy(document),
            "vpn": uses_vpn(document),
        }
    return found


def on_their_own(machines: Iterable[Machine]) -> dict[str, dict[str, Any]]:
    """By host: what a machine can be checked with before its source is asked, as far as the inventory says.

    What concerns Azure is complete only with the source's part. So is the version: the oldest one stands for
    it, which most machines can run and a mirror need not have. The join checks again, with all of it.
    """
    oldest = {"kubernetes": {"version": Catalogue().versions("kubelet")[0]}}
    found = {}
    for one in machines:
        own = {part: value for part, value in one.document.items() if part not in WITH_SOURCE}
        found[one.host] = {
            "source": "inline",
            "url": "",
            "durable": False,
            "document": merge(oldest, own),
            "purpose": "prepare",
            "placeholders": ["secrets-missing", "artifact-unknown", "kube-proxy"],
        }
    return found


def urls_of(machines: Iterable[Machine], answers: Answers, key: str) -> dict[str, str]:
    """By Node, or by host where its name is not known, the URL of each machine that got one."""
    by_node, found = _by_node(answers), {}
    for one in machines:
        name = one.node or one.host
        answer = _about(replace(one, node=name), by_node) or {}
        if url := answer.get(key):
            found[name] = str(url)
    return found


def uses_vpn(document: Document) -> bool:
    """Whether a machine reaches its cluster through a VPN; the document behind a URL is not known here."""
    return vpn_of(document).get("enabled") is True


def _by_node(answers: Answers) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Answers by Node and cluster: two clusters may have Nodes of one name."""
    return {(str(one["name"]), str(one.get("cluster_id") or "").lower()): one for one in answers}


def _about(
    machine: Machine, answers: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The answer about a machine. Answers about blobs name no cluster: a blob is found by its Node alone."""
    return answers.get(machine.key) or answers.get((machine.node, ""))


def _url(url: str | None, joined: bool) -> dict[str, Any]:
    """Without a URL nothing is new: the machine keeps the document that it has.

    In check mode a URL is only announced; a node that has joined can be compared without it.
    """
    if not url or (url == REDACTED and joined):
        return {"source": "stored"}
    return {"source": "pending"} if url == REDACTED else {"source": "url", "url": url}
