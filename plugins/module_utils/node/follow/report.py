# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a poll records: a failure, or that there is none. Nothing is written if nothing changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dataclass import replace
from ..engine.lease import held, new_operation
from ..engine.records.state import Phase, Store
from ..errors import LeaseHeld, StateCorrupt
from ..machine.clock import moment, stamp
from ..machine.host import Host
from ..machine.layout import APPLY_SERVICE
from ..machine.program import COMMAND
from ..sources.watched import LONGEST, News, Watched

if TYPE_CHECKING:
    from ..drift.record import DriftRecord

Say = Callable[[str], None]
PATIENCE = 120.0  # seconds of failures before polls become rarer
SLOWEST = 300.0  # seconds between polls of a source that keeps failing
IGNORED = (
    "configuration {older} is ignored: configuration {version} was there before it. To return to an earlier "
    "document, give it a newer configVersion"
)


def start_apply(host: Host) -> int:
    """Let the apply service do it: it outlives this process and may change the whole machine."""
    host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
    return 0


def is_unfinished(host: Host, store: Store, seen: Watched) -> bool:
    """Whether a change was interrupted or held, and it is time to complete it: that needs no source."""
    if not store.is_unfinished:
        return False
    retry_at = seen.blocked.retry_at if seen.blocked else None
    return retry_at is None or not 0 < retry_at - host.clock.now() <= LONGEST


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
    watched: Watched | None = None,
) -> None:
    """Record and log a failed poll; the machine keeps its configuration.

    answered: a server said no. It is polled less often if it keeps doing so; a cut line is not its fault.
    watched: `seen`, with what this poll has found out besides.
    """
    now, before = host.clock.now(), store.monitoring()
    pause = min(retry_after, LONGEST)
    if not pause and answered and not missing_since and before.get("code") == code:
        age = now - moment(before.get("since", ""))
        pause = min(age / 4, SLOWEST) if age >= PATIENCE else 0.0
    later = replace(
        watched or seen,
        missing_since=missing_since,
        not_before=now + pause if pause else seen.not_before,
    )
    if report(host, store, seen, later, code, message):
        say(f"{code}: {message}; this machine keeps its stored configuration")


def nothing_new(host: Host, store: Store, seen: Watched, news: News | None) -> None:
    """Nothing new: no write, unless an earlier failure is over or the same content has a new ETag."""
    same = news and seen.settled and news.digest == seen.digest
    watched = replace(seen, not_before=0.0, missing_since=0.0, found=bool(seen.resource))
    watched = replace(watched, etag=news.etag) if news and same else watched
    watched = watched.recalls(news) if news else watched
    report_blocked(host, store, seen, watched)


def ignore_older(host: Host, store: Store, seen: Watched, older: str, say: Say) -> None:
    """Ignore an outdated copy, of a cache for example; said once for each version that was seen."""
    if not store.remembered()[1]:
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            heal(store)
    if seen.older != older:
        say(IGNORED.format(older=older, version=seen.version))
    report_blocked(host, store, seen, replace(seen, not_before=0.0, missing_since=0.0, older=older))


def heal(store: Store) -> None:
    """Replace a damaged document by the applied one, because the source offers nothing usable."""
    document, intact = store.remembered()
    if not intact and document is not None:
        store.set_current_config(document, store.state().get("appliedVersion"))


def has_lost_state(store: Store) -> bool:
    """Whether this machine is a node, by its applied document, and its state is damaged or gone."""
    try:
        if store.state()["phase"] != Phase.NOT_STARTED.value:
            return False
    except StateCorrupt:
        pass
    return store.applied_if_intact() is not None


def heal_state(host: Host, store: Store, say: Say) -> None:
    """Write the state of the applied document again, with its drift policy: the node is kept right again.

    Not in the sandbox of the timer, whose facts are not those of the machine.
    """
    from ..config.parse import parse
    from ..machine.facts import LOST, gather
    from ..net.tunnel import with_tunnel
    from ..operations.update import versions

    with contextlib.suppress(LeaseHeld), held(host, new_operation(), f"{COMMAND} poll", patience=0):
        if not has_lost_state(store) or (applied := store.applied_if_intact()) is None:
            return
        config = parse(applied, purpose="join", pollable=True)
        same = store.remembered() == (applied, True)
        details: dict[str, Any] = {
            "appliedVersion": store.config_version() if same else None,
            "drift": {"mode": config.drift.mode, "interval": config.drift.interval},
            "facts": with_tunnel(gather(host, stored=LOST), host, config).stored,
            "labels": sorted(config.node.labels) or None,
            "versions": {name: str(version) for name, version in versions(config).items()},
        }
        found = {name: value for name, value in details.items() if value is not None}
        store.enter(Phase.NODE_JOINED, **found)
        say(
            f"{store.directory}/state.json was damaged or missing: it is written again, as the state of the "
            "applied configuration. If this node was cordoned for an update, uncordon it"
        )


def report_blocked(host: Host, store: Store, seen: Watched, watched: Watched) -> None:
    """The poll has worked: what is blocked is all that is wrong with the source."""
    blocked = watched.blocked
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
    if not is_published(store, code, watched.waiting, watched.older):
        publish_unless_busy(host, store)
    return now != before


def report_damaged_source(host: Host, store: Store, error: StateCorrupt, say: Say, verbose: Say) -> None:
    """Nobody knows what to poll: that is a failure of polling, recorded and said once."""
    from ..status.monitoring import damaged

    now = damaged(store, error, stamp(host.clock))
    line = f"{error.code}: {now['message']}; this machine keeps its stored configuration. Fix: {error.fix}"
    if now == store.monitoring():
        verbose(line)
    else:
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            store.set_monitoring(now)
        say(line)
    if not is_published(store, error.code):
        publish_unless_busy(host, store)


def publish_unless_busy(host: Host, store: Store, record: DriftRecord | None = None) -> None:
    """Another run publishes its own status, and may be writing right now: the next poll looks again.

    record: what differs, if it was just checked.
    """
    from ..status.publish import publish

    with contextlib.suppress(LeaseHeld), held(host, new_operation(), f"{COMMAND} poll", patience=0):
        publish(host, store, record=record)


def is_published(store: Store, code: str, waiting: str = "", older: str = "") -> bool:
    """Whether the status says this of polling; a run may have been killed before it could say so."""
    try:
        status = store.status()
    except StateCorrupt:
        return False
    if status is None:
        return True
    said = status.get("monitoring") or {}
    found = tuple(said.get(name) or "" for name in ("code", "waiting", "olderVersion"))
    return found == (code, waiting, older)
