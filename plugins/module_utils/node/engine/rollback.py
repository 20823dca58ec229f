# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollback: the state of all items of a plan right before it is applied, and the way back to that state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..machine.host import Host
from ..resources.base import Item, key_of
from ..resources.tree import Tree
from ..resources.units import Unit
from .journal import Journal
from .orphans import Orphan
from .plan import Plan


def previous_generation(plan: Plan, host: Host, journal: Journal) -> dict[str, Any]:
    """The present state of every item. Directories are never emptied by a rollback: pods may use them."""
    return {
        key_of(step.resource): {**step.resource.capture(host, journal), "ours": False} for step in plan.steps
    }


def restore_generation(
    applied: Sequence[Item], before: Mapping[str, Any], host: Host, journal: Journal
) -> list[str]:
    """Restore the previous generation; returns the units that the plan stopped, which must be started again.

    Units follow by a restart. Trees stay: without a link to them they are not used.
    """
    for resource in reversed(applied):
        if not isinstance(resource, (Unit, Tree)):
            resource.restore(host, resource.name, before[key_of(resource)], journal)
    return [resource.name for resource in applied if isinstance(resource, Orphan) and resource.is_unit]
