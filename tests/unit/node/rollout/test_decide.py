# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who may begin: the limit, the rings, the observation, the stop."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.decide import (
    REGISTER_SECONDS,
    Change,
    Policy,
    Stopped,
    Take,
    Wait,
    ask,
    decide,
    done,
    registered,
    rolled_back,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import (
    MOST_ROLLOUTS,
    Rollout,
    Shared,
    read,
    written,
)

NOW = 1_800_000_000.0
OLD, NEW = "old", "new"
ONE = Policy(1, soak_seconds=300)


def fleet(**rings: str) -> Shared:
    """Registered nodes, each with its ring, all with the old software."""
    shared = Shared()
    for name, ring in rings.items():
        shared = registered(shared, name, ring, OLD, NOW - 3600, late=False)
    return shared


FLEET = fleet(a="canary", b="canary", c="", d="plant")


def change(node: str, shared: Shared = FLEET, **other: object) -> Change:
    ring = shared.nodes[node].ring if node in shared.nodes else ""
    return replace(Change(node, ring, "r1", "kubernetes 1 -> 2", OLD, NEW), **other)  # type: ignore[arg-type]


def takes(shared: Shared, node: str, policy: Policy = ONE, now: float = NOW) -> Shared:
    verdict, shared = ask(shared, change(node, shared), policy, now)
    assert verdict == Take(), verdict
    return shared


def updated(shared: Shared, node: str, now: float = NOW) -> Shared:
    return done(takes(shared, node, now=now), change(node, shared), now)


# -- the limit ---------------------------------------------------------------------------------------------


def test_a_second_node_waits_and_is_told_for_whom() -> None:
    shared = takes(FLEET, "a")
    verdict = decide(shared, change("b"), ONE, NOW + 5)
    assert isinstance(verdict, Wait)
    assert verdict.nodes == ("a",)
    assert "a (kubernetes 1 -> 2, since 2027-01-15T08:00:00+00:00)" in verdict.why
    assert "at most 1 node at a time" in verdict.why
    assert decide(shared, change("b"), Policy(2), NOW) == Take()


def test_who_holds_a_slot_does_not_wait_for_itself() -> None:
    shared = takes(FLEET, "a")
    assert decide(shared, change("a"), ONE, NOW) == Take()
    assert takes(shared, "a", now=NOW + 60).holders["a"].since == NOW, "since it was first taken"


def test_a_repair_takes_a_slot_and_needs_no_ring() -> None:
    repair = change("c", rollout="", after=OLD, what="repair")
    verdict, shared = ask(FLEET, repair, ONE, NOW)
    assert verdict == Take()
    assert shared.rollouts == {}
    assert isinstance(decide(shared, change("a"), ONE, NOW), Wait)
    shared = done(shared, repair, NOW)
    assert shared.holders == {}


def test_a_slot_that_was_never_used_is_released_when_the_node_has_to_wait() -> None:
    shared = takes(FLEET, "a")
    stopped = shared.with_rollout("r1", replace(shared.rollouts["r1"], stopped="by me"))
    verdict, after = ask(stopped, change("a"), ONE, NOW)
    assert isinstance(verdict, Stopped)
    assert after.holders == {}


# -- rings -------------------------------------------------------------------------------------------------


def test_the_rest_waits_for_each_node_of_an_earlier_ring() -> None:
    verdict = decide(FLEET, change("c"), ONE, NOW)
    assert isinstance(verdict, Wait)
    assert verdict.nodes == ("a", "b")
    shared = updated(FLEET, "a")
    verdict = decide(shared, change("c"), ONE, NOW + 10_000)
    assert isinstance(verdict, Wait)
    assert (verdict.nodes, "ring canary: b does not have the change yet" in verdict.why) == (("b",), True)


def test_a_ring_is_observed_after_its_last_node() -> None:
    shared = updated(updated(FLEET, "a", NOW), "b", NOW + 100)
    verdict = decide(shared, change("c"), ONE, NOW + 399)
    assert isinstance(verdict, Wait)
    assert verdict.seconds == 1
    assert "upgrade.soakSeconds after ring canary" in verdict.why
    assert decide(shared, change("c"), ONE, NOW + 400) == Take()


def test_rings_in_order() -> None:
    policy = replace(ONE, rings=("canary", "plant"), soak_seconds=0)
    shared = updated(updated(FLEET, "a"), "b")
    verdict = decide(shared, change("c"), policy, NOW)
    assert isinstance(verdict, Wait)
    assert verdict.nodes == ("d",)
    assert decide(shared, change("d"), policy, NOW) == Take()


def test_nodes_with_other_software_are_another_part_of_the_fleet() -> None:
    shared = registered(fleet(c=""), "a", "canary", "another", NOW, late=False)
    assert decide(shared, change("c", shared), ONE, NOW) == Take()


