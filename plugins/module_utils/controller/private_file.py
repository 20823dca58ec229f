# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that outlive a run, on the controller."""

from __future__ import annotations

import os
import tempfile


def replace_private(path: str, text: str) -> None:
    """A file that only its owner can read from its first byte; whole and on the disk, or not there.

    What had its name is replaced, whoever it belongs to; a link is not followed.
    """
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".new-")  # mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
