# SPDX-License-Identifier: GPL-3.0-or-later
"""What the end-to-end test of push, pull and poll at once relies on: that they are at once."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from tests.e2e.together import Said, together


def test_the_others_run_until_the_longest_has_ended() -> None:
    turns, running = {"pull": 0, "poll": 0}, threading.Event()
    met = threading.Condition()

    def push() -> Said:
        running.set()
        with met:  # it ends only after both others have begun twice while it ran
            assert met.wait_for(lambda: min(turns.values()) >= 2, 30)
        return Said("push", 0, "")

    def other(who: str) -> Said:
        assert running.wait(30)
        with met:
            turns[who] += 1
            met.notify_all()
        return Said(who, 0, "")

    said = Counter(one.who for one in together(push, lambda: other("pull"), lambda: other("poll")))
    assert said["push"] == 1
    assert min(said["pull"], said["poll"]) >= 2


def test_each_runs_once_even_if_the_longest_is_over_at_once() -> None:
    said = together(lambda: Said("push", 0, ""), lambda: Said("pull", 0, ""), lambda: Said("poll", 3, "x"))
    assert {one.who for one in said} == {"push", "pull", "poll"}


@pytest.mark.parametrize("bad", ["push", "pull"])
def test_a_run_that_raises_is_not_lost(bad: str) -> None:
    def job(who: str) -> Said:
        if who == bad:
            raise TimeoutError(who)
        return Said(who, 0, "")

    with pytest.raises(TimeoutError, match=bad):
        together(lambda: job("push"), lambda: job("pull"))
