# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unbootstrap: the machine leaves the cluster and the host is restored. Best effort, every step reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

from ..config.model import NodeConfig
from ..engine.prune import clear_staging
from ..engine.records.journal import Entry
from ..engine.records.places import changed_paths, sync_places
from ..engine.records.state import Phase, Store, store_of
from ..engine.restarts import Progress, silent
from ..engine.restore_host import restore_host
from ..engine.run_log import RunLog, log_of, recorded
from ..errors import FlexNodeError, StateCorrupt
from ..identity.cache import forget_tokens
from ..machine.host import Host
from ..machine.layout import CONTAINERD, KUBELET, PULL_SERVICE, UNIT_DIR
from ..resources.paths import path_mark
from ..resources.units import unit_states
from ..status.textfile import has_textfiles, remove_textfiles
from .checks import Expected, check_expected
from .leaving.cluster import applied_node, leave_cluster, leave_unknown_cluster
from .leaving.report import Left
from .leaving.runtime import start, stop_containerd, stop_pods, stop_pull
from .leaving.runtime_users import (
    DATA,
    RuntimeUsers,
    older_than_join,
    remove_kubernetes_data,
    runtime_users,
)

InAzure = Callable[[Optional[NodeConfig]], list[str]]  # noqa: UP045 - returns what remains, and why

DRAIN_SECONDS = 120.0  # a pod has 30 s to end; then a slow machine needs some more to stop it


def nothing_in_azure(_config: NodeConfig | None) -> list[str]:
    """Nothing was created there, or something else removes it."""
    return []


def leave(
    host: Host,
    *,
    drain_seconds: float = DRAIN_SECONDS,
    check: bool = False,
    progress: Progress = silent,
    in_azure: InAzure = nothing_in_azure,
    aks_deletes: bool = False,
    expected: Expected | None = None,
) -> Left:
    """Leave the cluster and restore the host. Can be run twice, and after a crash at any point.

    aks_deletes: AKS deletes the Node; that this machine may not do so is no reason to complain.
    in_azure: removes what was created in Azure. It comes before the host is restored: until then the timer
    takes up an interrupted leave.
    expected: which node this machine must be, if it is one; another one is refused before it is changed.
    """
    store = store_of(host)
    if expected:
        check_expected(host, store, expected)
    if check or not store.journal.entries():
        return leave_with(RunLog(host, "", also=progress), store, drain_seconds, in_azure, check=check)
    with recorded(RunLog(host, log_of(store.journal), also=progress)) as log:
        log.wake()
        report = leave_with(log, store, drain_seconds, in_azure)
        report.node_remains = "" if aks_deletes else report.node_remains
        return report


def leave_with(
    log: RunLog, store: Store, drain_seconds: float, in_azure: InAzure, *, check: bool = False
) -> Left:
    """The same, with a log of its steps."""
    host, report, entries = log.host, Left(), store.journal.entries()
    if not entries and store.remembered()[0] is None:
        if not check and store.is_there:
            report.remains += store.forget()  # left by a run that was killed at its very start or end
        return report
    if check:
        report.actions = ["leave the cluster", *(f"restore {entry.name}" for entry in reversed(entries))]
        return report

    def act(sentence: str, step: Callable[[], None]) -> None:
        """Do one step and report it; a failure is reported, and the next step follows."""
        log(sentence)
        report.actions.append(sentence)
        try:
            step()
        except FlexNodeError as error:
            log.failed(f"{error.code}: {error.what}: {error.why}")
            report.remains.append(f"{sentence}: {error.what}: {error.why}. {error.fix}")

    again, deleted = was_leaving(store, report, log)  # the Node may have been deleted last time
    store.enter(Phase.RESETTING, **({"nodeDeleted": True} if deleted else {}))
    journaled = {entry.key for entry in entries}
    if f"file:{UNIT_DIR}/{PULL_SERVICE}" in journaled and PULL_SERVICE not in host.text("/proc/self/cgroup"):
        act("stop ansible-pull", lambda: stop_pull(host))  # its tasks would go on
    was_node = f"unit:{KUBELET}" in journaled
    node, unusable = applied_node(host, store, was_node=was_node)
    if node and was_node:
        leave_cluster(node, store, drain_seconds, report, act, log, deleted=deleted)
        if store.applied_if_intact() and not again and not node.has_credential:
            report.node_remains = "the kubelet has no certificate to delete it with"
    elif was_node and (unusable or has_our(KUBELET, host, entries)):  # else a run ended while it cleaned up
        leave_unknown_cluster(host, store, report, act, deleted=deleted)
    report.remains += unusable
    report.remains += in_azure(node.config if node else None)
    users = RuntimeUsers()
    if f"unit:{CONTAINERD}" in journaled or has_our(CONTAINERD, host, entries):
        if not older_than_join(entries):
            users = runtime_users(host)
        act("stop all pods", lambda: stop_pods(host))
        if users.namespaces and users.beside_kubernetes:
            act("remove images and containers of Kubernetes", lambda: remove_kubernetes_data(host))
        act("stop containerd", lambda: stop_containerd(host, node.config if node else None))
    log("restore files, settings and units")
    clear_staging(host)
    report.items = restore_host(host, store, keep={DATA: users.why} if users else {})
    stayed = ("left", "failed")
    for item in report.items:
        log.line("warning" if item.outcome in stayed else "info", f"{item.outcome:<8} {item.key} {item.why}")
    report.actions += [f"{item.outcome} {item.key}" for item in report.items if item.outcome not in stayed]
    report.remains += [f"{item.key}: {item.why}" for item in report.items if item.outcome in stayed]
    if users and unit_states(host, (CONTAINERD,))[CONTAINERD]["UnitFileState"]:
        # Of a package that was installed after the join (docker needs one): it finds the data of its users.
        act("start containerd of another owner", lambda: start(host, CONTAINERD))
    forget_tokens(host)
    if has_textfiles(host):
        act("remove the metrics file of node_exporter", lambda: remove_textfiles(host))
    if not any(item.outcome == "failed" for item in report.items):  # otherwise the next run needs the journal
        changed = changed_paths(entries, store)
        sync_places(host, changed)  # on the disk, before the record of what is to be restored goes
        report.remains += store.forget()
        sync_places(host, changed)
    elif not (node and node.has_credential):
        store.note(facts=None)  # it is no Node any more: it may join under another name
    return report


def has_our(unit: str, host: Host, entries: Sequence[Entry]) -> bool:
    """Whether the file of a unit is ours now: a run may have been killed before it replaced it."""
    unit_file = f"file:{UNIT_DIR}/{unit}"
    return any(entry.key == unit_file and path_mark(host, entry.name) in entry.marks for entry in entries)


def was_leaving(store: Store, report: Left, progress: Progress) -> tuple[bool, bool]:
    """Whether an earlier run was interrupted, and had deleted the Node.

    A damaged state is reported, the journal does not need it.
    """
    try:
        state = store.state()
        again = state.get("phase") == Phase.RESETTING.value
        return again, again and bool(state.get("nodeDeleted"))
    except StateCorrupt as error:
        report.actions.append(f"continue without {error.where}, which is damaged: the journal is enough")
        progress(report.actions[-1])
        return False, False
