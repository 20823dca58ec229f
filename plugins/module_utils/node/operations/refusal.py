# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations that were refused or rolled back: what is remembered of them, and why they stay blocked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..components.services import SERVICES
from ..config.document import canonical
from ..config.parse import parse
from ..dataclass import replace
from ..engine.leftovers import clear_leftovers
from ..engine.prune import discard_new
from ..engine.records.record import Record, Stage
from ..engine.records.state import Phase, Store
from ..engine.restarts import Progress
from ..engine.rollback import roll_back
from ..engine.transaction import Around, Reason
from ..errors import (
    ApiUnreachable,
    ArtifactTruncated,
    ArtifactUnreachable,
    Blocked,
    ConfigUnreachable,
    DigestMismatch,
    DiskFull,
    FlexNodeError,
    NotDrained,
    ReadOnlyTarget,
    RollbackIncomplete,
    TokenRefused,
    VersionSkew,
)
from ..identity.errors import TokenSourceUnreachable
from ..machine.clock import stamp
from ..machine.host import Host
from ..machine.program import sources
from ..node_object.advice import advise, place_of
from ..node_object.gates import NodeReady
from ..node_object.kubelet_log import AGAIN
from ..node_object.problems import settle_conditions
from ..node_object.reporter import NodeOfAnother
from ..node_object.this_node import ThisNode
from ..procedures.arc.errors import ArmUnusable, RolesMissing
from ..procedures.vpn.errors import VpnRefused, VpnUnreachable, VpnUnusable
from ..resources.program import digest_of
from ..rollout.errors import RolloutStopped, RolloutUnknown, RolloutWaits
from ..rollout.local import Local
from ..sources.errors import Unforeseen
from ..status.reasons import changed_by, some
from .join_record import JoinRecord
from .obtain import Obtained
from .outcome import changed_keys
from .update import end_drain, give_up_turn, present_node

# Transient failures (network, mirror, disk, pods that stay): another try may help, no other document would.
TRANSIENT = (
    ApiUnreachable,
    ArmUnusable,
    ArtifactTruncated,
    ArtifactUnreachable,
    ConfigUnreachable,
    DigestMismatch,  # a proxy's page with status 200, or a mirror that is being filled
    DiskFull,
    NodeOfAnother,  # until one of the two machines has another name
    NotDrained,
    ReadOnlyTarget,
    RolesMissing,  # a role assignment takes minutes to be effective
    RollbackIncomplete,
    RolloutStopped,
    RolloutUnknown,
    RolloutWaits,
    TokenSourceUnreachable,
    Unforeseen,
    VersionSkew,
    VpnRefused,  # by a gateway that was set up anew, for example: another profile blocks only if it works
    VpnUnreachable,
    VpnUnusable,
)
NOT_THE_DOCUMENT = (*TRANSIENT, TokenRefused)
PREVIOUS_SECONDS = 60.0  # that the previous generation may take at least to be Ready again


def fingerprint(document: Mapping[str, Any]) -> str:
    """Identifies a configuration as this release renders it. A new bootstrap token makes no difference."""
    azure = {key: value for key, value in (document.get("azure") or {}).items() if key != "bootstrapToken"}
    content = canonical({**document, "azure": azure})
    return hashlib.sha256(f"{content}\0{digest_of(sources())}".encode()).hexdigest()


def reason_for(obtained: Obtained) -> Reason:
    """What is recorded when this configuration is rolled back."""

    def reason(error: FlexNodeError, blocks: bool) -> dict[str, Any]:
        return {
            "code": error.code,
            "message": " ".join(f"{error.what}: {error.why}".split()),
            "since": stamp(obtained.node.host.clock),
            "version": obtained.version,
            "fingerprint": fingerprint(obtained.document),
            "blocks": blocks and not isinstance(error, NOT_THE_DOCUMENT),
            "settings": changed_keys(obtained.store.applied_if_intact() or {}, obtained.document),
            "place": place_of(obtained.origin),
        }

    return reason


def block(obtained: Obtained, error: FlexNodeError) -> None:
    """Do not try a configuration again by itself: what was there before works, so that one is to blame."""
    obtained.store.refuse(obtained.document, reason_for(obtained)(error, True))


