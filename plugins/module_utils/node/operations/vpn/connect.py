# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tunnel, before anything else: a transaction of its own, with its own gate and its own rollback.

Everything that follows needs the API server, which may be reached through the tunnel only. So a change of the
VPN is applied and proven first. If it does not work, the last profile that worked comes back, whatever the
reason: unlike other changes, one that cuts the machine off can't be undone from outside. The configuration
is blocked only if the previous profile then works: otherwise the gateway may be away, and the next run tries
again.

A profile that worked is kept even if the rest of its configuration is rolled back: the certificate before it
may be revoked by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...components.every import BEFORE, wanted
from ...dataclass import dataclass, field, replace
from ...engine.plan import Plan, make_plan, step_key
from ...engine.records.record import Record
from ...engine.run_log import RunLog
from ...engine.transaction import Around, Gate, Timings, execute, prove
from ...errors import FlexNodeError
from ...machine.facts import Facts
from ...machine.layout import VPN
from ...procedures.vpn.errors import VpnRolledBack
from ...procedures.vpn.gate import DirectlyReached, TunnelUp, await_reconnect
from ...procedures.vpn.phases import VpnPhase
from ..obtain import Obtained
from ..refusal import block, reason_for, settle_previous

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Connected:
    """What was done for the tunnel."""

    actions: list[str] = field(default_factory=list)
    left: tuple[str, ...] = ()  # what could not be removed, and why
    keys: frozenset[str] = NOTHING  # of the items that were changed


def connect(
    obtained: Obtained,
    applied: Mapping[str, Any] | None,
    facts: Facts,
    timings: Timings,
    log: RunLog,
    *,
    leave: frozenset[str] | None = None,
) -> Connected:
    """Apply what the configuration says about the VPN, and prove it. Most runs change nothing.

    leave: of a repair. It applies only: the tunnel is proven with the node, and a gateway that is away must
    not keep a stopped kubelet from its repair.
    """
    store, uses_vpn = obtained.store.tunnel, obtained.node.config.azure.vpn.enabled
    plan = plan_tunnel(obtained, facts, leave or NOTHING)
    unproven = Record.of(store.transaction())
    joins = uses_vpn and applied is None
    if not (plan.changed or unproven or joins):
        if uses_vpn and leave is None:
            await_reconnect(obtained.node.host)
        return Connected(left=plan.left)
    phase, spent = VpnPhase(obtained.store), Timings(obtained.node.host)
    around = Around(
        returns=leave is None and applied is not None,
        source=store.source_if_intact(),
        reason=reason_for(obtained),
    )
    if leave is None:
        # A join after the tunnel alone was brought up: it is proven again, and its phase does not go back.
        if plan.changed or unproven or not phase.was_connected:
            phase.begin()
        obtained.keep()
    try:
        apply(plan, unproven, obtained, spent, log, around, gates=leave is None)
    except FlexNodeError as error:
        log.changes(plan.sentences, spent, complete=error.at_gate)
        if (verdict := settle(error, obtained, applied, phase, around, log)) is not error:
            raise verdict from error
        raise
    finally:
        for part, seconds in spent.seconds.items():
            timings.seconds[part] = round(timings.seconds.get(part, 0.0) + seconds, 3)
    log.changes(plan.sentences, spent, complete=True)
    if leave is None:
        commit(obtained, applied, phase)
    else:
        store.finish()
    return Connected(plan.sentences, plan.left, frozenset(step_key(step) for step in plan.steps))


def plan_tunnel(obtained: Obtained, facts: Facts, leave: frozenset[str]) -> Plan:
    """What differs; an interrupted run of the node is none of its business."""
    node, store = obtained.node, obtained.store.tunnel
    resources, ownership = wanted(BEFORE, node.config, facts)
    plan = make_plan(resources, node.host, store, ownership)
    return replace(plan, steps=tuple(step for step in plan.steps if step_key(step) not in leave))


def apply(
    plan: Plan,
    unproven: Record | None,
    obtained: Obtained,
    timings: Timings,
    log: RunLog,
    around: Around,
    *,
    gates: bool,
) -> None:
    """Execute the plan and pass the gate; what an interrupted run has applied only has to pass it."""
    host, config, store = obtained.node.host, obtained.node.config, obtained.store.tunnel
    seconds = float(config.upgrade.gate_seconds)
    changed: list[float] = []
    uses_vpn = config.azure.vpn.enabled
    gate: Gate = TunnelUp(config, seconds, changed) if uses_vpn else DirectlyReached(config, seconds)
    wanted_gates = [gate] if gates else []

    def starting() -> None:
        if plan.restarts_unit(VPN):
            changed.append(host.clock.now())

    around = replace(around, starting=starting)
    if plan.changed:
        log.wake()
        execute(plan, host, store, None, wanted_gates, timings=timings, progress=log, around=around)
    else:
        around = around if unproven else replace(around, returns=False)
        prove(wanted_gates, unproven or Record(), host, store, timings=timings, progress=log, around=around)
    store.journal.release(plan.settled)


def commit(obtained: Obtained, applied: Mapping[str, Any] | None, phase: VpnPhase) -> None:
    """The tunnel works: its profile is the one to return to from now on, whatever becomes of the rest."""
    store = obtained.store
    if applied is not None and section(applied) != section(obtained.document):
        store.set_applied_config(
            with_section(applied, section(obtained.document)), store.state().get("appliedVersion")
        )
    store.tunnel.finish()
    phase.done()


def settle(
    error: FlexNodeError,
    obtained: Obtained,
    applied: Mapping[str, Any] | None,
    phase: VpnPhase,
    around: Around,
    log: RunLog,
) -> FlexNodeError:
    """Record a failure; returns the error to raise.

    After a rollback the node shows whether what was there before works. If it does, the gateway and the API
    server answer: it is the change that does not work.
    """
    store, works = obtained.store, False
    try:
        if applied is not None and not error.at_gate and store.tunnel.transaction() is None:
            if not error.rolled_back:  # it failed before the first change
                store.tunnel.returned(Record(source=around.source, reason=around.reason(error, False)))
            phase.unchanged()
            return error
        if error.rolled_back and applied is not None:
            works = settle_previous(error, obtained.node.host, store, applied, log)
        if works:
            return rolled_back(error, obtained, applied)
        phase.failed(error)
    except FlexNodeError as second:  # a full disk, for example: the first error is the one that counts
        error.add(f"this could not be recorded: {second.what}: {second.why}")
    return error


def rolled_back(error: FlexNodeError, obtained: Obtained, applied: Mapping[str, Any] | None) -> VpnRolledBack:
    """The same failure, now that its cause is known; a new configuration is not tried again by itself."""
    wrong = VpnRolledBack(
        "the new VPN configuration does not work and was rolled back; the Node is Ready with the earlier one",
        where=error.where,
        why=f"{error.code}: {error.what}: {error.why}",
    )
    wrong.at_gate, wrong.rolled_back, wrong.changed = error.at_gate, error.rolled_back, error.changed
    if (
        obtained.document != applied
    ):  # otherwise it is a new release, or what someone changed by hand, that worked
        block(obtained, wrong)
    return wrong


def section(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a document says about the VPN. A VPN that is off is none."""
    found: Mapping[str, Any] = (document.get("azure") or {}).get("vpn") or {}
    return found if found.get("enabled") else {}


def with_section(document: Mapping[str, Any], vpn: Mapping[str, Any]) -> dict[str, Any]:
    """The same document with another VPN."""
    azure = {key: value for key, value in (document.get("azure") or {}).items() if key != "vpn"}
    return {**document, "azure": {**azure, **({"vpn": vpn} if vpn else {})}}
