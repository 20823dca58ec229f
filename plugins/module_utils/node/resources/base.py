# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every kind of reversible local state has in common."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ..machine.host import Host

Origin = Mapping[str, Any]  # how an item was before the first touch: JSON, in the words of its kind
HIDDEN = "<secret>"


class Drift(enum.Enum):
    """What a drift check does about an item that changed behind our back."""

    REPAIR = "repair"
    RESTART = "repair with restart"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, in words and as before/after."""

    sentence: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which components a plan is about, and which of them asks for which item (by its key)."""

    components: frozenset[str] = frozenset()
    of: Mapping[str, frozenset[str]] = field(default_factory=dict)


class Vault(Protocol):
    """Where the content of replaced files is kept until the machine is given back."""

    def keep(self, content: bytes) -> str: ...

    def kept(self, digest: str) -> bytes: ...


class Item(Protocol):
    """What a plan is made of: a piece of local state that can be observed, applied and rolled back.

    `mark` names the state that `apply` leaves.
    """

    kind: ClassVar[str]

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
    """An item that a configuration asks for; the journal keeps its origin, and can take it back by its name.

    `mark_now` names the present state. While it is equal to the mark, the item is still ours and may be
    restored; otherwise someone else has changed it and it is left alone.
    """

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str: ...


def key_of(resource: Item) -> str:
    """Stable identity, e.g. `file:/etc/containerd/config.toml`."""
    return f"{resource.kind}:{resource.name}"
