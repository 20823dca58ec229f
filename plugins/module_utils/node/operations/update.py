# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of a joined node: which versions it may change to, and when its pods have to leave first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..components.every import AFTERWARDS
from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.values import Version
from ..engine.plan import Plan
from ..engine.records.record import Record
from ..engine.records.state import Phase, Store
from ..engine.restarts import Progress
from ..errors import ConfigInvalid, Downgrade, FlexNodeError, NotDrained, counted
from ..machine.host import Host
from ..machine.layout import CONTAINERD, KUBELET
from ..machine.program import COMMAND, VERSION
from ..node_object.conditions import summary
from ..node_object.drain import drain, uncordon
from ..node_object.labels import update_labels
from ..node_object.problems import settle_conditions
from ..node_object.taints import taint_changes
from ..node_object.this_node import ThisNode
from ..resources.program import Program
from ..resources.units import RUNNING, unit_states
from ..rollout.decide import Change, Policy
from ..rollout.local import DONE, ROLLED_BACK, UNCHANGED, Local, forget_waiting, owes
from ..rollout.software import rollout_of, software
from ..rollout.turn import Turn, forget, register, settle, settle_debts
from .obtain import Obtained
from .outcome import Reconciled

PLAN_SECONDS = 120.0
OWN_CHOICE = ("containerd", "runc", "cni", "npd")  # an older one is installed, if the document names it


class ProgramUnusable(FlexNodeError):
    """A release that does not work here, whatever it is that brings it: a play, a pull, an administrator."""

    code, title = "FLEX-1405", "A new release of this collection does not work on this machine"
    remedy = "use another release of aks.flexnode; the node keeps working with the installed one"


def versions(config: NodeConfig) -> dict[str, Version]:
    """The versions of everything that can be older than what is installed."""
    return {
        "kubernetes": config.kubernetes.version,
        "containerd": config.containerd.version,
        "runc": config.runc.version,
        "cni": config.cni.version,
        **({"npd": config.npd.version} if config.npd.version else {}),
    }


def check_downgrade(obtained: Obtained, applied: Mapping[str, Any] | None) -> None:
    """No silent downgrade: an older kubelet must be allowed, anything else older must be named."""
    config = obtained.node.config
    if applied is None or config.upgrade.allow_downgrade:
        return
    installed, asked = installed_versions(obtained.store, applied), versions(config)
    for name in (name for name in installed if name in asked):
        named = bool((obtained.document.get(name) or {}).get("version"))
        if asked[name] < installed[name] and not (named and name in OWN_CHOICE):
            fix = "" if name not in OWN_CHOICE else f"set {name}.version to the version that you want"
            raise Downgrade(
                f"{name} {asked[name]} is older than the installed {installed[name]}",
                where=f"{name}.version",
                why="Kubernetes does not support going back"
                if name == "kubernetes"
                else "this release of aks.flexnode has an older default",
                fix=fix,
            )


def installed_versions(store: Store, applied: Mapping[str, Any]) -> dict[str, Version]:
    """The versions that were applied last. The document alone does not say: defaults differ by release."""
    if noted := store.state().get("versions"):
        return {name: Version.parse(version) for name, version in noted.items()}
    try:
        return versions(parse(applied, purpose="prepare", pollable=True))
    except ConfigInvalid:  # this release does not accept it any more
        return {}


def drains(store: Store, applied: Mapping[str, Any] | None, config: NodeConfig, plan: Plan) -> bool:
    """Whether pods leave before this plan is applied, by upgrade.drain; for a new containerd major always."""
    if applied is None or not (plan.restarts_unit(KUBELET) or plan.restarts_unit(CONTAINERD)):
        return False
    asked = versions(config)
    before = {**asked, **installed_versions(store, applied)}
    if before["containerd"].major != asked["containerd"].major:
        return True
    if config.upgrade.drain == "minor":
        return before["kubernetes"].line != asked["kubernetes"].line
    return config.upgrade.drain == "always"


def present_node(obtained: Obtained, applied: Mapping[str, Any] | None) -> ThisNode:
    """The node as it works now, for a drain: the new configuration may name another server.

    Before the first join, or if this release refuses the applied document, the node of the new one.
    """
    try:
        config = parse(applied, purpose="join", pollable=True) if applied else None
    except ConfigInvalid:
        config = None
    return ThisNode.of(obtained.node.host, config) if config else obtained.node


