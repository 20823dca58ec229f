# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The pause before something that failed is tried again."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import DriftRecord, Finding
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow.following import blocked_by
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import back_off
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.errors import Unforeseen
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.watched import LONGEST, Watched

HALF_A_YEAR = 5_000
"""Failures, at one an hour."""


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [(0, 60), (1, 60), (2, 120), (6, 1920), (7, 3600), (1025, 3600), (sys.maxsize, 3600)],
)
def test_it_doubles_and_ends_at_the_longest(attempts: int, seconds: float) -> None:
    assert back_off(60.0, attempts, 3600.0) == seconds


def test_drift_that_can_not_be_repaired_for_half_a_year_is_still_tried_each_hour() -> None:
    record, finding = DriftRecord(), Finding("file:/a", "repair", "it differs")
    for hour in range(HALF_A_YEAR):
        record = record.failed("FLEX-1301", "no space", hour * LONGEST).failed_alone(finding, hour * LONGEST)
    assert record.failure is not None
    (item,) = record.items
    assert (record.failure.retry_at, item.retry_at) == (HALF_A_YEAR * LONGEST,) * 2


def test_a_document_that_fails_for_half_a_year_is_still_tried_each_hour() -> None:
    watched = Watched("https://example/bundle", digest="1")
    for hour in range(HALF_A_YEAR):
        watched = Watched(
            watched.url, digest="1", blocked=blocked_by(Unforeseen("it fails"), watched, hour * LONGEST)
        )
    assert watched.blocked is not None
    assert watched.blocked.attempts == HALF_A_YEAR
    assert watched.blocked.retry_at == HALF_A_YEAR * LONGEST
