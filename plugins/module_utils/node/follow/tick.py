# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One poll of the source that this machine follows. Nearly all find nothing new, and those must be cheap.

The code that applies a new configuration is imported only when there is one.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from ..dataclass import replace
from ..engine.lease import held, new_operation
from ..engine.records.state import Phase, Store, store_of
from ..errors import ConfigMissing, ConfigUnreachable, FlexNodeError, LeaseHeld, StateCorrupt
from ..machine.host import Host, require_root
from ..machine.layout import APPLY_SERVICE, UNIT_DIR, VPN
from ..machine.program import COMMAND
from ..net.answer import HttpFailure, wait_asked
from ..sources.errors import ResourceMissing
from ..sources.watched import News, Watched, digest_of, is_machine, is_older, pausing, version_in
from .report import (
    has_lost_state,
    heal_state,
    ignore_older,
    is_unfinished,
    nothing_new,
    poll_failed,
    report_damaged_source,
    start_apply,
)
from .request import conditional, send
from .watch import watch_drift

Say = Callable[[str], None]
ERROR, NOTICE = 3, 5  # syslog levels


def main() -> int:
    """What the timer runs: only changes are logged (SD cards wear out)."""
    try:
        require_root()
        return tick(Host(), lambda line: to_journal(NOTICE, line), lambda line: None, hand_over=True)
    except FlexNodeError as error:
        to_journal(ERROR, str(error))
        return 1


def to_journal(level: int, text: str) -> None:
    """Write lines with the level prefix that journald reads from standard error."""
    sys.stderr.write("".join(f"<{level}>{line}\n" for line in text.splitlines()))


def tick(host: Host, say: Say, verbose: Say, *, hand_over: bool = False, drift: bool = False) -> int:
    """Poll once, and apply what is new; `verbose` receives lines that matter only in a terminal.

    hand_over: start the apply service, which outlives this process and may change the intact machine.
    drift: compare the whole machine with its configuration now; otherwise every `drift.interval`.
    """
    store = store_of(host)
    if has_lost_state(store):
        if hand_over:
            return start_apply(host)
        heal_state(host, store, say)
    if leaving(store):
        return leave_on(host, store, say, hand_over=hand_over)
    settle_earlier_run(host, store)
    look_at_tunnel(host, store, say)
    try:
        known = Watched.of(store.source())
    except StateCorrupt as error:
        return tick_without_source(host, store, error, say, verbose, hand_over=hand_over, drift=drift)
    if known and is_machine(known.resource):
        from .machine import tick_machine

        return tick_machine(host, store, known, say, verbose, hand_over=hand_over, drift=drift)
    try:
        repaired = watch_drift(host, store, say, hand_over=hand_over, whole=drift)
    except LeaseHeld as error:
        say(f"{error.what}: {error.why}; the next poll tries again")
        return 0
    if repaired is not None:
        return repaired
    seen = Watched.of(store.source())
    if seen is None:
        if drift:  # asked for that only
            return 0
        raise ConfigMissing(
            "this machine polls no source",
            where=store.directory,
            why="its configuration came neither from a durable URL nor from a flexNodeConfig resource",
            fix=f"{COMMAND} join --config-url URL --durable",
        )
    try:
        if is_unfinished(host, store, seen):
            if hand_over:
                return start_apply(host)
            with held(host, new_operation(), f"{COMMAND} poll", patience=0):
                from .following import finish

                return finish(host, store, seen, say)
        return poll_source(host, store, seen, say, verbose, hand_over=hand_over)
    except LeaseHeld as error:
        say(f"{error.what}: {error.why}; the next poll tries again")
    return 0


def tick_without_source(
    host: Host, store: Store, error: StateCorrupt, say: Say, verbose: Say, *, hand_over: bool, drift: bool
) -> int:
    """The record of what this machine polls is damaged: that is reported, and the machine is kept right."""
    try:
        report_damaged_source(host, store, error, say, verbose)
        if hand_over and store.is_unfinished:
            return start_apply(host)
        return watch_drift(host, store, say, hand_over=hand_over, whole=drift) or 0
    except LeaseHeld as busy:
        say(f"{busy.what}: {busy.why}; the next poll tries again")
    return 0


