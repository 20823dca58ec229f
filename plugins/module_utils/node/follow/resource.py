# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One poll of this node's flexNodeConfig resource, with the node's own Azure identity."""

from __future__ import annotations

from ..engine.records.state import Store
from ..errors import ConfigUnreachable
from ..machine.host import Host
from ..net.answer import HttpFailure, Response
from ..sources.errors import ResourceMissing
from ..sources.flexnode_config import (
    CLUSTER_API_VERSION,
    Reply,
    Verdict,
    cluster_of,
    endpoint_of,
    is_resource,
    news_in,
    says_deleted,
    url_of,
    verdict,
)
from ..sources.watched import News, Watched
from .request import conditional, send
from .token import PollingToken, forget_token, polling_token

TOMBSTONE = News(b'{"tombstone": true}', "", "deleted")  # a deleted resource, as a blob says it
ACCEPT = {"Accept": "application/json"}


def request_resource(host: Host, store: Store, watched: Watched) -> News | None:
    """What is new in the resource; None: nothing. A tombstone: it was deleted, and the node leaves."""
    try:
        answer, token = get(host, store, watched, watched.url, conditional(watched))
    except HttpFailure as failure:
        return not_returned(host, store, watched, failure)
    if answer.status == 304:
        return None
    reply = Reply(answer.status, answer.body)
    if not is_resource(reply):
        raise ConfigUnreachable(
            "the answer is not a flexNodeConfig resource",
            where=endpoint_of(watched),
            why="another server may answer in its place (a proxy or a portal)",
        )
    news = news_in(reply, answer.headers.get("ETag", ""), watched)
    if token.refused and news is not None:
        return News(news.body, "", f"{news.digest}, new credential", renews=True)
    return news


def get(
    host: Host, store: Store, watched: Watched, url: str, headers: dict[str, str] | None = None
) -> tuple[Response, PollingToken]:
    """One request with the node's token. One that Azure refuses is replaced once: it may be outdated."""
    for attempt in (1, 2):
        token = polling_token(host, store)
        bearer = {"Authorization": f"Bearer {token.value.reveal()}"}
        try:
            return send(host, watched, "GET", url, {**ACCEPT, **(headers or {}), **bearer}), token
        except HttpFailure as failure:
            if failure.status != 401 or attempt == 2:
                raise
            forget_token(host, store)
    raise AssertionError("unreachable: the second attempt returns or raises")


def not_returned(host: Host, store: Store, watched: Watched, failure: HttpFailure) -> News:
    """The resource was not returned: a failed poll, unless it was deleted."""
    reply = Reply(failure.status, failure.body)
    if failure.status in (401, 403):
        raise HttpFailure(
            failure.url,
            f"{failure.reason}, {reply.error.code or 'no reason stated'}: the identity of this node may not "
            "read it; it needs role Reader on the cluster",
            status=failure.status,
            retry_after=failure.retry_after,
        )
    if not says_deleted(reply, watched.resource):
        raise failure
    cluster = request_cluster(host, store, watched) if watched.found else Reply(0)
    found = verdict(watched, reply, cluster, host.clock.now())
    if found is Verdict.LEAVES:
        return TOMBSTONE
    why = f"Azure Resource Manager answers {reply.error.code}"
    if found is Verdict.MISSING:
        gone = ResourceMissing(
            "the flexNodeConfig resource of this node was deleted",
            where=watched.resource,
            why=f"{why}; the node leaves the cluster if the next poll finds the same",
        )
        gone.deleted = True
        raise gone
    if watched.found:
        why += f", but its cluster does not answer as it should (HTTP {cluster.status or '-'})"
    raise ResourceMissing(
        "there is no flexNodeConfig resource of this node"
        if not watched.found
        else "the flexNodeConfig resource of this node may be deleted; the node stays",
        where=watched.resource,
        why=why,
    )


def request_cluster(host: Host, store: Store, watched: Watched) -> Reply:
    """The cluster of the resource, as far as it answers."""
    url = url_of(endpoint_of(watched), cluster_of(watched.resource), CLUSTER_API_VERSION)
    return reply_to(host, store, watched, url)


def reply_to(host: Host, store: Store, watched: Watched, url: str) -> Reply:
    """One answer; what is refused is an answer, too."""
    try:
        answer, _token = get(host, store, watched, url)
    except HttpFailure as failure:
        return Reply(failure.status, failure.body)
    return Reply(answer.status, answer.body)
