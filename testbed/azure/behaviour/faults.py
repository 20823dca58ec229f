# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults on request: which requests they hit, and what happens to those."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

TOKENS = ("", "expired", "audience", "tenant", "signature")


@dataclass(frozen=True)
class Fault:
    """What to do with matching requests."""

    path: str
    """A regular expression that is looked for in the request's path, whatever its case."""
    method: str = ""
    """Only this method; empty for all."""
    times: int | None = None
    """How many requests it hits; None for all."""
    latency: float = 0
    """Seconds before the request is looked at."""
    status: int = 0
    """Answer with this status and an error of Azure's kind; 0 to carry the request out."""
    code: str = ""
    """The error's code; by default the usual one of the status."""
    retry_after: int | None = None
    """The header Retry-After of that answer."""
    drop: bool = False
    """Cut the connection before the request is carried out."""
    lose_answer: bool = False
    """Carry the request out, then cut the connection."""
    stale: bool = False
    """A read answers with what was there before the last write."""
    token: str = ""
    """A token endpoint gives a token that is no good: expired, audience, tenant or signature."""

    def as_dict(self) -> dict[str, Any]:
        """The fault as JSON."""
        return asdict(self)

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Fault:
        """A fault from JSON."""
        known = {field.name for field in fields(cls)}
        if unknown := set(values) - known:
            raise ValueError(
                f"a fault has no {', '.join(sorted(unknown))}: it has {', '.join(sorted(known))}"
            )
        fault = cls(**values)
        re.compile(fault.path)
        if fault.token not in TOKENS:
            raise ValueError(f"token fault {fault.token!r} is unknown: choose one of {', '.join(TOKENS[1:])}")
        return fault

    def hits(self, method: str, path: str) -> bool:
        """Whether a request matches."""
        return self.method.upper() in ("", method.upper()) and bool(re.search(self.path, path, re.IGNORECASE))


@dataclass
class _Shown:
    fault: Fault
    used: int = 0


class Faults:
    """The faults shown now, with the number of times each was used."""

    def __init__(self) -> None:
        self._shown: list[_Shown] = []

    def show(self, *faults: Fault) -> None:
        """Show these from now on, instead of any earlier ones."""
        self._shown = [_Shown(fault) for fault in faults]

    def pick(self, method: str, path: str) -> Fault | None:
        """The first fault that hits a request, counted as used."""
        for shown in self._shown:
            fault = shown.fault
            if (fault.times is None or shown.used < fault.times) and fault.hits(method, path):
                shown.used += 1
                return fault
        return None
