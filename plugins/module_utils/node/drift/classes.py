# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The class of an item that differs: repair, repair with restart, or report."""

from __future__ import annotations

from ..engine.plan import Step, step_key
from ..resources.base import Drift
from .record import REPAIR, REPORT, RESTART, Finding

CLASSES = {Drift.REPAIR: REPAIR, Drift.RESTART: RESTART, Drift.REPORT: REPORT}


def finding_of(step: Step) -> Finding:
    """An item of the plan, with its class: what a unit reads restarts that unit."""
    wanted = CLASSES[step.resource.drift]
    class_ = RESTART if wanted == REPAIR and step.resource.restarts else wanted
    return Finding(step_key(step), class_, step.change.sentence)
