# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of preflight: findings with a remedy each, what could not be checked, and a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Union

from ..dataclass import asdict, dataclass
from ..errors import PreflightFailed

Severity = Literal["error", "warning"]
Stage = Literal["host", "connectivity", "all"]
NOT_CHECKED = "NOT CHECKED"


@dataclass(frozen=True)
class Finding:
    """One problem: what was found, why it matters, and the command that fixes it."""

    id: str
    severity: Severity
    found: str
    why: str
    fix: str

    def as_dict(self) -> dict[str, str]:
        """The finding as data."""
        return asdict(self)


@dataclass(frozen=True)
class Unchecked:
    """A check that could not run, and why; it must not look like a pass."""

    id: str
    why: str

    def as_dict(self) -> dict[str, str]:
        """The same as data."""
        return asdict(self)


# ansible-test reads this as if for Python 3.9, where `|` is only known within annotations.
Outcome = Union[Finding, Unchecked]  # noqa: UP007


def error(id_: str, found: str, why: str, fix: str) -> Finding:
    """A finding that would make the join fail."""
    return Finding(id_, "error", found, why, fix)


def warning(id_: str, found: str, why: str, fix: str) -> Finding:
    """A finding that does not make the join fail."""
    return Finding(id_, "warning", found, why, fix)


@dataclass(frozen=True)
class Report:
    """The result of one preflight run for a machine."""

    stage: Stage
    node_name: str
    findings: tuple[Finding, ...]
    unchecked: tuple[Unchecked, ...]
    checks: tuple[str, ...]  # ids of all checks that ran
    skipped: tuple[str, ...]
    seconds: float
    cluster_id: str = ""  # two clusters may have Nodes of one name

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What would make the join fail."""
        return tuple(item for item in self.findings if item.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What would not make the join fail."""
        return tuple(item for item in self.findings if item.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether the machine can join."""
        return not self.errors

    def require(self) -> None:
        """Raise one error with all findings that would make the join fail."""
        if self.errors:
            found = "".join(f"\n  ERROR {item.id}: {item.found}\n    fix: {item.fix}" for item in self.errors)
            found += "".join(f"\n  WARNING {item.id}: {item.found}: {item.why}" for item in self.warnings)
            found += "".join(f"\n  NOT CHECKED {item.id}: {item.why}" for item in self.unchecked)
            raise PreflightFailed("this machine can't join yet", why=found)

    @property
    def summary(self) -> str:
        """The result in short."""
        parts = [
            _count(len(self.errors), "error"),
            _count(len(self.warnings), "warning"),
            f"{len(self.unchecked)} not checked" if self.unchecked else "",
        ]
        text = ", ".join(part for part in parts if part)
        return f"ok, {text}" if text and self.ok else text or "ok"

    def lines(self, name: str = "") -> list[str]:
        """The result as text, errors first."""
        rows = [f"{name or self.node_name or 'this machine'}  {self.summary}"]
        ids = [item.id for item in self.findings] + [item.id for item in self.unchecked]
        width = max(map(len, ids), default=0)
        label = len(NOT_CHECKED if self.unchecked else "WARNING")
        indent = " " * (width + label + 6)
        for item in (*self.errors, *self.warnings):
            rows.append(f"  {item.severity.upper():<{label}}  {item.id:<{width}}  {item.found}")
            rows += (
                f"{indent}{word}: {text}" for word, text in (("why", item.why), ("fix", item.fix)) if text
            )
        rows += (f"  {NOT_CHECKED:<{label}}  {item.id:<{width}}  {item.why}" for item in self.unchecked)
        return rows

    def as_dict(self) -> dict[str, Any]:
        """The report as data: what the module returns and --json prints."""
        return {
            "ok": self.ok,
            "stage": self.stage,
            "node_name": self.node_name,
            "cluster_id": self.cluster_id,
            "findings": [item.as_dict() for item in (*self.errors, *self.warnings)],
            # Ansible uses the keys warnings and skipped itself.
            "error_count": len(self.errors),
            "warning_count": len(self.warnings),
            "unchecked": [item.as_dict() for item in self.unchecked],
            "checks": list(self.checks),
            "skipped_checks": list(self.skipped),
            "summary": self.summary,
            "seconds": self.seconds,
        }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number > 1 else ''}" if number else ""


def listed(words: Iterable[object], most: int = 5) -> str:
    """The first few of a list, in words."""
    texts = [str(word) for word in words]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
