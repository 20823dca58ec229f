# SPDX-License-Identifier: GPL-3.0-or-later
"""An operation of Resource Manager: where it is, what it needs, what it does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from testbed.azure.arm import errors
from testbed.azure.behaviour.faults import Fault
from testbed.azure.cloud import Cloud
from testbed.azure.sign_in.directory import Principal

ANY_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-\w+)?")


@dataclass(frozen=True)
class Answer:
    """What a client gets."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request that was authenticated and authorized."""

    cloud: Cloud
    principal: Principal
    values: Mapping[str, str]
    """What the braces of the operation's path stand for."""
    query: Mapping[str, str]
    """Parameters, by their names in small letters."""
    url: str
    """What was asked, for links to further pages."""
    payload: bytes = b""
    fault: Fault | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in small letters."""

    def body(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        try:
            found = json.loads(self.payload or b"{}")
        except ValueError as error:
            raise errors.invalid(
                f"The request content was invalid: {error}.", "InvalidRequestContent"
            ) from error
        if not isinstance(found, dict):
            raise errors.invalid("The request content is not a JSON object.", "InvalidRequestContent")
        return found


@dataclass(frozen=True)
class Operation:
    """One row of a provider's table."""

    method: str
    path: str
    """{name} stands for one segment, {scope*} for any number of them."""
    action: str
    """The permission it needs."""
    handler: Callable[[Call], Answer]
    over: str = ""
    """The scope of that permission; the path by default."""
    versions: tuple[str, ...] = ()
    """The api-versions it knows; any date where there are none."""
    refuse_version: Callable[[str, str, tuple[str, ...], str], errors.ArmError] = errors.unknown_api_version
    """The error for another api-version, of (type, version, known versions, location)."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The path as an expression; ids are the same in small and capital letters."""
        parts = re.split(r"\{(\w+\*?)\}", self.path)
        words = [re.escape(part) if index % 2 == 0 else _group(part) for index, part in enumerate(parts)]
        return re.compile("".join(words), re.IGNORECASE)

    @property
    def kind(self) -> str:
        """The resource type, for messages."""
        return "/".join(self.action.split("/")[1:-1])

    def scope(self, values: Mapping[str, str]) -> str:
        """Over what the permission must hold."""
        template = (self.over or self.path).replace("*}", "}")
        return template.format(**values) or "/"

    def check_version(self, version: str | None, location: str) -> None:
        """Refuse a request without an api-version, or with one that this type does not have."""
        if not version:
            raise errors.no_api_version()
        known = version in self.versions if self.versions else bool(ANY_VERSION.fullmatch(version))
        if not known:
            raise self.refuse_version(self.kind, version, self.versions, location)


def _group(part: str) -> str:
    return f"(?P<{part[:-1]}>.*?)" if part.endswith("*") else f"(?P<{part}>[^/]+)"


def page(call: Call, items: list[dict[str, Any]]) -> dict[str, Any]:
    """One page of a list, with a link to the next where there is more."""
    size = call.cloud.database.settings.page_size
    try:
        start = int(call.query.get("$skiptoken", "0"))
    except ValueError as error:
        raise errors.invalid("The $skiptoken was not issued here.") from error
    answer: dict[str, Any] = {"value": items[start : start + size]}
    if start + size < len(items):
        base = re.sub(r"[?&]\$skiptoken=\d*|[?&]%24skiptoken=\d*", "", call.url)
        answer["nextLink"] = f"{base}&$skiptoken={start + size}"
    return answer
