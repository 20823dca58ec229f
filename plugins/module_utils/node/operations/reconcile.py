# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile: plan, apply, wait for Node Ready, commit. The modules and the command both call it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..components.every import BEFORE, COMPONENTS, wanted
from ..components.newest_program import without_older_program
from ..components.services import SERVICES, at_the_node, unit_key
from ..config.available import check_available, check_profile
from ..config.model import NodeConfig
from ..dataclass import dataclass, replace
from ..drift.other_owners import check_foreign
from ..engine.plan import Plan, Step, make_plan, step_key
from ..engine.prune import tidy
from ..engine.records.checked import note_checked
from ..engine.records.origins import prune_origins
from ..engine.records.record import Record
from ..engine.records.state import Phase, Store
from ..engine.restarts import Progress, silent
from ..engine.run_log import RunLog, recorded
from ..engine.transaction import Around, Gate, Timings, execute, nothing, prove
from ..errors import FlexNodeError
from ..machine.facts import Facts, check_platform, gather
from ..machine.host import Host
from ..net.tunnel import with_tunnel
from ..node_object.certificate import rejected_certificate
from ..node_object.gates import NodeReady, UnitsActive
from ..node_object.problems import ProblemsReported, expect_conditions
from ..resources.admin_conf import AdminConf
from ..resources.retired import Retired
from ..status.publish import publish
from .checks import (
    certificate_in_doubt,
    check_cluster,
    check_identity,
    check_secrets,
    check_token,
    is_lost,
    same_server,
    stored_facts,
)
from .join_record import JoinRecord, commit, forget_restart, settle_records
from .obtain import Obtained
from .outcome import Reconciled, outcome_of, run_log_of
from .refusal import (
    check_blocked,
    end_component_turn,
    finish_previous,
    give_up,
    reason_for,
    settle_failure,
)
from .update import (
    before_change,
    check_downgrade,
    drains,
    end_turn,
    is_held,
    settle_earlier_turn,
    settle_node,
    turn_of,
)
from .vpn.connect import Connected, connect

if TYPE_CHECKING:
    from ..engine.fetch import Fetcher

EVERYTHING = tuple(COMPONENTS)
# A change of these decides over Ready, also without a restart: the kubelet has to report after it.
PODS_NEED = frozenset(("system_config", "runtime", "kubernetes", "cni"))


def reconcile(
    obtained: Obtained,
    components: Sequence[str],
    *,
    check: bool = False,
    retry: bool = False,
    progress: Progress = silent,
    machine: str | None = None,
    leave: frozenset[str] | None = None,
    register: bool = False,
    patience: float | None = None,
) -> Reconciled:
    """Apply a configuration to the machine; with `services`, success means that the Node is Ready.

    retry: also apply a configuration that was rolled back before.
    leave: repair what differs from the applied configuration, but not the items with these keys. What was
    recorded of sources, refused documents and drift stays as it is: nothing new was applied.
    register: the Node was deleted; a run of a node that finds that by itself does the same.
    patience: seconds to wait for the turn of this node, with upgrade.maxUnavailable; None: as configured.
    """
    node = obtained.node
    log = run_log_of(node.host, node.config, obtained.document, progress)
    try:
        with contextlib.nullcontext() if check else recorded(log):
            return converge(obtained, components, log, check, retry, machine, leave, register, patience)
    except FlexNodeError as error:
        if not check and not (error.waits and patience == 0):  # a poll reports what it waits for, once
            publish(node.host, obtained.store)
        raise


