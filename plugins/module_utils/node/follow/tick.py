# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One poll of the source that this machine follows. Nearly all find nothing new, and those must be cheap.

The code that applies a new configuration is imported only when there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from ..engine.lease import held, new_operation
from ..engine.records.state import Phase, Store, store_of
from ..errors import ConfigMissing, ConfigUnreachable, FlexNodeError, LeaseHeld, StateCorrupt
from ..machine.clock import moment, stamp
from ..machine.host import Host, require_root
from ..machine.layout import APPLY_SERVICE
from ..machine.program import COMMAND
from ..net.answer import HttpFailure
from ..sources.errors import ResourceMissing
from ..sources.watched import LONGEST, News, Watched, digest_of, pausing
from .request import conditional, send
from .watch import watch_drift

Say = Callable[[str], None]
PATIENCE = 120.0  # seconds of failures before polls become rarer
SLOWEST = 300.0  # seconds between polls of a source that keeps failing
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
    if leaving(store):
        return leave_on(host, store, say, hand_over=hand_over)
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
        poll_failed(host, store, seen, say, error.code, message, missing_since=missing_since)
        return 0
    if news is None or watched.knows(news, host.clock.now()):
        nothing_new(host, store, seen, news)
        verbose("nothing new")
        return 0
    if hand_over:
        say(f"there is a new configuration: {APPLY_SERVICE} applies it")
        return start_apply(host)
    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        if Watched.of(store.source()) == seen:  # unchanged since the request
            from .following import follow

            return follow(host, store, watched, news, say)
    return 0


def start_apply(host: Host) -> int:
    """Let the apply service do it: it outlives this process and may change the whole machine."""
    host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
    return 0


def leaving(store: Store) -> bool:
    """Whether this machine was leaving the cluster when it was interrupted, or is leaving now."""
    try:
        return store.state().get("phase") == Phase.RESETTING.value
    except StateCorrupt:
        return False


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
    return replace(seen, settled=False, blocked=None if document else seen.blocked)


def is_unfinished(host: Host, store: Store, seen: Watched) -> bool:
    """Whether a change was interrupted or held, and it is time to complete it: that needs no source."""
    if store.transaction() is None:
        return False
    retry_at = seen.blocked.retry_at if seen.blocked else None
    return retry_at is None or not 0 < retry_at - host.clock.now() <= LONGEST


def request_news(host: Host, store: Store, watched: Watched) -> News | None:
    """Request the source; None: unchanged since the last poll."""
    if watched.resource:
        from .resource import request_resource

        return request_resource(host, store, watched)
    answer = send(host, watched, "GET", watched.url, conditional(watched))
    if answer.status == 304:
        return None
    return News(answer.body, answer.headers.get("ETag", ""), digest_of(answer.body))


def poll_failed(
    host: Host,
    store: Store,
    seen: Watched,
    say: Say,
    code: str,
    message: str,
    *,
    retry_after: float = 0.0,
    answered: bool = True,
    missing_since: float = 0.0,
) -> None:
    """Record and log a failed poll; the machine keeps its configuration.

    answered: a server said no. It is polled less often if it keeps doing so; a cut line is not its fault.
    """
    now, before = host.clock.now(), store.monitoring()
    pause = min(retry_after, LONGEST)
    if not pause and answered and not missing_since and before.get("code") == code:
        age = now - moment(before.get("since", ""))
        pause = min(age / 4, SLOWEST) if age >= PATIENCE else 0.0
    later = replace(seen, missing_since=missing_since, not_before=now + pause if pause else seen.not_before)
    if report(host, store, seen, later, code, message):
        say(f"{code}: {message}; this machine keeps its stored configuration")


def nothing_new(host: Host, store: Store, seen: Watched, news: News | None) -> None:
    """Nothing new: no write, unless an earlier failure is over or the same content has a new ETag."""
    same = news and seen.settled and news.digest == seen.digest
    watched = replace(seen, not_before=0.0, missing_since=0.0, found=bool(seen.resource))
    watched = replace(watched, etag=news.etag) if news and same else watched
    blocked = seen.blocked
    report(host, store, seen, watched, blocked.code if blocked else "", blocked.message if blocked else "")


def report(host: Host, store: Store, seen: Watched, watched: Watched, code: str, message: str) -> bool:
    """Record the failure, or that there is none; True: it changed. Nothing is written otherwise.

    seen: source.json as read before the poll. If it has changed since, the failure is outdated.
    """
    before = store.monitoring()
    since = before["since"] if before.get("code") == code else stamp(host.clock)
    now = {"ok": False, "code": code, "message": message, "since": since} if code else {}
    if now != before or watched != seen:
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            if Watched.of(store.source()) != seen:
                return False
            store.set_source(watched.as_dict())
            store.set_monitoring(now)
    if not is_published(store, code):
        from ..status.publish import publish

        publish(host, store)
    return now != before


def is_published(store: Store, code: str) -> bool:
    """Whether the status says this of polling; a run may have been killed before it could say so."""
    try:
        status = store.status()
    except StateCorrupt:
        return False
    return status is None or (status["monitoring"].get("code") or "") == code
