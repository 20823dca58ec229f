# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this machine polls (a durable URL, or its flexNodeConfig resource), and what was last seen there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..dataclass import dataclass, field, replace

MACHINES = "/machines/"  # in the id of a machine of a FlexNodes pool
REPLACED = "replaced"
LONGEST = 3600.0  # seconds: the longest pause, whatever Retry-After says and however often something failed

DIGITS = 20  # of a version that is a number; Python refuses to read very long ones


@dataclass(frozen=True)
class News:
    """A bundle as it was received."""

    body: bytes
    etag: str
    digest: str
    renews: bool = False  # the credential of this node is refused: the bundle has to come with a new one
    registers: bool = False  # the Node does not exist: the kubelet has to start, to register it
    waiting: str = ""  # what is new besides, and has to wait


@dataclass(frozen=True)
class Blocked:
    """A bundle that was refused, or failed: it is not retried at every poll."""

    digest: str
    version: str | None
    code: str
    message: str
    attempts: int = 1
    retry_at: float | None = None  # None: never, only a new bundle helps

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Blocked | None:
        """From source.json."""
        if not stored:
            return None
        return cls(
            stored.get("digest", ""),
            stored.get("configVersion"),
            stored.get("code", ""),
            stored.get("message", ""),
            stored.get("attempts", 1),
            stored.get("retryAt"),
        )

    def as_dict(self) -> dict[str, Any]:
        """For source.json."""
        return {
            "digest": self.digest,
            "configVersion": self.version,
            "code": self.code,
            "message": self.message,
            "attempts": self.attempts,
            "retryAt": self.retry_at,
        }


@dataclass(frozen=True)
class Watched:
    """source.json: the URL with everything needed to request it, in one small file that a poll reads."""

    url: str
    ca: str = ""
    over: Mapping[str, Any] = field(default_factory=dict)  # explicit settings, merged over the bundle
    proxy: Mapping[str, Any] = field(default_factory=dict)
    etag: str = ""
    digest: str = ""  # of the last bundle
    version: str | None = None
    settled: bool = False  # the last bundle was applied or refused; otherwise it is requested in full again
    not_before: float = 0.0  # no request before this time (Retry-After)
    blocked: Blocked | None = None
    resource: str = ""  # the id of the flexNodeConfig resource at `url`; empty: the URL of a bundle
    found: bool = False  # the resource was there once: only then can it have been deleted
    missing_since: float = 0.0  # when Azure first said that it is deleted
    deleting: bool = False  # AKS marked the Node of this machine as being deleted; it removes the Node later
    marked: str = ""  # the uid of that Node; REPLACED: a boot has registered another one since
    waiting: str = ""  # what is new and not applied yet, and what it waits for
    older: str = ""  # the version of an outdated copy that was returned after `version`, and ignored
    earlier: Blocked | None = None  # refused before the applied bundle was there again: a cache may return it

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Watched | None:
        """From source.json; None: there is no URL to poll."""
        if not stored or not stored.get("url"):
            return None
        return cls(
            url=stored["url"],
            ca=stored.get("ca", ""),
            over=stored.get("over", {}),
            proxy=stored.get("proxy", {}),
            etag=stored.get("etag", ""),
            digest=stored.get("digest", ""),
            version=stored.get("configVersion"),
            settled=stored.get("settled", False),
            not_before=stored.get("notBefore", 0.0),
            blocked=Blocked.of(stored.get("blocked")),
            resource=stored.get("resource", ""),
            found=stored.get("found", False),
            missing_since=stored.get("missingSince", 0.0),
            deleting=stored.get("deleting", False),
            marked=stored.get("marked", ""),
            waiting=stored.get("waiting", ""),
            older=stored.get("older", ""),
            earlier=Blocked.of(stored.get("earlier")),
        )

    def as_dict(self) -> dict[str, Any]:
        """For source.json."""
        return {
            "url": self.url,
            "ca": self.ca,
            "over": self.over,
            "proxy": self.proxy,
            "etag": self.etag,
            "digest": self.digest,
            "configVersion": self.version,
            "settled": self.settled,
            "notBefore": self.not_before,
            "blocked": self.blocked and self.blocked.as_dict(),
            **(
                {"resource": self.resource, "found": self.found, "missingSince": self.missing_since}
                if self.resource
                else {}
            ),
            # Only machines of a pool have these.
            **({"deleting": True} if self.deleting else {}),
            **({"marked": self.marked} if self.marked else {}),
            **({"waiting": self.waiting} if self.waiting else {}),
            **({"older": self.older} if self.older else {}),
            **({"earlier": self.earlier.as_dict()} if self.earlier else {}),
        }

    def knows(self, news: News, now: float) -> bool:
        """Whether a bundle was settled, or is blocked for now."""
        if self.settled and news.digest == self.digest:
            return True
        if self.earlier and self.earlier.digest == news.digest:
            return True
        if self.blocked is None or self.blocked.digest != news.digest:
            return False
        return self.blocked.retry_at is None or pausing(self.blocked.retry_at, now)

    def recalls(self, news: News) -> Watched:
        """The same, with a bundle that was refused earlier as the last one, if this is that bundle."""
        if self.earlier is None or self.earlier.digest != news.digest:
            return self
        return replace(
            self,
            etag=news.etag,
            digest=news.digest,
            version=self.earlier.version,
            settled=True,
            blocked=self.earlier,
            earlier=None,
        )

    def still_refused(self) -> Blocked | None:
        """What stays refused after the applied bundle was there again: all that no newer version replaces."""
        refused = self.blocked or self.earlier
        if refused is None or refused.retry_at is not None or refused.digest == self.digest or self.resource:
            return None
        return None if is_older(refused.version, self.version) else refused


def is_machine(resource: str) -> bool:
    """Whether a resource id is that of a machine of a FlexNodes pool; otherwise it is a flexNodeConfig."""
    return MACHINES.lower() in resource.lower()


def pausing(until: float, now: float) -> bool:
    """Whether a pause lasts; one longer than the longest was recorded with a wrong clock, and is over."""
    return 0 < until - now <= LONGEST


def version_in(body: bytes) -> str:
    """The configVersion of a bundle; empty: it has none, or this is no bundle."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    version = found.get("configVersion") if isinstance(found, dict) else None
    return str(version) if isinstance(version, (str, int)) else ""


def is_older(version: str | None, than: str | None) -> bool:
    """Whether a version is older than another one: they are unix seconds. Other versions have no order."""
    number, other = _number(version or ""), _number(than or "")
    return number is not None and other is not None and number < other


def _number(version: str) -> int | None:
    return int(version) if version.isascii() and version.isdigit() and len(version) <= DIGITS else None


def digest_of(content: bytes) -> str:
    """The sha256 of a bundle."""
    return hashlib.sha256(content).hexdigest()
