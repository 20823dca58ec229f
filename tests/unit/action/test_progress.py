# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of a module are shown while it runs."""

from __future__ import annotations

import time
from pathlib import Path

from ansible_collections.aks.flexnode.plugins.plugin_utils.progress import shown_progress


def test_lines_are_shown_as_they_come_and_the_file_is_gone_afterwards() -> None:
    shown: list[str] = []
    with shown_progress(shown.append, 0.02) as path:
        assert Path(path).stat().st_mode & 0o777 == 0o600
        with open(path, "a", encoding="utf-8") as file:
            file.write("first\nsec")
            file.flush()
            deadline = time.monotonic() + 10
            while shown != ["first"] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert shown == ["first"], "while the module is still running"
            file.write("ond\n")
    assert shown == ["first", "second"]
    assert not Path(path).exists()
