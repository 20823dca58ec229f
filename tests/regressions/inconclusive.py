# SPDX-License-Identifier: GPL-3.0-or-later
"""More of point 1: evidence that decides nothing, and what a gate or a plan must not make of it."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, NODE, UNIT, Case, Edit

RECONCILE, TICK_TESTS = f"{NODE}/operations/reconcile.py", f"{UNIT}/follow/test_tick.py"
GATES, GATE_TESTS = f"{NODE}/node_object/gates.py", f"{UNIT}/node_object/test_gates.py"
A_ROLLBACK = r".*(CaMismatch|Forbidden): FLEX-150"

CASES = (
    Case(
        "1b",
        "one line of the kubelet's log decides while the line is cut",
        (
            Edit(
                GATES,
                "            return explained if isinstance(explained, ApiUnreachable) else waiting_for\n",
                "            return explained or waiting_for\n",
            ),
        ),
        (f"{GATE_TESTS}::test_no_line_of_the_log_decides_while_the_line_is_cut",),
        A_ROLLBACK,
    ),
    Case(
        "1c",
        "one restart of the kubelet lets its log decide while the line is cut",
        (
            Edit(
                GATES,
                "            if due or (restarted and not blind):\n",
                "            if due or restarted:\n",
            ),
        ),
        (f"{GATE_TESTS}::test_no_line_of_the_log_decides_while_the_line_is_cut[of-a-client-1]",),
        A_ROLLBACK,
    ),
    Case(
        "1d",
        "a clock that is set back during the gate makes every report too old",
        (
            Edit(RECONCILE, "changed.append(host.clock.monotonic())", "changed.append(host.clock.now())"),
            Edit(
                GATES,
                "return [clock.now() - (clock.monotonic() - moment) for moment in self.changed]",
                "return self.changed",
            ),
        ),
        (
            f"{GATE_TESTS}::test_a_clock_that_is_set_back_does_not_make_reports_old",
            f"{TICK_TESTS}::test_a_clock_that_is_set_back_during_the_gate_rolls_nothing_back",
        ),
        rf"{ASSERTION}|.*NodeNotReady: FLEX-1502",
    ),
)
