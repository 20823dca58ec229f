# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet on the controller: what the inventory says of each machine, and what each is handed in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...node.config.choices import choices_of
from ...node.config.document import merge
from ...node.secret import REDACTED

Document = Mapping[str, Any]
Answers = Iterable[Mapping[str, Any]]  # of a module: one a node, with its name
RESOLVED = (
    "rp",
    "cluster",
    "blob",
)  # sources that are resolved here; what they answer is told apart by names


def node_documents(
    hosts: Iterable[str],
    hostvars: Mapping[str, Document],
    sources: Sequence[str] = (),
    documents: bool = True,
    tokens: bool = False,
) -> list[dict[str, Any]]:
    """The hosts (of some sources), each with the name of its Node, its cluster and its own settings.

    With `tokens`, each says whether it joins with a bootstrap token.
    """
    by_host = {host: hostvars[host].get("flexnode_config_source", "inline") for host in hosts}
    counting = {*sources, *RESOLVED} if sources else set(by_host.values())
    everyone = [(of_host(host, hostvars[host]), of) for host, of in by_host.items() if of in counting]
    names = Counter(node["name"] for node, _source in everyone)
    if twice := sorted(name for name, hosts_of_it in names.items() if hosts_of_it > 1):
        raise ValueError(
            f"several hosts of this run are Node {', '.join(twice)}: give each an agent.nodeName, or run a"
            " cluster at a time (-l)"
        )
    found = [node for node, source in everyone if not sources or source in sources]
    if tokens:
        found = [{**node, "token": joins_with_token(node["document"])} for node in found]
    kept = {"name", "cluster_id", *(["document"] if documents else []), *(["token"] if tokens else [])}
    return [{key: value for key, value in node.items() if key in kept} for node in found]


def of_host(host: str, variables: Document) -> dict[str, Any]:
    """One host. Its Node is called as the inventory calls it, unless its configuration says otherwise."""
    if variables.get("flexnode_config_file") and variables.get("flexnode_config_source") in ("rp", "blob"):
        source = variables["flexnode_config_source"]
        raise ValueError(
            f"{host}: flexnode_config_file is not read for source {source}, which is written from variables:"
            " put its content into flexnode_config"
        )
    document = merge(variables.get("flexnode_config") or {}, variables.get("flexnode_host_config") or {})
    name = (document.get("agent") or {}).get("nodeName") or host
    target = (document.get("azure") or {}).get("targetCluster") or {}
    return {
        "name": name,
        "cluster_id": variables.get("flexnode_cluster_id") or target.get("resourceId") or "",
        "document": merge(document, {"agent": {"nodeName": name}}),
    }


def joins_with_token(document: Document) -> bool:
    """Whether a token is to be had for a machine: it brings no identity of its own, or is told to use one."""
    return choices_of(document).wants_token


def with_clusters(nodes: Answers, clusters: Answers, tokens: Answers) -> list[dict[str, Any]]:
    """Each node's settings over what its cluster says; a token where one was minted.

    A node that has joined has its own credentials: the placeholder stands for what is stored there.
    """
    by_id = {cluster["id"].lower(): cluster["document"] for cluster in clusters}
    minted = {answer["name"]: answer.get("token") or REDACTED for answer in tokens}
    completed = []
    for node in nodes:
        document = merge(by_id.get(node["cluster_id"].lower(), {}), node["document"])
        if node["name"] in minted and joins_with_token(node["document"]):
            token = {"azure": {"bootstrapToken": {"token": minted[node["name"]]}}}
            document = merge(token, document)  # a token that the user gave is the one that counts
        completed.append({**node, "document": document})
    return completed


def handed_over(
    rp: Answers, cluster: Answers, blob: Answers, tokens: Answers = ()
) -> dict[str, dict[str, Any]]:
    """By the name of its Node: how each machine gets its configuration."""
    joined = {answer["name"] for answer in tokens if answer.get("joined")}
    return {
        **{node["name"]: _announced(node.get("config_url"), bool(node.get("joined"))) for node in rp},
        **{node["name"]: {"source": "inline", "document": node["document"]} for node in cluster},
        **{
            node["name"]: {**_announced(node.get("url"), node["name"] in joined), "durable": True}
            for node in blob
        },
    }


def _announced(url: str | None, joined: bool) -> dict[str, Any]:
    """In check mode an address is only announced; a node that has joined can be compared without it."""
    return {"source": "stored"} if url == REDACTED and joined else _address(url)


def _address(url: str | None) -> dict[str, Any]:
    """Without an address there is nothing new: the machine goes by what it has. One may be announced only."""
    if url == REDACTED:
        return {"source": "pending"}
    return {"source": "url", "url": url} if url else {"source": "stored"}


COLUMNS = (
    ("NODE", "name"),
    ("STATE", "provisioning_state"),
    ("READY", "ready"),
    ("VERSION", "config_version"),
    ("APPLIED", "applied_config_version"),
    ("LAST SEEN", "last_seen"),
    ("REASON", "reason"),
)


def table(nodes: Answers, columns: Sequence[Sequence[str]] = COLUMNS) -> list[str]:
    """Lines that a person reads: a column is as wide as its widest word."""
    rows = [[title for title, _key in columns]]
    rows += [[_word(node.get(key)) for _title, key in columns] for node in nodes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None or value == "" else str(value)
