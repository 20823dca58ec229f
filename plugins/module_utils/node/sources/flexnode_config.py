# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flexNodeConfig resource of a node in Azure: its id, its URLs, and what its answers mean. Pure."""

from __future__ import annotations

import enum
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ..dataclass import dataclass
from .arm_answers import ArmError, Missing, missing, nouns_in, quoted_id
from .watched import News, Watched, digest_of, is_older

API_VERSION = "2026-05-01-preview"
CLUSTER_API_VERSION = "2025-05-01"
KIND = "/flexNodeConfig/"
# Azure's servers do not all learn of a change at one moment: the second answer must be a later one.
GAP = 15.0
SETTLED = "Succeeded"


def resource_id(cluster_id: str, node: str) -> str:
    """The id of a node's resource."""
    return f"{cluster_id}{KIND}{node}"


def url_of(endpoint: str, resource: str, version: str = API_VERSION, action: str = "") -> str:
    """The URL of a resource at Azure Resource Manager."""
    path = urllib.parse.quote(f"{resource}{action}", safe="/()")
    return f"{endpoint.rstrip('/')}{path}?api-version={version}"


def cluster_of(resource: str) -> str:
    """The id of the cluster that a node's resource belongs to."""
    return resource[: max(resource.lower().rfind(KIND.lower()), 0)]


def endpoint_of(watched: Watched) -> str:
    """The Azure Resource Manager that a resource is polled at."""
    parts = urllib.parse.urlsplit(watched.url)
    return f"{parts.scheme}://{parts.netloc}"


def same_server(url: str, other: str) -> bool:
    """Whether both URLs lead to one server by HTTPS."""
    one, two = (urllib.parse.urlsplit(text) for text in (url, other))
    try:
        ports = {one.port or 443, two.port or 443}
    except ValueError:
        return False
    return one.scheme == two.scheme == "https" and one.hostname == two.hostname and len(ports) == 1


@dataclass(frozen=True)
class Reply:
    """An answer of Azure Resource Manager; status 0: there was none."""

    status: int
    body: bytes = b""

    @property
    def document(self) -> Mapping[str, Any]:
        """The answer as data; empty if it is not a JSON object, as those of proxies and portals."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def error(self) -> ArmError:
        """What it says as an error; without a code if it is not one of Azure's."""
        return ArmError.of(self.status, self.document)


def says_deleted(reply: Reply, resource: str) -> bool:
    """Whether Azure says that this resource does not exist: not a bare 404, and not about another one.

    Nobody outside of Azure has seen this API: a ResourceNotFound that quotes nothing may be what it says. One
    that quotes a name counts no more: a cluster or a group may be called as the node is.
    """
    error = reply.error
    by_aks = error.code == "NotFound" and nouns_in(error) == {"flexnodeconfig"}
    by_gateway = error.code == "ResourceNotFound" and (bool(quoted_id(error)) or "'" not in error.message)
    return (by_aks or by_gateway) and missing(error, resource) is Missing.ITSELF


def is_cluster(reply: Reply, resource: str) -> bool:
    """Whether an answer is this resource's cluster itself: a captive portal answers 200 to everything."""
    return reply.status == 200 and str(reply.document.get("id", "")).lower() == cluster_of(resource).lower()


class Verdict(enum.Enum):
    """What a resource that was not returned means for its node."""

    STAYS = "stays"  # a failed poll
    MISSING = "missing"  # it may have been deleted: the next poll decides
    LEAVES = "leaves"


def verdict(watched: Watched, resource: Reply, cluster: Reply, now: float) -> Verdict:
    """Decide whether a node leaves: Azure said twice that its resource is deleted, and the cluster is there.

    One mistake on a server must not remove a fleet: everything else is a failed poll.
    """
    if not watched.found or not says_deleted(resource, watched.resource):
        return Verdict.STAYS
    if not is_cluster(cluster, watched.resource):
        return Verdict.STAYS
    since = now - watched.missing_since
    if not watched.missing_since or since < 0:  # the clock was set back: begin again
        return Verdict.MISSING
    return Verdict.LEAVES if since >= GAP else Verdict.MISSING


def is_resource(reply: Reply) -> bool:
    """Whether an answer is a flexNodeConfig resource."""
    properties = reply.document.get("properties")
    return isinstance(properties, dict) and isinstance(properties.get("config"), dict)


def news_in(reply: Reply, etag: str, watched: Watched) -> News | None:
    """What is new in a resource, as a bundle without secrets; None: nothing.

    It is being written, or it is older than what was seen before: one of Azure's servers lags behind.
    """
    properties = reply.document["properties"]
    if str(properties.get("provisioningState", SETTLED)).lower() != SETTLED.lower():
        return None
    version = str(properties.get("configVersion") or "")
    if is_older(version, watched.version):
        return None
    bundle = {"config": properties["config"], **({"configVersion": version} if version else {})}
    body = json.dumps(bundle, sort_keys=True).encode()
    return News(body, etag, digest_for(version) or digest_of(body))


def digest_for(version: str | None) -> str:
    """What identifies a version of a resource: its number, because its secrets are not shown."""
    return f"version {version}" if version else ""
