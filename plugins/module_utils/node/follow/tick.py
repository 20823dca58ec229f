# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One poll of the URL that this machine follows. Nearly all find nothing new, and those must be cheap.

The code that applies a new configuration is imported only when there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from ssl import SSLContext

from ..drift.watch import watch_drift
from ..engine.lease import held, new_operation
from ..engine.records.state import Phase, Store, store_of
from ..errors import ConfigMissing, ConfigUnreachable, FlexNodeError, LeaseHeld, StateCorrupt
from ..machine.clock import stamp
from ..machine.host import Host, require_root
from ..machine.layout import APPLY_SERVICE
from ..machine.program import COMMAND
from ..net.http_client import HttpClient, HttpFailure, Proxies, Response, quick_context
from ..sources.watched import LONGEST, News, Watched, digest_of, pausing

Say = Callable[[str], None]
TIMEOUT = 10.0  # seconds: the next poll is soon
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
            "this machine polls no URL",
            where=store.directory,
            why="its configuration did not come from a durable URL",
            fix=f"{COMMAND} join --config-url URL --durable",
        )
    if pausing(seen.not_before, now := host.clock.now()):
        verbose(f"the server asked to wait another {seen.not_before - now:.0f} s (Retry-After)")
        return 0
    watched = to_request(store, seen)
    try:
        if is_unfinished(host, store, seen):
            if hand_over:
                host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
                return 0
            with held(host, new_operation(), f"{COMMAND} poll", patience=0):
                from .following import finish

                return finish(host, store, seen, say)
        try:
            news = request_news(host, watched)
        except HttpFailure as failure:
            poll_failed(host, store, seen, failure, say)
            return 0
        if news is None or watched.knows(news, host.clock.now()):
            nothing_new(host, store, seen, news)
            verbose("nothing new")
            return 0
        if hand_over:
            host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
            say(f"there is a new configuration: {APPLY_SERVICE} applies it")
            return 0
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            if Watched.of(store.source()) == seen:  # unchanged since the request
                from .following import follow

                return follow(host, store, watched, news, say)
    except LeaseHeld as error:
        say(f"{error.what}: {error.why}; the next poll tries again")
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
        host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
        return 0
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


def request_news(host: Host, watched: Watched) -> News | None:
    """Request the URL; None: unchanged since the last poll."""
    try:
        answer = ask(host, watched, quick_context(watched.ca))
    except HttpFailure as failure:
        if not failure.tls:
            raise
        answer = ask(host, watched, None)
    if answer.status == 304:
        return None
    return News(answer.body, answer.headers.get("ETag", ""), digest_of(answer.body))


def ask(host: Host, watched: Watched, context: SSLContext | None) -> Response:
    """One request; with an ETag only if the last bundle was settled."""
    proxy = watched.proxy
    client = HttpClient(
        ca_pem=watched.ca,
        context=context,
        proxies=Proxies(proxy["http"], proxy["https"], tuple(proxy["no"])) if proxy else None,
        clock=host.clock,
        timeout=TIMEOUT,
        attempts=1,  # the next poll is the next attempt
    )
    headers = {"If-None-Match": watched.etag} if watched.etag and watched.settled else {}
    return client.request("GET", watched.url, headers=headers)


def poll_failed(host: Host, store: Store, seen: Watched, failure: HttpFailure, say: Say) -> None:
    """Record and log a failed poll; the machine keeps its configuration."""
    message = f"{failure.url}: {failure.reason}"
    pause = min(failure.retry_after, LONGEST)
    later = replace(seen, not_before=host.clock.now() + pause) if pause else seen
    if report(host, store, seen, later, ConfigUnreachable.code, message):
        say(f"{ConfigUnreachable.code}: {message}; this machine keeps its stored configuration")


def nothing_new(host: Host, store: Store, seen: Watched, news: News | None) -> None:
    """Nothing new: no write, unless an earlier failure is over or the same content has a new ETag."""
    same = news and seen.settled and news.digest == seen.digest
    watched = replace(seen, etag=news.etag) if news and same else seen
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
    return now != before
