# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from scripts import other_collections


@pytest.fixture(scope="session")
def collections() -> Path:
    """A directory with the collection awx.awx and the inventory plugin of azure.azcollection."""
    return other_collections.directory()