def poll_source(host: Host, store: Store, seen: Watched, say: Say, verbose: Say, *, hand_over: bool) -> int:
    """Request the source, and apply what is new."""
    if pausing(seen.not_before, now := host.clock.now()):
        verbose(f"the source asked to wait another {seen.not_before - now:.0f} s, or failed too often")
        return 0
    watched = to_request(store, seen)
    try:
        news = request_news(host, store, watched)
    except HttpFailure as failure:
        poll_failed(
            host,
            store,
            seen,
            say,
            ConfigUnreachable.code,
            f"{failure.url}: {failure.reason}",
            retry_after=failure.retry_after,
            answered=failure.status != 0,
        )
        return 0
    except FlexNodeError as error:  # there is no token, or the resource is missing
        message = " ".join(f"{error.what}: {error.why}".split())
        deleted = isinstance(error, ResourceMissing) and error.deleted
        missing_since = (seen.missing_since or now) if deleted else 0.0
        wait = wait_asked(error)
        poll_failed(
            host, store, seen, say, error.code, message, retry_after=wait, missing_since=missing_since
        )
        return 0
    if news is None or watched.knows(news, host.clock.now()):
        nothing_new(host, store, seen, news)
        verbose("nothing new")
        return 0
    if is_older(older := version_in(news.body), watched.version):
        ignore_older(host, store, seen, older, say)
        return 0
    if hand_over:
        heard = verbose if watched.waiting else say  # one that waits for its turn is tried at every poll
        heard(f"there is a new configuration: {APPLY_SERVICE} applies it")
        return start_apply(host)
    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        if Watched.of(store.source()) == seen:  # unchanged since the request
            from .following import follow

            return follow(host, store, watched, news, say)
    return 0


def leaving(store: Store) -> bool:
    """Whether this machine was leaving the cluster when it was interrupted, or is leaving now."""
    try:
        return store.state().get("phase") == Phase.RESETTING.value
    except StateCorrupt:
        return False


def look_at_tunnel(host: Host, store: Store, say: Say) -> None:
    """A tunnel that is down is reported, once, and again when it is up; most machines have none."""
    if host.stat(f"{UNIT_DIR}/{VPN}").absent:
        return
    from ..drift.tunnel import watch_tunnel

    verdict = watch_tunnel(host)
    if verdict is None or not (verdict.news or verdict.restart):
        return
    if verdict.restart:
        say(f"{verdict.restart}: {VPN} is restarted")
    if verdict.news:
        from ..status.publish import publish

        say(verdict.news)
        with contextlib.suppress(LeaseHeld), held(host, new_operation(), f"{COMMAND} poll", patience=0):
            publish(host, store)


def settle_earlier_run(host: Host, store: Store) -> None:
    """Settle what an earlier run could not: a cordon, a slot in a rollout record, a failure. Mostly nothing.

    A run that failed while the line was cut leaves a node that works: no other run would look again.
    """
    try:
        state = store.state()
        failed = state["phase"] == Phase.NODE_FAILED.value and not store.is_unfinished
    except StateCorrupt:
        return
    rollout = state.get("rollout") or {}
    if not (failed or rollout.get("slot") or rollout.get("pending") or state.get("cordoned")):
        return
    from ..config.parse import parse
    from ..node_object.this_node import ThisNode
    from ..operations.refusal import recover
    from ..rollout.local import owes
    from ..rollout.turn import settle_debts

    try:
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            if (applied := store.applied_if_intact()) is None:
                return
            node = ThisNode.of(host, parse(applied, pollable=True))
            if node.is_cut_off:  # nobody can be asked
                return
            recover(host, store, applied)
            if failed and store.state()["phase"] == Phase.NODE_JOINED.value:
                from ..status.publish import publish

                publish(host, store)
            if owes(store):
                settle_debts(node, store)
    except FlexNodeError:  # another run is at work, or the node does not work yet: a later poll tries again
        return


def leave_on(host: Host, store: Store, say: Say, *, hand_over: bool) -> int:
    """Finish a leave that was interrupted. The timer is removed last, so that it comes back here."""
    if hand_over:
        return start_apply(host)
    try:
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            if leaving(store):  # not finished meanwhile
                from .following import INTERRUPTED, depart

                return depart(host, say, INTERRUPTED)
    except LeaseHeld as error:
        say(f"{error.what}: {error.why}; the next poll tries again")
    return 0


def to_request(store: Store, seen: Watched) -> Watched:
    """What to request: a machine whose stored document is missing or damaged needs it in full, new or not."""
    document, intact = store.remembered()
    if intact and document is not None:
        return seen
    # With an applied document to fall back to, a blocked bundle may be tried again.
    return replace(seen, settled=False, blocked=None if document else seen.blocked, earlier=None)


def request_news(host: Host, store: Store, watched: Watched) -> News | None:
    """Request the source; None: unchanged since the last poll."""
    if watched.resource:
        from .resource import request_resource

        return request_resource(host, store, watched)
    answer = send(host, watched, "GET", watched.url, conditional(watched))
    if answer.status == 304:
        return None
    return News(answer.body, answer.headers.get("ETag", ""), digest_of(answer.body))