def converge(
    obtained: Obtained,
    components: Sequence[str],
    log: RunLog,
    check: bool,
    retry: bool,
    machine: str | None,
    leave: frozenset[str] | None,
    register: bool,
    patience: float | None,
) -> Reconciled:
    """The run itself, with a log of its steps; a failure is not reported yet."""
    host, store = obtained.node.host, obtained.store
    if not check:
        finish_previous(host, store, log)
    held = is_held(store, components)
    applied = store.applied_config()  # a generation that worked: the one to roll back to
    timings, tunnel = Timings(host), Connected()
    try:
        facts = admit(obtained, components, applied, machine, check=check, retry=retry, leave=leave)
    except FlexNodeError as error:
        if not check and applied is not None:
            obtained.refuse(error)
        raise
    before = applied
    if not check and set(BEFORE) <= set(components):
        tunnel = connect(obtained, applied, facts, timings, log, leave=leave)
        applied = store.applied_config()  # with the profile that works now
    if not check:
        settle_earlier_turn(obtained, applied)
    try:
        with timings.of("plan"):
            work = plan_node(obtained, components, facts, leave=leave)
            if register := register or is_lost(obtained.node, components, applied, leave):
                again = at_the_node(obtained.node.config)
                work = replace(work, plan=work.plan.also_restarting(*again, why="its Node was deleted"))
        done = [*tunnel.actions, *work.plan.sentences]
        run = Reconciled(work.plan, done, timings.seconds, warnings=[*tunnel.left, *work.plan.left])
        run.outcome = outcome_of(work.plan, before, obtained.document, before=len(tunnel.actions))
        run.made = tunnel.keys | {step_key(step) for step in work.plan.steps}
        run.drains = work.runs_node and drains(store, applied, obtained.node.config, work.plan)
        if check:
            return run
        joins_again = register or not work.has_certificate
        turn = None if joins_again else turn_of(obtained, applied, run, patience)
        if turn:
            turn.begin()
        if work.plan.changed:
            log.wake()
        check_before_apply(work, obtained, applied)
    except FlexNodeError as error:
        if not check and applied is not None and not error.waits:
            obtained.refuse(error)
        raise
    record = (
        JoinRecord.of(obtained.node, store, had_certificate=work.has_certificate) if work.runs_node else None
    )
    around = Around(
        fetched=partial(before_change, obtained, applied, run, turn, log),
        starting=record.kubelet_starts if record else nothing,
        # Before a repair the machine differed from its configuration: that is no generation to return to.
        returns=leave is None
        and applied is not None
        and (applied != obtained.document or work.plan.replaces_program),
        source=store.source_if_intact(),
        reason=reason_for(obtained),
    )
    obtained.keep()
    try:
        apply(work, obtained, record, timings, log, around)
        log.changes(work.plan.sentences, timings, complete=True)
        if record:
            leaving = record.unfinished_leave
            settle_node(obtained, applied, run, leave or frozenset(), leaving=leaving)
    except FlexNodeError as error:
        log.changes(work.plan.sentences, timings, complete=error.at_gate)
        works = settle_failure(error, obtained, applied, record, around, log) if record else True
        give_up(error, obtained, applied, works=works)
        if register:
            forget_restart(store)
        raise
    log.more(run.actions[len(done) :])  # at the API server
    log.result = run.summary
    if record:
        commit(obtained, record, work.facts)
        end_turn(obtained, applied, run)
        if leave is None:
            settle_records(obtained, components, run)
    if record or applied is None or not held:  # a single component does not prove what another run changed
        tidy(work.plan, host, store)
        store.finish()
        prune_origins(host, store)
        if turn and not record:
            # Not before its transaction ends, nor if an earlier run left one: how that ended is not known.
            end_component_turn(obtained, log)
    if record and set(components) >= set(COMPONENTS):
        note_checked(host)
    return run


@dataclass(frozen=True)
class Work:
    """What is to be done, and with which credential."""

    plan: Plan
    units: tuple[str, ...]  # that must run for the Node to be Ready
    has_certificate: bool  # that the kubelet can go on with
    facts: Facts

    @property
    def runs_node(self) -> bool:
        """Whether this run starts the node, or keeps it running."""
        return bool(self.units)


def admit(
    obtained: Obtained,
    components: Sequence[str],
    applied: Mapping[str, Any] | None,
    machine: str | None,
    *,
    check: bool,
    retry: bool,
    leave: frozenset[str] | None,
) -> Facts:
    """Check the document and the machine, without the network: before anything is changed."""
    node, store, host = obtained.node, obtained.store, obtained.node.host
    facts = gather(host, machine, stored_facts(host, store, asked=leave is None))
    check_platform(facts, host)
    # In check mode nothing was stored: a durable source is not known here. What is prepared polls nothing.
    prepares = "services" not in components
    check_available(node.config, pollable=check or prepares or obtained.is_polled)
    check_foreign(host, store, node.config, joined=applied is not None)
    if not check:
        check_secrets(obtained.document, store)
    if {"services", *BEFORE} & set(components):
        if not retry:
            check_blocked(obtained)
        if not check:
            check_profile(node.config)
    if "services" in components:
        check_downgrade(obtained, applied)
    return facts


