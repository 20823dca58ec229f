# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a transaction: what the next run needs to complete it, or to undo it, after a crash."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from ...dataclass import dataclass, field, replace
from ...resources.base import Origin


class Stage(enum.Enum):
    """How far a transaction got."""

    APPLYING = "applying"  # items are being changed: a mixture of two generations
    PROVING = "proving"  # all is in place, and units have been restarted; the gates have not passed yet
    COMMITTED = "committed"  # the gates have passed: nothing returns to the generation before it
    ROLLING_BACK = "rolling back"


@dataclass(frozen=True)
class Record:
    """One transaction. It is kept until the gates have passed, or the previous generation is back."""

    stage: Stage = Stage.APPLYING
    before: Mapping[str, Origin] = field(default_factory=dict)  # the previous generation, in applied order
    restarts: tuple[str, ...] = ()  # units that must still restart
    restarted: tuple[str, ...] = ()  # units that may run with the new generation
    reload: bool = False
    source: Mapping[str, Any] | None = None  # source.json of the previous generation
    reason: Mapping[str, Any] = field(default_factory=dict)  # why it is rolled back

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Record | None:
        """From transaction.json; None: there is no unfinished transaction."""
        if stored is None:
            return None
        restarts = tuple(stored.get("restarts", ()))
        return cls(
            Stage(stored.get("stage", Stage.APPLYING.value)),
            {item["key"]: item["origin"] for item in stored.get("generation", ())},
            restarts,
            tuple(stored.get("restarted", restarts)),
            bool(stored.get("reload")),
            stored.get("source"),
            stored.get("reason", {}),
        )

    def as_dict(self) -> dict[str, Any]:
        """For transaction.json. The generation is a list: its order counts."""
        return {
            "stage": self.stage.value,
            "generation": [{"key": key, "origin": origin} for key, origin in self.before.items()],
            "restarts": self.restarts,
            "restarted": self.restarted,
            "reload": self.reload,
            "source": self.source,
            "reason": self.reason,
        }

    def placed(self, restarts: Sequence[str], last: Sequence[str]) -> Record:
        """All items are in place; these units restart now, the last ones after the gates."""
        restarted = tuple(dict.fromkeys((*self.restarted, *restarts)))
        return replace(self, stage=Stage.PROVING, restarts=tuple(last), restarted=restarted, reload=False)
