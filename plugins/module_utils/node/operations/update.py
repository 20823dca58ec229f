# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of a joined node: which versions it may change to, and when its pods have to leave first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..components.every import AFTERWARDS
from ..components.newest_program import LINK
from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.values import Version
from ..engine.plan import Plan
from ..engine.records.record import Record
from ..engine.records.state import Store
from ..engine.restarts import Progress
from ..errors import ConfigInvalid, Downgrade, FlexNodeError, NotDrained, counted
from ..machine.host import Host
from ..machine.layout import CONTAINERD, KUBELET
from ..machine.program import COMMAND, VERSION
from ..node_object.drain import drain, uncordon
from ..node_object.this_node import ThisNode
from ..resources.program import Program
from .obtain import Obtained

PLAN_SECONDS = 120.0
OWN_CHOICE = ("containerd", "runc", "cni")  # their versions have defaults, which a release may change


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
    }


def check_downgrade(obtained: Obtained, applied: Mapping[str, Any] | None) -> None:
    """No silent downgrade: an older kubelet must be allowed, anything else older must be named."""
    config = obtained.node.config
    if applied is None or config.upgrade.allow_downgrade:
        return
    installed, asked = installed_versions(obtained.store, applied), versions(config)
    for name in installed:
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
    plan: Plan, obtained: Obtained, applied: Mapping[str, Any] | None, drained: bool, progress: Progress
) -> None:
    """All is staged, and nothing is changed yet: the last moment to refuse."""
    check_program(obtained.node.host, plan)
    if drained:
        drain_first(present_node(obtained, applied), obtained.store, progress)


def check_program(host: Host, plan: Plan) -> None:
    """A new release of this program must be able to plan on this machine before it replaces the old one.

    Its directory is named by its content and no link points there yet: placing it changes nothing.
    """
    new = [step.resource for step in plan.steps if isinstance(step.resource, Program)]
    if not new or not host.stat(LINK).target:
        return
    (program,) = new
    program.apply(host)
    command = f"{program.path}/{COMMAND}"
    done = host.run([command, "plan"], timeout=PLAN_SECONDS, check=False)
    if done.status != 0:
        host.remove_tree(program.path)
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
