# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every kind of reversible local state has in common."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from ..dataclass import dataclass, field
from ..machine.host import Host

Origin = Mapping[str, Any]  # the original state of an item: JSON, in the format of its kind
HIDDEN = "<secret>"


class Drift(enum.Enum):
    """What a drift check does about an item that was changed outside this collection."""

    REPAIR = "repair"
    RESTART = "repair with restart"
    REPORT = "report"


@dataclass(frozen=True)
class Change:
    """One difference, in words and as before/after."""

    sentence: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Ownership:
    """The components of a plan, and which of them contain which item (by its key)."""

    components: frozenset[str] = frozenset()
    of: Mapping[str, frozenset[str]] = field(default_factory=dict)


class Vault(Protocol):
    """Keeps the content of replaced files until unbootstrap."""

    def keep(self, content: bytes) -> str: ...

    def kept(self, digest: str) -> bytes: ...


class Item(Protocol):
    """An element of a plan: local state that can be observed, applied and rolled back.

    `mark` identifies the state that `apply` produces. `content_addressed`: its path contains the digest of
    its content, so applying it never replaces anything that worked, and a rollback must leave it alone.
    """

    kind: ClassVar[str]
    content_addressed: ClassVar[bool]

    @property
    def name(self) -> str: ...

    @property
    def mark(self) -> str: ...

    @property
    def restarts(self) -> tuple[str, ...]: ...

    @property
    def drift(self) -> Drift: ...

    def observe(self, host: Host) -> Any: ...

    def difference(self, seen: Any) -> Change | None: ...

    def capture(self, host: Host, vault: Vault) -> Origin: ...

    def apply(self, host: Host) -> None: ...

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]: ...


class Resource(Item, Protocol):
    """An item of a configuration; the journal keeps its origin, and can restore it by its name.

    `mark_now` identifies the present state. While it equals a mark of the journal, the item may be
    restored; otherwise it was changed outside this collection and is not touched.
    """

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str: ...


def key_of(resource: Item) -> str:
    """Stable identity, e.g. `file:/etc/containerd/config.toml`."""
    return f"{resource.kind}:{resource.name}"