def test_a_second_version_goes_through_the_canaries_too_while_they_soak_with_the_first() -> None:
    """What the soak time is for: the first one was found to be bad, and a corrected one is published."""
    shared = updated(fleet(a="canary", c=""), "a")
    corrected = {"rollout": "r2", "what": "kubernetes 1 -> 3", "after": "third"}
    verdict, shared = ask(shared, change("c", shared, **corrected), ONE, NOW + 1)
    assert isinstance(verdict, Wait)
    assert verdict.nodes == ("a",)
    second = change("a", shared, **{**corrected, "before": NEW})
    verdict, shared = ask(shared, second, ONE, NOW + 2)
    assert verdict == Take()
    shared = read(written(done(shared, second, NOW + 3)))
    assert shared.nodes["a"].earlier == (NEW, OLD)
    verdict = decide(shared, change("c", shared, **corrected), ONE, NOW + 4)
    assert isinstance(verdict, Wait)
    assert "soakSeconds" in verdict.why
    assert decide(shared, change("c", shared, **corrected), ONE, NOW + 304) == Take()


def test_a_canary_that_went_back_has_to_get_the_new_version_again() -> None:
    shared = updated(fleet(a="canary", c=""), "a")
    shared = registered(shared, "a", "canary", OLD, NOW + 1, late=True)
    assert isinstance(decide(shared, change("c", shared), ONE, NOW + 1000), Wait)
    assert shared.nodes["a"].earlier == (NEW,)


def test_settings_of_one_machine_need_no_ring_and_can_be_stopped() -> None:
    local = change("c", after=OLD, rollout="r2")
    verdict, shared = ask(FLEET, local, ONE, NOW)
    assert verdict == Take()
    shared = rolled_back(shared, local, "FLEX-1501", ONE, NOW, works=True)
    assert isinstance(decide(shared, replace(local, node="d"), ONE, NOW), Stopped)
    assert isinstance(decide(shared, change("a"), ONE, NOW), Take), "another rollout"


# -- nodes that register late ------------------------------------------------------------------------------


def test_a_node_that_was_not_registered_waits_until_others_had_time_to_register() -> None:
    me = change("x")
    verdict, shared = ask(Shared(), me, ONE, NOW)
    assert isinstance(verdict, Wait)
    assert shared.nodes["x"].late
    canary = Change("a", "canary", "r1", "kubernetes 1 -> 2", OLD, NEW)
    verdict, shared = ask(shared, canary, ONE, NOW + 30)
    assert verdict == Take(), "the first ring needs nobody else"
    assert isinstance(decide(shared, me, ONE, NOW + REGISTER_SECONDS - 1), Wait)
    verdict = decide(shared, me, ONE, NOW + REGISTER_SECONDS)
    assert isinstance(verdict, Wait)
    assert verdict.nodes == ("a",), "the canary has registered meanwhile"


def test_a_node_that_joined_with_its_entry_does_not_wait() -> None:
    shared = registered(Shared(), "c", "", OLD, NOW, late=False)
    assert decide(shared, change("c", shared), ONE, NOW) == Take()


# -- the stop ----------------------------------------------------------------------------------------------


def test_the_first_rollback_stops_the_rollout() -> None:
    shared = rolled_back(takes(FLEET, "a"), change("a"), "FLEX-1501", ONE, NOW, works=True)
    assert shared.holders == {}
    for name in ("b", "c", "a"):
        verdict = decide(shared, change(name), ONE, NOW + 10_000)
        assert isinstance(verdict, Stopped)
        assert (
            "rollout stopped (kubernetes 1 -> 2): a (FLEX-1501) of ring canary was rolled back" in verdict.why
        )


def test_other_software_is_a_new_rollout() -> None:
    shared = rolled_back(takes(FLEET, "a"), change("a"), "FLEX-1501", ONE, NOW, works=True)
    assert decide(shared, change("b", rollout="r2", after="newer"), ONE, NOW) == Take()


def test_some_rollbacks_may_be_allowed() -> None:
    policy = Policy(1, max_rolled_back=1)
    shared = rolled_back(takes(FLEET, "a"), change("a"), "FLEX-1501", policy, NOW, works=True)
    assert shared.rollouts["r1"].stopped == ""
    shared = updated(shared, "b")
    assert decide(shared, change("c"), policy, NOW) == Take(), "nobody waits for the one that failed"
    shared = rolled_back(takes(shared, "c", policy), change("c"), "FLEX-1502", policy, NOW, works=True)
    assert shared.rollouts["r1"].stopped == "", "of another ring"
    shared = rolled_back(shared, change("b"), "FLEX-1502", policy, NOW, works=True)
    assert shared.rollouts["r1"].stopped == "a (FLEX-1501), b (FLEX-1502) of ring canary were rolled back"


