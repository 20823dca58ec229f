# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is recorded of a join: phase, token, outcome, and in the end the configuration that works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import dirname
from typing import Any

from ..components.every import COMPONENTS
from ..dataclass import dataclass, replace
from ..drift.record import DriftRecord
from ..engine.records.left import forget_left
from ..engine.records.record import Record, Stage
from ..engine.records.state import Phase, Store
from ..errors import FlexNodeError, TokenRefused
from ..machine.facts import Facts
from ..machine.layout import KUBELET, enabled
from ..node_object.reporter import NodeOfAnother
from ..node_object.this_node import ThisNode
from ..resources.units import SYSTEMCTL_SECONDS
from ..sources.watched import Watched
from ..status.publish import UNPUBLISHED, publish
from .checks import STOPPED
from .obtain import Obtained
from .outcome import Reconciled
from .pool_token import retire_token
from .update import versions

SYNC_SECONDS = 600.0  # a slow disk may have much to write before


@dataclass(frozen=True)
class JoinRecord:
    """One run that starts the kubelet."""

    node: ThisNode
    store: Store
    had_certificate: bool  # before this run
    unfinished_leave: bool  # an unbootstrap was interrupted; its cordon stays recorded until it is undone
    before: Mapping[str, Any]  # the phase when the run began, with its code and message

    @classmethod
    def of(cls, node: ThisNode, store: Store, *, had_certificate: bool) -> JoinRecord:
        """The record of a run that begins now."""
        state = store.state()
        leaving = Phase.RESETTING.value == state["phase"] or bool(state.get("leaving"))
        before = {name: value for name, value in state.items() if name in ("phase", "code", "message", "fix")}
        return cls(node, store, had_certificate, leaving, before)

    @property
    def worked(self) -> bool:
        """Whether the node worked when the run began."""
        return Phase(self.before["phase"]) is Phase.NODE_JOINED

    def begin(self) -> None:
        """Changes begin."""
        self.store.enter(Phase.NODE_BOOTSTRAPPING, **self._leaving)

    def kubelet_starts(self) -> None:
        """From here on the kubelet may have used its token."""
        token = self.node.config.azure.bootstrap_token
        if token and not self.had_certificate:
            self.store.set_join(token.id, "attempted")

    def unchanged(self) -> None:
        """The run failed before its first change: the node is as it was, whether that works or not."""
        phase, details = Phase(self.before["phase"]), dict(self.before)
        del details["phase"]
        self.store.enter(phase, **details, **self._leaving)

    def failed(self, error: FlexNodeError, *, works: bool) -> None:
        """The run failed; a refused token is recorded, and the kubelet stopped.

        It is also stopped if the Node is that of another machine: it would run the pods of that one.
        works: with its previous configuration. What was refused says why, in a record of its own.
        """
        if works:
            self.store.enter(Phase.NODE_JOINED, **self._leaving)
            return
        token = self.node.config.azure.bootstrap_token
        refused = isinstance(error, TokenRefused)
        spent = refused and not self.node.has_credential  # it has one if an earlier certificate was restored
        fix = {"fix": error.fix} if spent else {}  # by where its token came from; only this run knows
        message = f"{error.what}; {STOPPED}" if spent else error.what
        details = {"code": error.code, "message": message, **fix, **self._leaving}
        if refused and token:
            details["join"] = {
                "token": token.id,
                "digest": token.digest,
                "what": error.what,
                "outcome": "refused",
            }
        self.store.enter(Phase.NODE_FAILED, **details)
        if spent:
            self._stop_kubelet()
            error.add(f"{STOPPED}. After you replace the token, the next run continues from here")
        elif isinstance(error, NodeOfAnother) and self.store.applied_if_intact() is None:
            self._stop_kubelet()
            error.add(f"{STOPPED}, so that the Node is the other machine's again")

    def joined(self) -> None:
        """The Node is Ready. A kubelet that had a certificate has joined with the token recorded then."""
        token = self.node.config.azure.bootstrap_token
        used = self.store.join().get("token") if self.had_certificate else None
        used = used or (token.id if token else None)
        outcome = {"join": {"token": used, "outcome": "joined"}} if used else {}
        self.store.enter(Phase.NODE_JOINED, **outcome)

    @property
    def _leaving(self) -> dict[str, bool]:
        return {"leaving": True} if self.unfinished_leave else {}

    def _stop_kubelet(self) -> None:
        """Do not retry a refused token, not after a reboot either. The next run enables the unit again."""
        host, link = self.node.host, enabled(KUBELET)[0]
        host.run(["systemctl", "stop", KUBELET], timeout=SYSTEMCTL_SECONDS, check=False)
        if any(entry.name == link and entry.was == "absent" for entry in self.store.journal.entries()):
            host.remove(link)


def commit(obtained: Obtained, record: JoinRecord, facts: Facts) -> None:
    """The gates have passed: what was applied is the generation that the next run can roll back to."""
    store = obtained.store
    if not record.worked:
        sync_certificate(obtained.node)
    if done := Record.of(store.transaction()):
        store.begin(replace(done, stage=Stage.COMMITTED).as_dict())  # first: from here on nothing returns
    record.joined()
    config, document = obtained.node.config, retire_token(obtained.document, obtained.node, store)
    installed = {name: str(version) for name, version in versions(config).items()}
    drift = {"mode": config.drift.mode, "interval": config.drift.interval}  # a poll reads this only
    known = replace(facts, hostname=obtained.node.name).stored
    store.note(versions=installed, labels=sorted(config.node.labels) or None, facts=known, drift=drift)
    version = obtained.version or store.config_version()
    if document is not obtained.document:
        store.set_current_config(document, version)
    store.set_applied_config(document, version)


def sync_certificate(node: ThisNode) -> None:
    """The kubelet does not sync it, and its token may be gone: a power cut must not lose the certificate."""
    if node.uses_tokens:
        return
    directory = dirname(node.identity)
    files = [f"{directory}/{name}" for name in node.host.names(directory)]
    node.host.run(["sync", "--", *files, directory], timeout=SYNC_SECONDS, check=False)


def settle_records(obtained: Obtained, components: Sequence[str], run: Reconciled) -> None:
    """A configuration was applied on request: what was refused or contended before is history."""
    store = obtained.store
    store.forget_refused()
    store.set_drift(None)
    forget_left(obtained.node.host)
    # Before the source is settled and the transaction removed: a run that is killed here is completed later.
    status = publish(obtained.node.host, store, node=obtained.node, record=DriftRecord())
    run.warnings += [f"the status could not be reported: {line}" for line in status.get(UNPUBLISHED, ())]
    if set(components) >= set(COMPONENTS) and (watched := Watched.of(store.source_if_intact())):
        store.set_source(replace(watched, settled=True).as_dict())


def forget_restart(store: Store) -> None:
    """Of a run that failed and only restarted units: there is no change to complete, or to roll back."""
    done = Record.of(store.transaction())
    if done and not done.before:
        store.finish()
