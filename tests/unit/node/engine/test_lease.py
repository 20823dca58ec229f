# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One writer at a time: operations, gaps between their calls, and owners that die."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import (
    GAP,
    PATIENCE,
    held,
    new_operation,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import LeaseHeld
from tests.unit.node.fakes import Machine
from tests.unit.node.processes import another_process

LEASE = "/run/aks-flex-node/lease.json"
LOCK = "/run/aks-flex-node/lock"


def test_a_lease_names_its_owner_and_ends_with_the_block(machine: Machine) -> None:
    with held(machine.host, "one", "Ansible"):
        lease = json.loads(machine.text(LEASE))
        assert (lease["operation"], lease["owner"], lease["pid"]) == ("one", "Ansible", os.getpid())
        assert machine.host.stat(LEASE).mode == 0o600
    assert not machine.path(LEASE).exists()
    with held(machine.host, "two", "aks-flex-node join"):
        pass


def test_an_error_inside_ends_it_too(machine: Machine) -> None:
    with pytest.raises(ValueError, match="inside"), held(machine.host, "one", "Ansible"):
        raise ValueError("inside")
    assert not machine.path(LEASE).exists()


def test_between_its_calls_an_operation_keeps_others_out(machine: Machine) -> None:
    with held(machine.host, "one", "Ansible", keep=True):
        pass
    with (
        pytest.raises(LeaseHeld, match="another process") as caught,
        held(machine.host, "two", "x", patience=2),
    ):
        pytest.fail("two writers")
    assert "Ansible" in caught.value.why
    assert sum(machine.clock.naps) == pytest.approx(2, abs=0.5)


def test_whoever_comes_after_an_abandoned_run_waits_and_goes_on(machine: Machine) -> None:
    with held(machine.host, "one", "Ansible", keep=True):
        pass
    with held(machine.host, "two", "a tick"):
        pass
    assert sum(machine.clock.naps) == pytest.approx(GAP, abs=0.5)
    assert GAP < PATIENCE


def test_a_failed_call_keeps_nothing(machine: Machine) -> None:
    with pytest.raises(ValueError, match="inside"), held(machine.host, "one", "Ansible", keep=True):
        raise ValueError("inside")
    assert not machine.path(LEASE).exists()


def test_the_next_call_of_the_same_operation_goes_on_at_once(machine: Machine) -> None:
    for keep in (True, True, False):
        with held(machine.host, "one", "Ansible", keep=keep):
            pass
    assert machine.clock.naps == []
    assert not machine.path(LEASE).exists()


def test_waiting_for_one_that_ends(machine: Machine) -> None:
    with held(machine.host, "one", "Ansible", keep=True):
        pass
    machine.clock.then = lambda: machine.path(LEASE).unlink(missing_ok=True)
    with held(machine.host, "two", "a tick"):
        pass
    assert len(machine.clock.naps) == 1


def test_a_kept_lease_expires(machine: Machine) -> None:
    with held(machine.host, "one", "Ansible", keep=True):
        pass
    machine.clock.time += GAP - 1
    with pytest.raises(LeaseHeld), held(machine.host, "two", "a tick", patience=0):
        pytest.fail("too early")
    machine.clock.time += 1
    with held(machine.host, "two", "a tick", patience=0):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"operation": "x"}'])
def test_a_damaged_lease_holds_nobody_up(machine: Machine, content: str) -> None:
    machine.put(LEASE, content)
    with held(machine.host, "one", "Ansible", patience=0):
        pass


def test_a_lock_of_another_process_is_respected(machine: Machine) -> None:
    machine.put(LOCK)

    def lock() -> None:
        fcntl.flock(os.open(machine.path(LOCK), os.O_RDWR), fcntl.LOCK_EX)

    with another_process(lock):
        with pytest.raises(LeaseHeld) as caught, held(machine.host, "one", "Ansible"):
            pytest.fail("two writers")
        assert caught.value.why == "another process holds the operation lease"
    with held(machine.host, "one", "Ansible", patience=0):
        pass


@pytest.mark.parametrize("keep", [True, False])
def test_a_call_that_was_killed_makes_nobody_fail(machine: Machine, keep: bool) -> None:
    stack = ExitStack()  # holds on to it in the other process
    with another_process(lambda: stack.enter_context(held(machine.host, "one", "Ansible", keep=keep))) as pid:
        with pytest.raises(LeaseHeld) as caught, held(machine.host, "two", "a tick"):
            pytest.fail("two writers")
        assert f"Ansible (process {pid})" in caught.value.why
    with held(machine.host, "two", "a tick"):
        pass