def test_after_a_resume_only_new_rollbacks_count() -> None:
    shared = rolled_back(takes(FLEET, "a"), change("a"), "FLEX-1501", ONE, NOW, works=True)
    resumed = replace(shared.rollouts["r1"], stopped="", resumed=NOW + 60)
    shared = shared.with_rollout("r1", resumed)
    assert decide(shared, change("b"), ONE, NOW + 61) == Take()
    shared = rolled_back(takes(shared, "b"), change("b"), "FLEX-1501", ONE, NOW + 90, works=True)
    assert shared.rollouts["r1"].stopped == "b (FLEX-1501) of ring canary was rolled back"


def test_a_node_that_is_down_after_its_rollback_keeps_its_slot() -> None:
    shared = rolled_back(takes(FLEET, "a"), change("a"), "FLEX-1501", ONE, NOW, works=False)
    assert list(shared.holders) == ["a"]
    assert isinstance(decide(shared, change("b", rollout="r2"), ONE, NOW), Wait)


def test_a_node_in_the_middle_of_a_change_finishes_it_whatever_was_decided_since() -> None:
    shared = takes(FLEET, "a")
    stopped = shared.with_rollout("r1", replace(shared.rollouts["r1"], stopped="by me"))
    assert decide(stopped, change("a", begun=True), ONE, NOW) == Take()
    forgotten = takes(shared.without_holder("a"), "b")
    assert decide(forgotten, change("a", begun=True), ONE, NOW) == Take(), "it is down until it has finished"


def test_a_node_that_is_down_waits_for_nobody_and_keeps_its_slot() -> None:
    """Others wait for its slot: if it waited for their ring, all would wait for ever."""
    shared = takes(fleet(a="", c="canary"), "c")
    shared = replace(shared, holders={"a": shared.holders["c"]})
    corrected = change("a", shared, rollout="r2", after="third", down=True)
    assert isinstance(decide(shared, replace(corrected, down=False), ONE, NOW), Wait)
    verdict, taken = ask(shared, corrected, ONE, NOW)
    assert verdict == Take()
    assert taken.holders["a"].rollout == "r2"
    stopped = shared.with_rollout("r2", Rollout("kubernetes 1 -> 3", NOW, stopped="by me"))
    verdict, after = ask(stopped, corrected, ONE, NOW)
    assert isinstance(verdict, Stopped)
    assert list(after.holders) == ["a"], "it is still down"


def test_a_change_that_is_reported_twice_counts_once() -> None:
    """A run that was killed between its report and its own note of it reports again."""
    once = updated(FLEET, "a")
    assert done(once, change("a"), NOW + 60) == once


def test_a_second_try_that_works_counts_as_done() -> None:
    policy = Policy(1, max_rolled_back=1)
    shared = rolled_back(takes(FLEET, "a"), change("a"), "FLEX-1501", policy, NOW, works=True)
    shared = done(takes(shared, "a", policy), change("a"), NOW)
    assert dict(shared.rollouts["r1"].rolled_back) == {}
    assert shared.nodes["a"].software == NEW


# -- the record --------------------------------------------------------------------------------------------


def test_the_record_is_read_as_it_was_written() -> None:
    shared = rolled_back(takes(updated(FLEET, "a"), "b"), change("b"), "FLEX-1501", ONE, NOW, works=False)
    shared = registered(shared, "late", "x", OLD, NOW, late=True)
    shared = shared.with_rollout("r2", Rollout("other", NOW, resumed=NOW))
    assert read(written(shared)) == shared
    assert written(read(written(shared))) == written(shared)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_record_is_one_without_nodes(text: str) -> None:
    assert read(text) == Shared()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"schema": 2, "nodes": {}, "holders": {}, "rollouts": {}}',
        '{"schema": 1, "nodes": {"a": {}}, "holders": {}, "rollouts": {}}',
        '{"schema": 1, "nodes": [], "holders": {}, "rollouts": {}}',
        '{"schema": 1, "nodes": {}, "rollouts": {}, "holders": {"a": {"since": 1, "rollout": 1}}}',
        '{"schema": 1, "nodes": {}, "holders": {}, "rollouts": {"r": null}}',
    ],
)
def test_a_damaged_record_is_not_guessed(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(text)


def test_old_rollouts_are_forgotten_and_stopped_ones_last() -> None:
    shared = Shared().with_rollout("bad", Rollout("bad", NOW - 1, stopped="it failed"))
    for number in range(2 * MOST_ROLLOUTS):
        shared = shared.with_rollout(f"r{number}", Rollout("fine", NOW + number))
    assert len(shared.rollouts) == MOST_ROLLOUTS
    assert {"bad", f"r{2 * MOST_ROLLOUTS - 1}"} <= set(shared.rollouts)
    assert "r0" not in shared.rollouts