def check_blocked(obtained: Obtained) -> None:
    """Refuse a configuration that was rolled back, until it changes or someone says retry."""
    refused = obtained.store.refused()
    if not refused.get("blocks"):
        return
    if refused["fingerprint"] == fingerprint(obtained.document):
        raise Blocked(
            f"this configuration is blocked: it was rolled back at {refused['since']}",
            where=obtained.node.name,
            why=f"{refused['code']}: {refused['message']}{changed_by(refused.get('settings'))}",
        )


def finish_previous(host: Host, store: Store, progress: Progress) -> None:
    """Complete what an interrupted run left: half-written files, a commit, or a rollback and its uncordon."""
    clear_leftovers(host, store)
    if finish_tunnel(host, store, progress):
        return
    record = Record.of(store.transaction())
    if record is None:
        finish_unchanged(host, store, progress)
        return
    if record.stage is Stage.COMMITTED:
        # Its gates have passed: it is the generation to return to, not the one before it.
        if record.restarts:
            store.begin(replace(record, before={}, stage=Stage.APPLYING).as_dict())
        else:
            store.finish()
        return
    if record.stage is not Stage.ROLLING_BACK:
        return
    restore_previous(record, host, store, progress)
    if (applied := store.applied_if_intact()) is not None:
        error = FlexNodeError("an interrupted rollback was completed")
        works = settle_previous(error, host, store, applied, progress)
        node = ThisNode.of(host, parse(applied, purpose="join", pollable=True))
        blocks = bool(record.reason.get("blocks"))
        give_up_turn(node, store, str(record.reason.get("code")), rolled_back=blocks, works=works)


def finish_tunnel(host: Host, store: Store, progress: Progress) -> bool:
    """Complete an interrupted rollback of the VPN; True: another transaction of it goes on in this run."""
    tunnel = store.tunnel
    record = Record.of(tunnel.transaction())
    if record is None or record.stage is not Stage.ROLLING_BACK:
        return record is not None
    restore_previous(record, host, tunnel, progress)
    if (applied := store.applied_if_intact()) is not None:
        settle_previous(
            FlexNodeError("an interrupted rollback was completed"), host, store, applied, progress
        )
    return False


def restore_previous(record: Record, host: Host, store: Store, progress: Progress) -> None:
    """Go on with an interrupted rollback until the previous generation is back."""
    progress("completing an interrupted rollback")
    if failures := roll_back(record, host, store, progress):
        raise RollbackIncomplete(
            "the previous generation can't be restored",
            where=store.directory,
            why=f"{'; '.join(failures)}; it is rolled back because of {record.reason.get('code')}: "
            f"{record.reason.get('message')}",
        )
    discard_new(host, store, record.before)
    store.returned(record)


def finish_unchanged(host: Host, store: Store, progress: Progress) -> None:
    """A run was killed before its first change, or after its rollback: the phase of the node is as before."""
    applied, state = store.applied_if_intact(), store.state()
    begun = (Phase.NODE_BOOTSTRAPPING.value, Phase.VPN_BOOTSTRAPPING.value)
    interrupted = state["phase"] in begun and not state.get("leaving")
    if applied is not None and interrupted:
        settle_previous(FlexNodeError("an interrupted run"), host, store, applied, progress)


def recover(host: Host, store: Store, applied: Mapping[str, Any]) -> None:
    """A node that did not work when its last run ended, or whose drain was interrupted: look if it works.

    Nobody else would: its document is applied, or blocked, and nothing differs from it.
    """
    state = store.state()
    unsettled = state["phase"] in (Phase.NODE_BOOTSTRAPPING.value, Phase.NODE_FAILED.value)
    if store.transaction() is not None or state.get("leaving") or not (unsettled or state.get("cordoned")):
        return
    node = ThisNode.of(host, parse(applied, purpose="join", pollable=True))
    NodeReady(node, 0, SERVICES).pass_(host)
    end_drain(node, store)
    store.enter(Phase.NODE_JOINED)


