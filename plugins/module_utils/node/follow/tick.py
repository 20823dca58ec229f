# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at the address that this machine follows. Nearly all find nothing new, and those must cost little.

What it takes to follow a new configuration is imported only when there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from ssl import SSLContext

from ..engine.lease import held, new_operation
from ..engine.state import Store, store_of
from ..errors import ConfigMissing, ConfigUnreachable, FlexNodeError, LeaseHeld
from ..machine.clock import stamp
from ..machine.host import Host, require_root
from ..machine.layout import APPLY_SERVICE
from ..machine.program import COMMAND
from ..net.http_client import HttpClient, HttpFailure, Proxies, Response, quick_context
from ..sources.watched import LONGEST, News, Watched, digest_of

Say = Callable[[str], None]
TIMEOUT = 10.0  # seconds: the next look is near
ERROR, NOTICE = 3, 5  # levels of the journal


def main() -> int:
    """What the timer runs: only news are worth a line in the journal (SD cards)."""
    try:
        require_root()
        return tick(Host(), lambda line: to_journal(NOTICE, line), lambda line: None, hand_over=True)
    except FlexNodeError as error:
        to_journal(ERROR, str(error))
        return 1


def to_journal(level: int, text: str) -> None:
    """Lines as journald takes them from standard error."""
    sys.stderr.write("".join(f"<{level}>{line}\n" for line in text.splitlines()))


def tick(host: Host, say: Say, chat: Say, *, hand_over: bool = False) -> int:
    """Look once, and follow what is new; `chat` hears what matters only to someone who is there.

    hand_over: let a service of its own follow it, which outlives this one and may change all of the machine.
    """
    store = store_of(host)
    seen = Watched.of(store.source())
    if seen is None:
        raise ConfigMissing(
            "this machine follows no address",
            where=store.directory,
            why="its configuration did not come from a durable URL",
            fix=f"{COMMAND} join --config-url URL --durable",
        )
    wait = seen.not_before - host.clock.now()
    if 0 < wait <= LONGEST:
        chat(f"the server asked to be left alone for another {wait:.0f} s")
        return 0
    watched = wanting(store, seen)
    try:
        try:
            news = look(host, watched)
        except HttpFailure as failure:
            not_seen(host, store, seen, failure, say)
            return 0
        if news is None or watched.knows(news, host.clock.now()):
            quiet(host, store, seen, news)
            chat("nothing new")
            return 0
        if hand_over:
            host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
            say(f"there is a new configuration: {APPLY_SERVICE} follows it")
            return 0
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            if Watched.of(store.source()) == seen:  # nobody has changed it since we asked
                from .following import follow

                return follow(host, store, watched, news, say)
    except LeaseHeld as error:
        say(f"{error.what}: {error.why}; the next look will tell")
    return 0


def wanting(store: Store, seen: Watched) -> Watched:
    """What to ask with: a machine whose own document is gone or damaged wants it in full, new or not."""
    document, whole = store.remembered()
    if whole and document is not None:
        return seen
    # Refused once more, it still leads back to what was applied.
    return replace(seen, settled=False, blocked=None if document else seen.blocked)


def look(host: Host, watched: Watched) -> News | None:
    """Ask the address; None: it has what was dealt with already."""
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
    """One request; with an ETag only if what was seen last has been dealt with."""
    proxy = watched.proxy
    client = HttpClient(
        ca_pem=watched.ca,
        context=context,
        proxies=Proxies(proxy["http"], proxy["https"], tuple(proxy["no"])) if proxy else None,
        clock=host.clock,
        timeout=TIMEOUT,
        attempts=1,  # the next look is the next attempt
    )
    headers = {"If-None-Match": watched.etag} if watched.etag and watched.settled else {}
    return client.request("GET", watched.url, headers=headers)


def not_seen(host: Host, store: Store, seen: Watched, failure: HttpFailure, say: Say) -> None:
    """Told and remembered; the machine works on with what it has, whatever the server says."""
    message = f"{failure.url}: {failure.reason}"
    pause = min(failure.retry_after, LONGEST)
    later = replace(seen, not_before=host.clock.now() + pause) if pause else seen
    if report(host, store, seen, later, ConfigUnreachable.code, message):
        say(f"{ConfigUnreachable.code}: {message}; this machine goes on with the configuration it has")


def quiet(host: Host, store: Store, seen: Watched, news: News | None) -> None:
    """Nothing new: no write, unless an earlier trouble is over or the same content has got a new ETag."""
    same = news and seen.settled and news.digest == seen.digest
    watched = replace(seen, etag=news.etag) if news and same else seen
    blocked = seen.blocked
    report(host, store, seen, watched, blocked.code if blocked else "", blocked.message if blocked else "")


def report(host: Host, store: Store, seen: Watched, watched: Watched, code: str, message: str) -> bool:
    """Remember what is wrong, or that nothing is; True if that is news. What is known is not written.

    seen: the address as it was read before the look. If it was changed or removed since, so was its trouble.
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
