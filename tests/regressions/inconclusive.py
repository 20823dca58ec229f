# SPDX-License-Identifier: GPL-3.0-or-later
"""More of point 1: evidence that decides nothing, and what a gate or a plan must not make of it."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, NODE, UNIT, Case, Edit

KUBE, KUBE_TESTS = f"{NODE}/net/kube.py", f"{UNIT}/net/test_kube.py"
TICK_TESTS = f"{UNIT}/follow/test_tick.py"
DRIFT_TESTS, RECONCILE_TESTS = f"{UNIT}/drift/test_drift.py", f"{UNIT}/operations/test_reconcile.py"
GATES, GATE_TESTS = f"{NODE}/node_object/gates.py", f"{UNIT}/node_object/test_gates.py"
A_ROLLBACK = r".*(CaMismatch|Forbidden): FLEX-150"

USED_UP = Edit(
    f"{NODE}/operations/checks.py",
    "    token, record = node.config.azure.bootstrap_token, store.join()\n",
    "    return True\n    token, record = node.config.azure.bootstrap_token, store.join()\n",
)
NOT_RESTORED = Edit(
    f"{NODE}/engine/transaction.py",
    "            if restore_certificate(record, host, store, progress):\n",
    "            if False:\n",
)

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
            Edit(
                GATES,
                "changed.append(self.node.host.clock.monotonic())",
                "changed.append(self.node.host.clock.now())",
            ),
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
    Case(
        "1e",
        "a wrong clock is taken for a wrong CA, and rolled back",
        (Edit(KUBE, "if failure.tls and not failure.out_of_time:", "if failure.tls:"),),
        (
            f"{KUBE_TESTS}::test_a_certificate_that_is_not_valid_now_says_nothing_about_the_ca",
            f"{GATE_TESTS}::test_a_clock_that_is_wrong_decides_nothing",
        ),
        A_ROLLBACK,
    ),
    Case(
        "1f",
        "a captive portal at the gate is taken for a wrong CA, and rolled back",
        (
            Edit(
                GATES, "            if not self.server_known:\n                raise\n", "            raise\n"
            ),
        ),
        (
            f"{GATE_TESTS}::test_distrust_of_a_server_that_was_right_before_decides_nothing",
            f"{TICK_TESTS}::test_a_certificate_that_is_not_trusted_for_a_while_holds[True-19-self-signed "
            "certificate in chain]",
        ),
        rf"{ASSERTION}|{A_ROLLBACK}",
    ),
    Case(
        "1g",
        "a captive portal before an update of the kubelet blocks the update",
        (
            Edit(
                f"{NODE}/operations/checks.py",
                "raise not_the_server(mismatch) if known else mismatch from mismatch",
                "raise",
            ),
        ),
        (
            f"{UNIT}/operations/test_update.py::test_something_else_that_answers_before_a_new_kubelet_is_not_"
            "the_fault_of_the_update",
        ),
        A_ROLLBACK,
    ),
    Case(
        "1h",
        "a certificate is retired although the token of the join is used up",
        (USED_UP,),
        (
            f"{RECONCILE_TESTS}::test_without_a_token_that_is_not_used_up_the_certificate_stays",
            f"{RECONCILE_TESTS}::test_a_new_ca_needs_a_new_token_and_is_not_blocked_without",
        ),
        DID_NOT_RAISE,
    ),
    Case(
        "1i",
        "one answer is enough to retire a certificate",
        (
            Edit(
                f"{NODE}/node_object/certificate.py",
                "    node.host.clock.sleep(ASK_AGAIN)\n",
                "    return [Retired(node.identity)]\n",
            ),
        ),
        (f"{RECONCILE_TESTS}::test_one_answer_does_not_cost_the_certificate",),
    ),
    Case(
        "1j",
        "a repair that brings no new certificate leaves the kubelet without any",
        (NOT_RESTORED,),
        (f"{DRIFT_TESTS}::test_a_repair_that_brings_no_new_certificate_returns_the_old_one",),
    ),
    Case(
        "1k",
        "a moment of 401 costs a node its only certificate",
        (USED_UP, NOT_RESTORED),
        (f"{DRIFT_TESTS}::test_a_moment_of_unauthorized_costs_no_certificate",),
    ),
    Case(
        "1l",
        "a token that was refused in a repair is tried again and again",
        (Edit(f"{NODE}/operations/join_record.py", "if refused and token:", "if spent and token:"),),
        (f"{DRIFT_TESTS}::test_a_token_that_was_refused_in_a_repair_is_not_tried_again",),
    ),
)