def settle_previous(
    error: FlexNodeError, host: Host, store: Store, applied: Mapping[str, Any], progress: Progress
) -> bool:
    """After a rollback: whether the Node is Ready with the previous generation; the error says so too.

    Then it takes pods again, if this collection had cordoned it.
    """
    progress("waiting for Node Ready with the earlier configuration")
    try:
        node = ThisNode.of(host, parse(applied, purpose="join", pollable=True))
        seconds = max(PREVIOUS_SECONDS, node.config.upgrade.gate_seconds)
        NodeReady(node, seconds, SERVICES).pass_(host)
        settle_conditions(node, store.state().get("conditions") or [], store.note)
        end_drain(node, store, error)
    except FlexNodeError as second:
        error.outcome = (
            "the update failed and was rolled back, but the Node is not Ready with its earlier configuration "
            f"either: {second.what}: {second.why}"
        )
        error.last_step = f"{second.code}: {second.what}"
        store.enter(Phase.NODE_FAILED, code=second.code, message=second.what)
        return False
    error.last_step = ""
    error.outcome = "the update failed and was rolled back; the Node is Ready with its earlier configuration"
    store.enter(Phase.NODE_JOINED)
    return True


def settle_failure(
    error: FlexNodeError,
    obtained: Obtained,
    applied: Mapping[str, Any] | None,
    record: JoinRecord,
    around: Around,
    progress: Progress,
) -> bool:
    """Record a failed run, and leave the Node as it can be left; the error says what became of it.

    Returns whether the node works.
    """
    host, store, works = obtained.node.host, obtained.store, False
    advise(error, obtained.origin)
    unchanged = applied is not None and not error.at_gate and store.transaction() is None
    try:
        if error.rolled_back and applied is not None:
            works = settle_previous(error, host, store, applied, progress)
            blame(error, changed_keys(applied, obtained.document), place_of(obtained.origin))
        elif unchanged:
            # It failed before the first change: the previous document is the current one again.
            reason = around.reason(error, False)
            store.returned(Record(source=around.source, reason=reason), refuse=not error.waits)
            works = record.worked
        end_drain(present_node(obtained, applied), store, error)
        if unchanged and not error.rolled_back:
            record.unchanged()
        else:
            record.failed(error, works=works)
    except FlexNodeError as second:  # a full disk, for example: the first error is the one that counts
        error.add(f"this could not be recorded: {second.what}: {second.why}")
    return works


def blame(error: FlexNodeError, settings: Sequence[str], place: str) -> None:
    """After a rollback: what was wrong is in the settings that the update changed. Those are named first."""
    if not (error.at_gate and settings):
        return
    error.lead = "With the new configuration"
    error.fix = (
        f"this update changed {some(settings)}: correct it {place}, then run playbook "
        f"aks.flexnode.update again\n  {error.fix.removesuffix(AGAIN)}"
    )


def end_component_turn(obtained: Obtained, progress: Progress) -> None:
    """Release the slot of a run of single components, which has no gate of its own: once the node is Ready.

    Its versions may be those of two configurations: another component follows.
    """
    node, store = obtained.node, obtained.store
    progress("waiting for Node Ready")
    try:
        NodeReady(node, node.config.upgrade.gate_seconds, SERVICES, versions=False).pass_(node.host)
    except FlexNodeError as error:
        store.enter(Phase.NODE_FAILED, code=error.code, message=error.what)
        raise
    give_up_turn(node, store, "", rolled_back=False, works=True)


def give_up(
    error: FlexNodeError, obtained: Obtained, applied: Mapping[str, Any] | None, *, works: bool
) -> None:
    """Release the slot of a change that failed; one that was rolled back counts against its rollout."""
    if applied is None or error.waits:
        return
    node, store = present_node(obtained, applied), obtained.store
    slot = Local.of(store).slot
    was_down = slot is not None and slot.change.down  # its failure says nothing about the new software
    blames = error.rolled_back and error.at_gate and not was_down and not isinstance(error, NOT_THE_DOCUMENT)
    if left := give_up_turn(node, store, error.code, rolled_back=blames, works=works):
        error.add(left)
