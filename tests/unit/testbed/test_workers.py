# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed of end-to-end tests is started once, before the workers: not by them."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tests.e2e import conftest


def test_the_controller_starts_the_testbed_and_a_worker_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = Mock()
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    conftest.start(testbed)
    testbed.up.assert_not_called()
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    conftest.start(testbed)
    testbed.up.assert_called_once_with(platforms=[conftest.DEFAULT_PLATFORM])
