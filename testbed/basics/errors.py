# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception family of the testbed."""

from __future__ import annotations


class TestbedError(Exception):
    """Something the testbed needs is wrong; the message says what, where and what to do."""

    __test__ = False  # the name starts with "Test": keep pytest from collecting it


class TookTooLong(TestbedError):
    """What was waited for did not come."""


class OutOfReach(TestbedError):
    """Something that has to be downloaded is out of reach of this machine; the message is one line."""


class CommandFailed(TestbedError):
    """A program ended with an error."""

    def __init__(self, argv: list[str], returncode: int, output: str) -> None:
        self.argv = argv
        self.returncode = returncode
        self.output = output
        tail = output.strip()[-2000:]
        super().__init__(f"{' '.join(argv)[:300]} ended with {returncode}: {tail or '(no output)'}")
