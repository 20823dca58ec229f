# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of a followed resource: Azure does not show them, so those on the machine stay.

A changed one comes with a new configUrl, which the node requests while its old credential is still valid.
"""

from __future__ import annotations

import enum
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ..config.document import canonical, carry_secrets, loads, merge
from ..dataclass import replace
from ..engine.records.state import Store
from ..errors import ConfigUnreachable, FlexNodeError
from ..machine.host import Host
from ..net.answer import HttpFailure, Response, retry_after
from ..sources.errors import CredentialMissing
from ..sources.flexnode_config import digest_for, endpoint_of, same_server, url_of
from ..sources.watched import News, Watched
from .request import send
from .token import polling_token

Document = Mapping[str, Any]
FILES = ("clientSecretFile", "clientCertificateFile")
LONGEST_WAIT = 60.0  # seconds that Azure may take to create a new URL
PAUSE = 2.0


class Needed(enum.Enum):
    """Whether a new credential has to be requested."""

    NO = "no"
    MAYBE = "maybe"  # the version is new and nothing else is: then a secret is what changed
    YES = "yes"


def credential_needed(document: Document, stored: Document | None, over: Document) -> Needed:
    """Decide by what Azure shows: the document without secrets, beside the stored one with them."""
    principal = _principal(document)
    if principal is None or any(principal.get(name) for name in FILES):
        return Needed.NO
    known = _principal(stored or {})
    if known is None or not known.get("clientSecret"):
        return Needed.YES
    same = all(
        str(principal.get(name, "")).lower() == str(known.get(name, "")).lower()
        for name in ("clientId", "clientTenant")
    )
    if not same:
        return Needed.YES
    unchanged = canonical(merge(carry_secrets(document, stored or {}), over)) == canonical(stored or {})
    return Needed.MAYBE if unchanged else Needed.NO


def _principal(document: Document) -> dict[str, Any] | None:
    found = (merge(document, {}).get("azure") or {}).get("servicePrincipal")
    return dict(found) if isinstance(found, Mapping) and found else None


def with_secrets(
    host: Host, store: Store, watched: Watched, bundle: Document, news: News
) -> tuple[Document, Watched]:
    """The bundle of a resource with its secrets, and the version that it has now."""
    document = bundle.get("config")
    stored, _intact = store.remembered()
    if not isinstance(document, Mapping):
        return bundle, watched
    needed = Needed.YES if news.renews else credential_needed(document, stored, watched.over)
    if needed is not Needed.NO:
        try:
            return renewed(host, store, watched)
        except (CredentialMissing, ConfigUnreachable):
            if needed is Needed.YES:
                raise
            # Nobody knows whether a secret changed at all: the stored one is used while it works.
    return {**bundle, "config": carry_secrets(document, stored or {})}, watched


def renewed(host: Host, store: Store, watched: Watched) -> tuple[Document, Watched]:
    """A new bundle with all secrets, by regenerateToken and its configUrl."""
    issued = regenerate(host, store, watched)
    url, version = str(issued.get("configUrl") or ""), str(issued.get("configVersion") or "")
    if urllib.parse.urlsplit(url).scheme != "https":
        raise CredentialMissing(
            "Azure returned no URL for the new credential", where=watched.resource, why="configUrl is missing"
        )
    try:
        answer = send(host, watched, "GET", url, {})
    except HttpFailure as failure:
        raise ConfigUnreachable(
            "the new credential of this node can't be fetched", where=failure.url, why=failure.reason
        ) from failure
    bundle = loads(answer.body, where=f"the configUrl of {watched.resource}")
    version = str(bundle.get("configVersion") or version)
    return bundle, replace(watched, version=version or None, digest=digest_for(version), etag="")


def regenerate(host: Host, store: Store, watched: Watched) -> dict[str, Any]:
    """Call regenerateToken with the node's present identity, and wait for its answer."""
    url = url_of(endpoint_of(watched), watched.resource, action="/regenerateToken")
    answer = call(host, store, watched, "POST", url)
    deadline = host.clock.monotonic() + LONGEST_WAIT
    while answer.status == 202:
        following = answer.headers.get("Location") or ""
        if not same_server(following, watched.url):
            break  # the token is sent nowhere else
        if host.clock.monotonic() >= deadline:
            break
        asked = retry_after(answer.headers, host.clock.now())
        host.clock.sleep(min(asked or PAUSE, LONGEST_WAIT))
        answer = call(host, store, watched, "GET", following)
    try:
        found = json.loads(answer.body)
        if answer.status == 200 and isinstance(found, dict):
            return found
    except ValueError:
        pass
    raise CredentialMissing(
        "Azure did not issue a new credential",
        where=watched.resource,
        why=f"regenerateToken answered HTTP {answer.status}",
    )


def call(host: Host, store: Store, watched: Watched, method: str, url: str) -> Response:
    """One call with the node's token; what Azure refuses is explained."""
    headers = {
        "Authorization": f"Bearer {polling_token(host, store).value.reveal()}",
        "Content-Type": "application/json",
        "Accept": "application/json",
    }
    try:
        return send(host, watched, method, url, headers, b"{}" if method == "POST" else None)
    except HttpFailure as failure:
        error: type[FlexNodeError] = CredentialMissing if failure.final else ConfigUnreachable
        raise error(
            "a new credential of this node can't be requested", where=failure.url, why=failure.reason
        ) from failure
