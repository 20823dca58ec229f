# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole check: the machine and its Node compared with the applied configuration. Changes nothing.

It runs in the sandbox of the poll service as well as for an administrator. Without capabilities root can't
read every file, nor the link /proc/PID/exe. What can't be read there is not judged there: `unsure` says so,
and the apply service, which sees all, makes the check again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os.path import basename
from typing import Any

from ..components.every import AFTERWARDS, COMPONENTS, wanted
from ..components.kubelet import cluster_ca
from ..components.labels import node_labels
from ..components.newest_program import ALTERED, altered_program, without_older_program
from ..components.services import SERVICES, unit_key
from ..components.vpn.client import PROFILE
from ..config.model import NodeConfig
from ..config.parse import parse
from ..dataclass import dataclass
from ..engine.orphans import Orphan
from ..engine.plan import Plan, Step, make_plan, step_key
from ..engine.records.state import Store
from ..errors import FlexNodeError, NotInCatalogue
from ..machine.facts import LOST, gather
from ..machine.host import Host
from ..machine.layout import NPD
from ..machine.running import confirm, main_process
from ..net.kube import Json
from ..net.tunnel import with_tunnel
from ..node_object.certificate import renewal
from ..node_object.labels import label_key
from ..node_object.problems import leftover_conditions
from ..node_object.taints import taint_changes
from ..node_object.this_node import ThisNode
from ..resources.units import Unit
from .classes import finding_of
from .others import OTHER_MACHINE, certificates, drop_ins, renamed, resolver, rivals, two_machines
from .record import PULL_INSTALL, REPAIR, REPORT, RESTART, DriftRecord, Finding, node_key

EVERY_KIND = ("",)  # how the keys of all items begin
OF_THE_NODE = ("node:", "label:", "taint:", "condition:", OTHER_MACHINE)  # items at the API server


@dataclass(frozen=True)
class Drift:
    """The result of a check: the record as it is now, and whether a repair is needed."""

    record: DriftRecord
    repairs: frozenset[str] = frozenset()  # keys of items to be repaired now
    unsure: str = ""  # what could not be read from here; the apply service, with all rights, checks again
    ring: str | None = None  # that an administrator chose for rollouts, by a label of the Node
    seen: Seen | None = None  # None: nothing was compared

    @property
    def what(self) -> list[str]:
        """What is to be repaired, in words."""
        return [item.what for item in self.record.items if item.item in self.repairs]


@dataclass(frozen=True)
class Seen:
    """Everything that differs; and kinds of items that could not be looked at."""

    findings: tuple[Finding, ...] = ()
    unseen: tuple[str, ...] = ()
    ring: str | None = None
    read: bool = False  # the API server has answered
    node: Json | None = None  # what it returned; None: there is no such Node


def check_drift(host: Host, store: Store, now: float) -> Drift:
    """Compare everything. The caller writes the record and repairs, or hands over to a service that does."""
    known = DriftRecord.of(store)
    mode = (store.state().get("drift") or {"mode": "off"})["mode"]
    document = store.applied_if_intact()
    if mode == "off" or document is None:
        return Drift(DriftRecord())
    try:
        seen = look(host, store, document, now)
    except PermissionError as error:
        return Drift(known, unsure=f"{error.filename} can't be read here")
    except FlexNodeError as error:  # something is in the way of the check itself: nothing is known of items
        failed = Finding("check:all", REPORT, f"{error.code}: {error.what}: {error.why}")
        return Drift(known.updated((failed,), now, repair=mode == "repair", unseen=EVERY_KIND))
    record = known.updated(seen.findings, now, repair=mode == "repair", unseen=seen.unseen)
    return Drift(record, repairable(record, now), ring=seen.ring, seen=seen)


def repairable(record: DriftRecord, now: float) -> frozenset[str]:
    """Keys of what a repair can reach: not the Node, as long as one of its services is contended."""
    found = record.to_repair(now)
    if not {unit_key(unit) for unit in SERVICES} & record.left_alone:
        return found
    return frozenset(key for key in found if not key.startswith(OF_THE_NODE))