def is_held(store: Store, components: Sequence[str]) -> bool:
    """Whether an earlier run left a change that no gate has passed yet, and that this run can't prove.

    What comes after the node needs no gate: such a run completes what an earlier one of the same kind began.
    """
    record = Record.of(store.transaction())
    if record is None or not set(components) <= set(AFTERWARDS):
        return record is not None
    owners = {entry.key: entry.of for entry in store.journal.entries()}
    return any(not owners.get(key, set()) <= set(AFTERWARDS) for key in record.before)


def before_change(
    obtained: Obtained,
    applied: Mapping[str, Any] | None,
    run: Reconciled,
    turn: Turn | None,
    progress: Progress,
) -> None:
    """All is staged, and nothing is changed yet: the last moment to refuse.

    Other nodes wait while this one has its turn, so what can refuse comes before it, and the drain after it.
    """
    check_program(obtained.node.host, run.plan)
    if turn:
        turn.take(progress)
    if run.drains:
        drain_first(present_node(obtained, applied), obtained.store, progress)


def check_program(host: Host, plan: Plan) -> None:
    """A new release of this program must be able to plan on this machine before it replaces the old one.

    Its directory is named by its content and no link points there yet: placing it changes nothing.
    """
    command = plan.next_program
    if not command:
        return
    for step in plan.steps:
        if isinstance(step.resource, Program):
            step.resource.apply(host)
    done = host.run([command, "plan"], timeout=PLAN_SECONDS, check=False)
    if done.status != 0:
        host.remove_tree(command.rpartition("/")[0])
        output = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise ProgramUnusable(
            f"the {COMMAND} command of release {VERSION} can't plan on this machine",
            where=command,
            why=f"{' / '.join(output[-2:])[:300] or 'it printed no reason'}. The installed one stays",
        )


def drain_first(node: ThisNode, store: Store, progress: Progress) -> None:
    """Cordon and drain; a Node that was cordoned by someone else stays so afterwards."""
    seen = node.read()
    if seen is None:  # AKS has drained and deleted the Node of a pool
        return
    if not seen.get("spec", {}).get("unschedulable"):
        store.note(cordoned=True)  # before the act: a crash must not leave a cordon that nobody remembers
    seconds = node.config.upgrade.drain_seconds
    progress(f"drain {node.name} (at most {seconds} s)")
    drained = drain(node.api(), node.name, node.host.clock, seconds, progress)
    if not drained.complete:
        raise NotDrained(
            f"{counted(len(drained.stayed), 'pod')} did not leave within {seconds} s",
            where=node.name,
            why=f"{', '.join(drained.lines)}. Nothing was changed",
        )


def end_drain(
    node: ThisNode, store: Store, error: FlexNodeError | None = None, *, leaving: bool = False
) -> list[str]:
    """Uncordon what this collection cordoned; returns what was done, in words.

    After a failure the Node takes pods again too; if that fails, the next run does it.
    """
    if not (store.state().get("cordoned") or leaving):
        return []
    try:
        done = uncordon(node.api(), node.name)
    except FlexNodeError as second:
        if error is None:
            raise
        error.add(f"Node {node.name} is still cordoned ({second.what}); the next run uncordons it")
        return []
    store.note(cordoned=None)
    return done


def settle_node(
    obtained: Obtained,
    applied: Mapping[str, Any] | None,
    run: Reconciled,
    leave: frozenset[str],
    *,
    leaving: bool,
) -> None:
    """Bring the Node object up to date: labels, annotations, conditions, and whether it takes pods again."""
    node, store = obtained.node, obtained.store
    wanted_labels = sorted(node.config.node.labels)
    labels = store.state().get("labels") or sorted(((applied or {}).get("node") or {}).get("labels") or {})
    if not set(wanted_labels) <= set(labels):
        # Before the act: labels of an update that is killed now must be removed one day, too.
        store.note(labels=sorted({*labels, *wanted_labels}))
    run.actions += update_labels(node, labels, obtained.version or store.config_version(), leave)
    run.actions += settle_conditions(node, store.state().get("conditions") or [], store.note)
    run.actions += end_drain(node, store, leaving=leaving)
    seen = node.read() or {}
    run.node = summary(node.name, seen)
    known = store.state().get("taints") or []
    run.pool = node.config.azure.target_agent_pool_name or ""
    run.taints, ours = taint_changes(node.config, known, seen)
    if ours != known:
        store.note(taints=ours or None)


# -- rollouts: how many nodes of the cluster are down at once ------------------------------------------------


