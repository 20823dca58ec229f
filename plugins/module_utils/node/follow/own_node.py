# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node of a pool looks at in every poll: its certificate, its Node, and when Azure is asked next.

The document is read as data: parsing it costs more than all the rest of a poll.
"""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ..drift.certificate import Document, below, certificate_file, uses_certificate
from ..errors import ApiUnreachable, FlexNodeError
from ..machine.host import Host
from ..machine.layout import RUN_DIR
from ..net.answer import HttpFailure
from ..net.short_request import short_get
from ..net.tls import in_words, tls_context
from ..sources.machine_answers import NodeIs, interval, marked, node_is
from ..sources.machines import goal_of_document
from ..sources.watched import Watched, pausing

ASKED = f"{RUN_DIR}/machine-asked"  # in memory: a boot makes a request due. By the kernel's monotonic time
DIFFERENT_SECONDS = 30.0
TIMEOUT = 5.0  # seconds: the next poll is soon


def read_node(host: Host, document: Document, name: str) -> dict[str, Any] | None:
    """The Node; None: it does not exist. One attempt."""
    kubelet = below(document, "node", "kubelet")
    if not uses_certificate(document):
        from ..config.parse import parse  # slow; only a kubelet with tokens needs all of it
        from ..node_object.this_node import ThisNode

        return ThisNode.of(host, parse(document, pollable=True)).read(attempts=1)
    try:
        stored = base64.b64decode("".join(str(kubelet.get("caCertData") or "").split()))
    except ValueError as error:
        raise FlexNodeError("the stored CA of the cluster is damaged", why=str(error)) from error
    server, path = str(kubelet.get("serverURL") or "").rstrip("/"), host.path(certificate_file(document))
    unknown = ApiUnreachable("the API server does not return the Node of this machine", where=server)
    try:
        context = tls_context(cadata=stored.decode("ascii", "ignore"))  # only comments are not ASCII
        context.load_cert_chain(path)  # may fail for a moment: the kubelet replaces it
        url = f"{server}/api/v1/nodes/{urllib.parse.quote(name, safe='')}"
        answer = short_get(url, {"Accept": "application/json"}, context=context, timeout=TIMEOUT)
        found = json.loads(answer.body) if answer else None
    except HttpFailure as failure:
        if failure.status == 404:
            return None
        unknown.why = failure.reason
        raise unknown from failure
    except (OSError, ValueError) as error:
        unknown.why = in_words(error)
        raise unknown from error
    if not isinstance(found, dict) or "metadata" not in found:
        unknown.why = "the answer is not a Node"
        raise unknown
    return found


def look(host: Host, watched: Watched, document: Mapping[str, Any]) -> tuple[NodeIs, Watched, str]:
    """The Node of this machine, what is known with it of a deletion by AKS, and why it is not known."""
    try:
        node = read_node(host, document, watched.resource.rpartition("/")[2])
    except FlexNodeError as error:
        return NodeIs.UNKNOWN, watched, f"{error.what}: {error.why}"
    found = node_is(node, goal_of_document(document))
    return found, marked(watched, found, str(below(node or {}, "metadata").get("uid") or "")), ""


def is_due(host: Host, watched: Watched, node: NodeIs, *, failing: bool) -> bool:
    """Whether Azure is asked now: after an interval, or because the Node says that something happens.

    failing: the last poll failed; an end of that is noticed soon.
    """
    if pausing(watched.not_before, host.clock.now()):
        return False
    known = watched.found and watched.settled  # otherwise the first request since a join, or after a change
    busy = watched.deleting or bool(watched.missing_since) or failing or not known
    if busy or node in (NodeIs.ABSENT, NodeIs.DELETING):
        return True
    try:
        age = host.clock.monotonic() - float(host.text(ASKED))
    except ValueError:
        return True
    # A Node that differs may have been changed by AKS; if not, the drift check repairs it.
    limit = DIFFERENT_SECONDS if node is NodeIs.DIFFERENT else interval(watched.resource)
    return not 0 <= age < limit


def note_asked(host: Host) -> None:
    """Azure has answered right now."""
    host.make_directories(RUN_DIR, 0o700)
    host.write(ASKED, f"{host.clock.monotonic():.0f}\n".encode(), 0o600, durable=False)