def look(host: Host, store: Store, document: Mapping[str, Any], now: float) -> Seen:
    """All differences between the machine, its Node and a document. Also for the status."""
    config = parse(document, purpose="join", pollable=True)
    facts = with_tunnel(gather(host, stored=store.state().get("facts") or LOST), host, config)
    unknown: tuple[Finding, ...] = ()
    try:
        resources, ownership = wanted((*COMPONENTS, *AFTERWARDS), config, facts)
    except NotInCatalogue as error:  # of Ansible, for the Python of a new release of the system
        resources, ownership = wanted(COMPONENTS, config, facts)
        unknown = (Finding("check:pull", REPORT, f"{error.code}: {error.what}: {error.why}"),)
    altered = altered_program(resources)
    resources, _warnings = without_older_program(host, resources)
    plan = make_plan(resources, host, store, ownership)
    for unit in (item for item in resources if isinstance(item, Unit) and item.binary):
        _confirm(host, unit)
    node = ThisNode.of(host, config)
    client = "" if node.uses_tokens else node.identity
    ours = {resource.name for resource in resources}
    pulls, profile = config.pull.repository is not None, PROFILE if config.azure.vpn.enabled else ""
    findings = (
        *([Finding(f"program:{altered}", REPORT, f"{altered} {ALTERED}")] if altered else ()),
        *_of_steps(plan, None if unknown else store.pulled().get("install"), pulls),
        *unknown,
        *certificates(host, client, cluster_ca(config), profile, now, renewal=renewal(node)),
        *(() if config.node_name else renamed(host, node.name)),
        *(() if "resolvConf" in config.kubelet.config_overrides else resolver(host, facts.resolv_conf)),
        *drop_ins(host, (*SERVICES, NPD) if config.npd.version else SERVICES, ours),
        *(() if config.takeover else rivals(host, store)),
    )
    if node.is_cut_off:
        return Seen(findings, OF_THE_NODE)
    if not node.has_credential:
        return Seen(findings)
    try:
        at_server = node.read_once()
    except FlexNodeError:  # it can't be reached: nothing is known of them now
        return Seen(findings, OF_THE_NODE)
    if at_server is None:
        return Seen((*findings, *_lost(node)), read=True)
    state = store.state()
    of_node = at_api_server(node, at_server, state.get("taints") or [])
    left = _conditions(node, at_server, state.get("conditions") or [])
    known = [item.item for item in DriftRecord.of(store).items]
    return Seen(
        (*findings, *of_node, *left, *two_machines(node, at_server, known)),
        ring=_ring(config, at_server),
        read=True,
        node=at_server,
    )


def _of_steps(plan: Plan, failed: Mapping[str, str] | None, pulls: bool) -> Iterator[Finding]:
    """What differs on the machine.

    failed: why ansible-pull could not be installed. Then all that it lacks is one item: a repair tries again.
    pulls: whether there is a repository. Without one, an installation that never worked is no drift: only
    what is still there and could not be removed is.
    """
    steps = list(plan.steps)
    if failed:
        steps = [step for step in steps if not _is_of_pull(plan, step)]
    yield from map(finding_of, steps)
    if failed and (pulls or len(steps) < len(plan.steps)):
        yield not_installed(failed)


def _is_of_pull(plan: Plan, step: Step) -> bool:
    """Whether a step is of ansible-pull and of nothing else."""
    item = step.resource
    owners = item.entry.of if isinstance(item, Orphan) else plan.owners.get(step_key(step), frozenset())
    return bool(owners) and frozenset(owners) <= set(AFTERWARDS)


def not_installed(failed: Mapping[str, str]) -> Finding:
    """ansible-pull could not be installed, or not be removed."""
    what = f"ansible-pull is not as configured: {failed['code']}: {failed['message']}"
    return Finding(PULL_INSTALL, REPAIR, what)


def _lost(node: ThisNode) -> Iterator[Finding]:
    """The Node was deleted, and its kubelet does not notice. That of a pool AKS deletes: the poll decides."""
    if not node.config.azure.target_agent_pool_name:
        what = f"Node {node.name} does not exist: a kubelet registers it only when it starts"
        yield Finding(node_key(node.name), RESTART, what)


def _ring(config: NodeConfig, at_server: Mapping[str, Any]) -> str | None:
    """The ring by the label of the Node; None: there are no rollouts, or the configuration sets the label."""
    label = config.upgrade.ring_label
    if config.upgrade.max_unavailable is None or label in config.node.labels:
        return None
    return str((at_server["metadata"].get("labels") or {}).get(label) or "")


def at_api_server(
    node: ThisNode, seen: Mapping[str, Any], known_taints: list[dict[str, str]]
) -> Iterator[Finding]:
    """Labels and taints of the Node that differ. A node may change its labels, but not its taints."""
    yield from _labels(node.config, seen["metadata"].get("labels", {}))
    changes, _ours = taint_changes(node.config, known_taints, seen)
    for verb, taints in changes.items():
        for taint in taints:
            name = f"{taint['key']}:{taint['effect']}"
            word = "is missing on" if verb == "set" else "is still on"
            what = f"taint {name} {word} Node {node.name}: a node may not change its own"
            yield Finding(f"taint:{name}", REPORT, what)


def _labels(config: NodeConfig, have: Mapping[str, str]) -> Iterator[Finding]:
    for key, value in sorted(node_labels(config).items()):
        if have.get(key) != value:
            was = f"is {have[key]}" if key in have else "is missing"
            yield Finding(label_key(key), REPAIR, f"label {key}={value}: it {was} at the API server")


def _conditions(node: ThisNode, seen: Mapping[str, Any], known: list[str]) -> Iterator[Finding]:
    for name in leftover_conditions(node.config, known, seen):
        what = f"condition {name} is still on Node {node.name}, without node-problem-detector"
        yield Finding(f"condition:{name}", REPAIR, what)


def _confirm(host: Host, unit: Unit) -> None:
    """Note a process that is right, for the sandbox; only who can read what it runs may do that."""
    pid = main_process(host, unit.unit, basename(unit.binary))
    try:
        readable = bool(pid and host.stat(f"/proc/{pid}/exe").target)
    except (PermissionError, ProcessLookupError):
        return
    if readable and unit.observe(host) == unit.mark:
        confirm(host, pid, unit.binary)