def turn_of(
    obtained: Obtained,
    applied: Mapping[str, Any] | None,
    run: Reconciled,
    patience: float | None,
) -> Turn | None:
    """The turn that a joined node needs for this plan; None: no limit is set, or nothing that runs restarts.

    A repair of a node whose kubelet or containerd is down takes no turn: it is down already.
    patience: None: as configured.
    """
    config, store, plan = obtained.node.config, obtained.store, run.plan
    upgrade, restarted = config.upgrade, [unit for unit in (KUBELET, CONTAINERD) if plan.restarts_unit(unit)]
    if applied is None or upgrade.max_unavailable is None or not restarted:
        return None
    updates = applied != obtained.document or plan.replaces_program
    node, local = present_node(obtained, applied), Local.of(store)
    if not updates and not all(
        state["ActiveState"] in RUNNING for state in unit_states(node.host, (KUBELET, CONTAINERD)).values()
    ):
        return None
    before = node.config if node is not obtained.node else None
    present = local.software or software(before or config, installed_versions(store, applied))
    program = f"aks.flexnode {VERSION}" if plan.replaces_program and applied == obtained.document else ""
    rollout = rollout_of(before, config, program) if updates else ""
    interrupted = store.transaction() is not None
    begun = local.slot is not None and interrupted and local.slot.change.rollout == rollout
    change = Change(
        node.name,
        ring_of(node, config, local),
        rollout,
        (words_of(run.outcome.settings) or program) if updates else "repair",
        present,
        software(config) if updates else present,
        begun=begun,
        down=local.slot is not None and not begun and (interrupted or not is_settled(store)),
    )
    policy = Policy(
        upgrade.max_unavailable, upgrade.rings, float(upgrade.soak_seconds), upgrade.max_rolled_back
    )
    return Turn(node, store, change, policy, float(upgrade.wait_seconds) if patience is None else patience)


def is_settled(store: Store) -> bool:
    """Whether the node worked when its last run ended, and takes pods."""
    state = store.state()
    return state["phase"] == Phase.NODE_JOINED.value and not state.get("cordoned")


def words_of(settings: Sequence[str]) -> str:
    """A change in words: its versions, else the names of its settings."""
    return ", ".join([one for one in settings if " -> " in one] or settings)


def ring_of(node: ThisNode, config: NodeConfig, local: Local) -> str:
    """The ring of this node: its label in the configuration, else the one that its Node has."""
    label = config.upgrade.ring_label
    if label in config.node.labels:
        return config.node.labels[label]
    try:
        labels = ((node.read(attempts=1) or {}).get("metadata") or {}).get("labels") or {}
    except FlexNodeError:
        return local.ring  # as it was when it was registered
    return str(labels.get(label) or "")


def end_turn(obtained: Obtained, applied: Mapping[str, Any] | None, run: Reconciled) -> None:
    """The node works with its new software: release its slot, and register what it runs now."""
    node, store, upgrade = obtained.node, obtained.store, obtained.node.config.upgrade
    forget_waiting(store)
    local, present = Local.of(store), software(node.config)
    failed = []
    if local.slot:
        failed.append(settle(node, store, DONE if local.slot.change.after == present else UNCHANGED))
    if upgrade.max_unavailable is not None:
        ring = ring_of(node, node.config, local)
        failed.append(register(node, store, ring, present, late=applied is not None, works=True))
    elif local.software:
        try:
            forget(node, store)
        except FlexNodeError as error:
            failed.append(f"this node is still registered for rollouts: {error.what}: {error.why}")
    run.warnings += [line for line in failed if line]


def give_up_turn(node: ThisNode, store: Store, code: str, *, rolled_back: bool, works: bool) -> str:
    """A change ended without success: release the slot, unless the node is down or still in the middle of it.

    rolled_back: because of the configuration, which counts against the rollout.
    """
    if Record.of(store.transaction()) or Local.of(store).slot is None:
        return ""
    works = works and not store.state().get("cordoned")
    return settle(node, store, ROLLED_BACK if rolled_back else UNCHANGED, code, works=works)


def settle_earlier_turn(obtained: Obtained, applied: Mapping[str, Any] | None) -> None:
    """Report what an earlier run could not report, for example because the API server did not answer.

    How a change ended that was interrupted is not known yet: this run finds out.
    """
    local = Local.of(obtained.store)
    if owes(obtained.store) and (local.pending or (local.slot and local.slot.outcome)):
        settle_debts(present_node(obtained, applied), obtained.store)