def plan_node(
    obtained: Obtained, components: Sequence[str], facts: Facts, *, leave: frozenset[str] | None
) -> Work:
    """Compute all changes."""
    node, store, host = obtained.node, obtained.store, obtained.node.host
    facts = replace(with_tunnel(facts, host, node.config), joined=node.has_credential)
    retired: list[Retired] = []
    # A unit that another process stops again and again would fail every gate: the rest is repaired without.
    runs = "services" in components and not {unit_key(unit) for unit in SERVICES} & (leave or frozenset())
    if runs:
        retired = rejected_certificate(node) if certificate_in_doubt(node, store) else []
        facts = replace(facts, joined=facts.joined and not retired)
        check_token(node, store, rejected_certificate=bool(retired))
    resources, ownership = wanted(components, node.config, facts)
    resources, warnings = without_older_program(host, resources)
    plan = make_plan(resources, host, store, ownership)
    steps = (*(Step(certificate, certificate.change) for certificate in retired), *plan.steps)
    steps = tuple(step for step in steps if step_key(step) not in (leave or ()))
    left = (*warnings, *plan.left)
    units = tuple(unit for unit in SERVICES if runs and unit in {item.name for item in resources})
    return Work(replace(plan, steps=steps, left=left), units, facts.joined, facts)


def check_before_apply(work: Work, obtained: Obtained, applied: Mapping[str, Any] | None) -> None:
    """Ask the API server and the identity provider; a first join that fails here is recorded as failed."""
    node, store = obtained.node, obtained.store
    if any(isinstance(step.resource, AdminConf) for step in work.plan.steps):
        from ..procedures.admin_conf import fetch_admin_conf

        fetch_admin_conf(node.config, node.host)
    try:
        if work.runs_node and (applied is None or work.plan.installs("kubelet")):
            check_cluster(node, known=same_server(applied, obtained.document))
        if work.runs_node and work.plan.changed and (node.uses_tokens or not work.has_certificate):
            check_identity(node)
    except FlexNodeError as error:
        if applied is None:
            obtained.keep()
            store.enter(Phase.NODE_FAILED, code=error.code, message=error.what)
        raise


def apply(
    work: Work,
    obtained: Obtained,
    record: JoinRecord | None,
    timings: Timings,
    progress: Progress,
    around: Around,
) -> None:
    """Execute the plan and pass the gates; an empty plan only has to pass them."""
    node, store, host, plan = obtained.node, obtained.store, obtained.node.host, work.plan
    gates: list[Gate] = []
    if record:
        seconds, applied = node.config.upgrade.gate_seconds, store.applied_config()
        known = same_server(applied, obtained.document)
        ready = NodeReady(node, seconds, work.units, new=applied is None, server_known=known)
        gates = [UnitsActive(work.units, seconds), ready]
        if node.config.npd.version:
            gates.append(ProblemsReported(node, seconds))
        if plan.touches(PODS_NEED):
            around = replace(around, starting=ready.noting(around.starting))
    if plan.changed:
        if record:
            record.begin()
            expect_conditions(node.config, store.state().get("conditions") or [], store.note)
        stager = fetcher(node.config, host, store) if plan.trees else None
        execute(plan, host, store, stager, gates, timings=timings, progress=progress, around=around)
    else:
        around.starting()
        unproven = Record.of(store.transaction())
        # Only an unfinished transaction can be rolled back.
        around = around if unproven else replace(around, returns=False)
        prove(gates, unproven or Record(), host, store, timings=timings, progress=progress, around=around)
    store.journal.release(plan.settled)  # not before the gates: a rollback may bring these items back


def fetcher(config: NodeConfig, host: Host, store: Store) -> Fetcher:
    """Fetches artifacts: with the mirror's CA, and through the site's proxy."""
    # Importing the HTTP client and loading the system's CAs is slow: only if there is something to fetch.
    from ..engine.fetch import Fetcher
    from ..net.proxy import download_client

    return Fetcher(host, download_client(config, host.clock), store.cache)
