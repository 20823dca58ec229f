# SPDX-License-Identifier: GPL-3.0-or-later
"""Point 33: what was taken for proof that a node works, or was no error that anybody saw."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, NODE, UNIT, Case, Edit

REPORTER_TESTS = f"{UNIT}/node_object/test_reporter.py"
TWO_MACHINES = f"{UNIT}/operations/test_two_machines.py"
WATCHING_TESTS = f"{UNIT}/commands/test_watching.py"
TICK_TESTS = f"{UNIT}/follow/test_tick.py"

CASES = (
    Case(
        "33a",
        "a Node that another machine reports counts as that of this one",
        (
            Edit(
                f"{NODE}/node_object/gates.py",
                "            if by in (By.OTHER, By.EARLIER):\n",
                "            if False:\n",
            ),
        ),
        (f"{REPORTER_TESTS}::test_the_node_of_another_machine_is_not_ready",),
        DID_NOT_RAISE,
    ),
    Case(
        "33b",
        "two machines that take turns in reporting a Node are not noticed",
        (
            Edit(
                f"{NODE}/node_object/reporter.py",
                "        if by is By.OTHER and self.ours is not None:\n",
                "        if False:\n",
            ),
        ),
        (f"{REPORTER_TESTS}::test_two_machines_that_take_turns_are_found[8]",),
        DID_NOT_RAISE,
    ),
    Case(
        "33c",
        "a machine that leaves drains and deletes the Node of another one",
        (
            Edit(
                f"{NODE}/operations/leaving/cluster.py",
                'if shared := "" if deleted else left_to_other(node, say):',
                'if shared := "":',
            ),
        ),
        (f"{TWO_MACHINES}::test_leaving_neither_drains_nor_deletes_the_node_of_another_machine",),
    ),
    Case(
        "33d",
        "a kubelet that exits again and again is healthy",
        (Edit(f"{NODE}/commands/watching.py", " + list(unsteady_services(host))"),),
        (f"{WATCHING_TESTS}::test_a_kubelet_that_exits_again_and_again_is_not_healthy",),
    ),
    Case(
        "33e",
        "a join with a new token leaves an expired certificate in place",
        (Edit(f"{NODE}/operations/checks.py", "is_expired(node) or "),),
        (
            f"{UNIT}/operations/test_expired_certificate.py::"
            "test_an_expired_certificate_is_replaced_by_a_join_with_a_new_token[NodeJoined]",
        ),
        r"[\w.]*NodeNotReady",
    ),
    Case(
        "33f",
        "a host name with an empty part is accepted",
        (Edit(f"{NODE}/config/types/addresses.py", "if not _is_host(url.hostname):", "if False:"),),
        (
            f"{TICK_TESTS}::test_a_server_that_no_host_can_be_is_refused_and_the_polls_go_on"
            "[https://.plant.example]",
        ),
    ),
    Case(
        "33g",
        "an unexpected failure of a followed document is a traceback at every poll",
        (
            Edit(
                f"{NODE}/follow/following.py",
                "        return not_applied(host, store, watched, unforeseen(fault, store, news.body, say), "
                "say)\n",
                "        raise\n",
            ),
        ),
        (
            f"{TICK_TESTS}::"
            "test_an_unexpected_failure_is_one_of_that_document_and_is_tried_again_less_and_less_often",
        ),
        "KeyError",
    ),
    Case(
        "33h",
        "a clock that is set back delays the restart of a VPN client that hangs",
        (
            Edit(
                f"{NODE}/drift/tunnel.py",
                "known, host.clock.monotonic()",
                "known, host.clock.now()",
            ),
        ),
        (f"{UNIT}/drift/test_tunnel.py::test_a_clock_that_is_set_back_delays_no_restart",),
        ASSERTION,
    ),
)
