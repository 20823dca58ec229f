# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bootstrap token of a FlexNodes pool. Any machine can join with it: it does not stay on one that has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..components.kubelet import bootstrap_file
from ..config.parse import parse
from ..engine.records.state import Phase, Store
from ..errors import StateCorrupt
from ..node_object.certificate import is_expired
from ..node_object.this_node import ThisNode
from ..secret import REDACTED

Document = Mapping[str, Any]


def is_of_pool(document: Document) -> bool:
    """Whether a document is that of a node of a FlexNodes pool."""
    return bool((document.get("azure") or {}).get("targetAgentPoolName"))


def without_token(document: Document) -> dict[str, Any]:
    """The same document without its bootstrap token."""
    azure = {key: value for key, value in (document.get("azure") or {}).items() if key != "bootstrapToken"}
    return {**document, "azure": azure} if "azure" in document else dict(document)


def without_placeholder(document: Document) -> dict[str, Any]:
    """A document that was shown has a placeholder for its token, also after the token was removed."""
    token = ((document.get("azure") or {}).get("bootstrapToken") or {}).get("token")
    return without_token(document) if is_of_pool(document) and token == REDACTED else dict(document)


def is_unneeded(node: ThisNode, store: Store) -> bool:
    """Whether a node of a pool has joined, and can go on with its certificate."""
    try:
        joined = store.state()["phase"] == Phase.NODE_JOINED.value
    except StateCorrupt:
        return False
    of_pool = node.config.azure.target_agent_pool_name is not None
    return of_pool and joined and node.has_credential and not is_expired(node)


def retire_token(document: Document, node: ThisNode, store: Store) -> Document:
    """Remove the token of a pool from the machine: the join is done. Returns the document without it.

    The caller stores that document. A run that is killed in between does both again.
    """
    if not is_of_pool(document) or node.config.azure.bootstrap_token is None:
        return document
    document = without_token(document)
    file = bootstrap_file(parse(document, pollable=True), restarts=())
    if file.difference(file.observe(node.host)):
        store.journal.record([file])
        file.apply(node.host)
    return document