def test_a_long_call_outlives_its_gap(machine: Machine) -> None:
    with held(machine.host, "one", "Ansible", keep=True):
        machine.clock.time += 10 * GAP
        with pytest.raises(LeaseHeld), held(machine.host, "two", "a tick", patience=0):
            pytest.fail("two writers")
    with pytest.raises(LeaseHeld), held(machine.host, "two", "a tick", patience=0):
        pytest.fail("its gap begins when the call ends")


# -- a run of the node itself -----------------------------------------------------------------------------


def poll_of(machine: Machine) -> Callable[[], object]:
    """What another process does: it begins a poll, and never ends it."""
    stack = ExitStack()
    return lambda: stack.enter_context(held(machine.host, "one", "aks-flex-node poll"))


def test_a_run_of_the_node_itself_is_waited_for_as_long_as_it_may_take(machine: Machine) -> None:
    """It drains and waits for its gate: both take minutes, and it applies what a push would."""
    with ExitStack() as running:
        pid = running.enter_context(another_process(poll_of(machine)))

        def ends() -> None:
            if sum(machine.clock.naps) >= 10 * PATIENCE:
                machine.path(LEASE).unlink(missing_ok=True)  # a run that ends removes it
                running.close()

        machine.clock.then = ends
        with held(machine.host, "two", "Ansible", own_run=lambda: 20 * PATIENCE) as waited:
            assert waited == f"aks-flex-node poll (process {pid}), 300 s"
    assert not machine.path(LEASE).exists()


def test_what_hangs_is_not_waited_for_for_ever(machine: Machine) -> None:
    with another_process(poll_of(machine)) as pid:
        with (
            pytest.raises(LeaseHeld) as caught,
            held(machine.host, "two", "Ansible", own_run=lambda: 100.0),
        ):
            pytest.fail("two writers")
        assert sum(machine.clock.naps) == pytest.approx(100, abs=0.5)
        assert caught.value.why == (
            f"aks-flex-node poll (process {pid}) holds the operation lease for 100 s; "
            "a run of this node takes 100 s at most, so it hangs"
        )
        assert f"kill {pid}" in caught.value.fix
        machine.clock.naps.clear()  # the next one waits no longer than for any other
        with pytest.raises(LeaseHeld), held(machine.host, "two", "Ansible", own_run=lambda: 100.0):
            pytest.fail("two writers")
        assert sum(machine.clock.naps) == pytest.approx(PATIENCE, abs=0.5)


def test_how_long_a_run_may_take_is_asked_while_it_runs(machine: Machine) -> None:
    """A run stores its document, with its own limits, after it has begun."""
    limits = iter([50.0])
    with another_process(poll_of(machine)):
        with (
            pytest.raises(LeaseHeld, match="being changed"),
            held(machine.host, "two", "Ansible", own_run=lambda: next(limits, 200.0)),
        ):
            pytest.fail("two writers")
        assert sum(machine.clock.naps) == pytest.approx(200, abs=0.5)


@pytest.mark.parametrize("owner", ["Ansible", "aks-flex-node join", "aks-flex-node unbootstrap"])
def test_another_run_is_waited_for_as_before(machine: Machine, owner: str) -> None:
    stack = ExitStack()
    with another_process(lambda: stack.enter_context(held(machine.host, "one", owner))) as pid:
        with pytest.raises(LeaseHeld) as caught, held(machine.host, "two", "Ansible", own_run=lambda: 900.0):
            pytest.fail("two writers")
        assert caught.value.why == f"{owner} (process {pid}) holds the operation lease"
    assert sum(machine.clock.naps) == pytest.approx(PATIENCE, abs=0.5)


@pytest.mark.parametrize("patience", [0.0, PATIENCE])
def test_who_did_not_ask_for_it_does_not_wait_longer(machine: Machine, patience: float) -> None:
    with another_process(poll_of(machine)):
        with pytest.raises(LeaseHeld), held(machine.host, "two", "aks-flex-node poll", patience=patience):
            pytest.fail("two writers")
        assert sum(machine.clock.naps) == pytest.approx(patience, abs=0.5)


def test_a_link_in_place_of_the_lock_is_refused(machine: Machine) -> None:
    machine.put("/precious", "keep me")
    machine.path("/run/aks-flex-node").mkdir(parents=True)
    machine.path(LOCK).symlink_to(machine.path("/precious"))
    with pytest.raises(OSError, match="symbolic"), held(machine.host, "one", "Ansible"):
        pytest.fail("followed a link")
    assert machine.text("/precious") == "keep me"


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len({new_operation() for _ in range(50)}) == 50
