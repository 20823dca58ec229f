# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One poll of a node of a FlexNodes pool: its Node every time, its machine in Azure every 5 to 10 minutes.

AKS tells a node what to do by both: a new goal is in the machine; the Node that AKS deletes says that a new
version may be installed now, and its taint that the machine is being deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dataclass import dataclass, replace
from ..drift.certificate import below, lost_certificate
from ..engine.lease import held, new_operation
from ..engine.records.state import Store
from ..errors import ApiUnreachable, ConfigMissing, ConfigUnreachable, FlexNodeError, LeaseHeld
from ..machine.host import Host
from ..machine.layout import APPLY_SERVICE
from ..machine.program import COMMAND
from ..net.answer import HttpFailure, wait_asked
from ..sources.errors import MachineMissing, MachineUnusable
from ..sources.flexnode_config import Reply, Verdict, digest_for, endpoint_of, same_server, url_of
from ..sources.machine_answers import (
    Evidence,
    NodeIs,
    Step,
    bundle_of,
    machine_deleted,
    next_page,
    step_for,
    verdict,
    what_waits,
    why_it_stays,
)
from ..sources.machines import ROLE, Goal, goal_of_document, pool_of
from ..sources.watched import REPLACED, News, Watched, pausing
from .own_node import is_due, look, note_asked
from .report import is_unfinished, poll_failed, report, start_apply
from .watch import watch_drift

Say = Callable[[str], None]
REGISTER_PAUSE = 120.0  # seconds until a Node that did not come back is tried again
HEAL_PAUSE = 300.0  # seconds until a new certificate is requested again
AT_ONCE = "at-once"  # azure.machines.apply
MOST_PAGES = 200  # of the list of a pool's machines


@dataclass(frozen=True)
class Found:
    """What a poll found, and what to do about it."""

    step: Step
    node: NodeIs
    news: News | None = None
    waiting: str = ""


def tick_machine(
    host: Host, store: Store, seen: Watched, say: Say, verbose: Say, *, hand_over: bool, drift: bool
) -> int:
    """One tick. The poll comes before the drift check: labels that AKS has set are a new goal, no drift."""
    document, intact = store.remembered()
    try:
        if document is not None:
            if not intact:
                restore_document(host, store)
            done = heal(host, store, seen, document, say, hand_over=hand_over)
            if done is None and is_unfinished(host, store, seen):
                done = complete(host, store, seen, say, hand_over=hand_over)
            if done is None and not store.is_unfinished:
                done = poll_machine(host, store, seen, document, say, verbose, hand_over=hand_over)
            if done is not None:
                return done
        repaired = watch_drift(host, store, say, hand_over=hand_over, whole=drift)
    except LeaseHeld as error:
        say(f"{error.what}: {error.why}; the next poll tries again")
        return 0
    if document is None and repaired is None:
        raise ConfigMissing(
            "the configuration of this node is lost",
            where=store.directory,
            fix=f"join again: {COMMAND} join --cluster ID --pool NAME --identity ..., or run playbook "
            "aks.flexnode.bootstrap",
        )
    return repaired or 0


def restore_document(host: Host, store: Store) -> None:
    """Replace a damaged document by the applied one: the machine in Azure has only a part of it."""
    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        from .report import heal as replace_damaged

        replace_damaged(store)


def complete(host: Host, store: Store, seen: Watched, say: Say, *, hand_over: bool) -> int:
    """Complete a change that was interrupted or held."""
    if hand_over:
        return start_apply(host)
    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        from .following import finish

        return finish(host, store, seen, say)


def heal(
    host: Host, store: Store, seen: Watched, document: Mapping[str, Any], say: Say, *, hand_over: bool
) -> int | None:
    """A kubelet without a valid certificate gets a new one, by fresh bootstrap data; None: it has one."""
    lost = lost_certificate(host, document)
    if not lost or pausing(seen.not_before, host.clock.now()):
        return None
    if hand_over:
        say(f"{lost}: {APPLY_SERVICE} requests a new certificate")
        return start_apply(host)
    from .certificate import renew_certificate

    try:
        with held(host, new_operation(), f"{COMMAND} poll", patience=0):
            say(f"{lost}: requesting a new certificate with fresh bootstrap data of the pool")
            renew_certificate(host, store, seen, document, say)
    except LeaseHeld:
        raise
    except FlexNodeError as error:
        if isinstance(error, MachineMissing) and seen.deleting:
            return None  # AKS deletes this node: the poll decides whether it leaves
        known = Watched.of(store.source()) or seen
        message = " ".join(f"{lost}; no new certificate: {error.what}: {error.why}".split())
        wait = max(HEAL_PAUSE, wait_asked(error))
        poll_failed(host, store, known, say, error.code, message, retry_after=wait)
        return 3
    return 0


def poll_machine(
    host: Host,
    store: Store,
    seen: Watched,
    document: Mapping[str, Any],
    say: Say,
    verbose: Say,
    *,
    hand_over: bool,
) -> int | None:
    """Look at the Node, ask for the machine if it is time, and act; None: nothing was due."""
    node, watched, failure = look(host, seen, document)
    failing = not seen.blocked and bool(store.monitoring())
    if not is_due(host, watched, node, failing=failing):
        if watched != seen:
            said = store.monitoring()
            report(host, store, seen, watched, said.get("code", ""), said.get("message", ""))
        verbose(f"nothing new{f'; {failure}' if failure else ''}")
        return None
    try:
        found = request_machine(host, store, watched, document, node)
    except HttpFailure as failed:
        poll_failed(
            host,
            store,
            seen,
            say,
            ConfigUnreachable.code,
            f"{failed.url}: {failed.reason}",
            retry_after=failed.retry_after,
            answered=failed.status != 0,
            watched=watched,
        )
        return None
    except FlexNodeError as error:
        message = " ".join(f"{error.what}: {error.why}".split())
        deleted = isinstance(error, MachineMissing) and error.deleted
        since = (seen.missing_since or host.clock.now()) if deleted else 0.0
        poll_failed(
            host,
            store,
            seen,
            say,
            error.code,
            message,
            retry_after=wait_asked(error),
            missing_since=since,
            watched=watched,
        )
        return None
    if watched.marked == REPLACED:  # the machine exists, and so does a Node: nothing is being deleted
        watched = replace(watched, deleting=False, marked="")
    return act(
        host, store, seen, document, watched, found, say, verbose, hand_over=hand_over, failure=failure
    )


def act(
    host: Host,
    store: Store,
    seen: Watched,
    document: Mapping[str, Any],
    watched: Watched,
    found: Found,
    say: Say,
    verbose: Say,
    *,
    hand_over: bool,
    failure: str,
) -> int | None:
    """Do what was decided, or let the apply service do it."""
    if found.step in (Step.NOTHING, Step.WAIT, Step.ASK_LATER):
        settled(host, store, seen, watched, found, say, verbose, failure)
        return None
    if hand_over:
        what = "the Node of this machine is gone" if found.news is None else "there is a new configuration"
        say(f"{what}: {APPLY_SERVICE} applies it")
        return start_apply(host)
    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        if Watched.of(store.source()) != seen or store.remembered()[0] != document:
            return 0  # changed since the request: the next poll goes on from there
        from .following import follow

        if found.news is not None:
            return follow(host, store, watched, found.news, say)
        from .certificate import register_again

        error = register_again(host, store, say)
    if error is not None:
        message = " ".join(f"{error.what}: {error.why}".split())
        known = Watched.of(store.source()) or seen
        poll_failed(host, store, known, say, error.code, message, retry_after=REGISTER_PAUSE)
        return 3
    return 0


def settled(
    host: Host,
    store: Store,
    seen: Watched,
    watched: Watched,
    found: Found,
    say: Say,
    verbose: Say,
    failure: str,
) -> None:
    """Nothing is applied now. Recorded only if something changed; Azure is asked again after an interval."""
    if found.step is not Step.ASK_LATER:
        note_asked(host)
    blocked = seen.blocked
    code, message = (blocked.code, blocked.message) if blocked else ("", "")
    if found.step is Step.ASK_LATER:
        code = ApiUnreachable.code
        message = f"there is a new goal, and the API server does not answer: {failure}"
    now = replace(watched, not_before=0.0, missing_since=0.0, found=True, waiting=found.waiting)
    report(host, store, seen, now, code, message)
    if found.waiting and found.waiting != seen.waiting:
        say(found.waiting)
    else:
        verbose(found.waiting or "nothing new")


def request_machine(
    host: Host, store: Store, watched: Watched, document: Mapping[str, Any], node: NodeIs
) -> Found:
    """The goal of the machine, and what it means; an error if there is none that can be used."""
    from .resource import get  # identities and tokens: only when Azure is asked

    try:
        answer, _token = get(host, store, watched, watched.url)
    except HttpFailure as failure:
        return not_returned(host, store, watched, failure, node)
    reply = Reply(answer.status, answer.body)
    if str(reply.document.get("id") or "").lower() != watched.resource.lower():
        raise MachineUnusable(
            "the answer is not the machine of this node",
            where=endpoint_of(watched),
            why="another server may answer in its place (a proxy or a portal)",
        )
    goal = Goal.of(reply.document)
    waits = str(below(document, "azure", "machines").get("apply") or "").lower() != AT_ONCE
    step = step_for(watched, goal, document, node, host.clock.now(), waits=waits)
    if step is Step.WAIT:
        return waits_for(watched, goal, document, node)
    if step is not Step.APPLY:
        return Found(step, node)
    body = bundle_of(goal.over(document), goal.etag)
    return Found(step, node, News(body, "", digest_for(goal.etag), registers=node is NodeIs.ABSENT))


def waits_for(watched: Watched, goal: Goal, document: Mapping[str, Any], node: NodeIs) -> Found:
    """A new version waits, new labels and taints do not: AKS has set them on the Node already."""
    current = goal_of_document(document)
    waiting = what_waits(current, goal)
    if (goal.labels, goal.taints) == (current.labels, current.taints):
        return Found(Step.WAIT, node, waiting=waiting)
    part = replace(goal, version=current.version, max_pods=current.max_pods)
    body = bundle_of(part.over(document), watched.version or "")
    return Found(Step.APPLY, node, News(body, "", watched.digest, waiting=waiting))


def not_returned(host: Host, store: Store, watched: Watched, failure: HttpFailure, node: NodeIs) -> Found:
    """The machine was not returned: a failed poll, unless it was deleted and everything else says so, too."""
    reply = Reply(failure.status, failure.body)
    if failure.status in (401, 403):
        said = reply.error.code or "no reason stated"
        failure.reason += (
            f", {said}: the identity of this node may not read it; it needs role {ROLE} at the pool"
        )
        raise failure
    if not machine_deleted(reply, watched.resource):
        raise failure
    evidence = look_around(host, store, watched, reply) if watched.found else Evidence(reply)
    found = verdict(watched, evidence, host.clock.now())
    if found is Verdict.LEAVES:
        from .resource import TOMBSTONE

        return Found(Step.APPLY, node, TOMBSTONE)
    why = f"Azure answers {reply.error.code} for it"
    if found is Verdict.MISSING:
        gone = MachineMissing(
            "the machine of this node was deleted",
            where=watched.resource,
            why=f"{why}, and AKS deletes the Node; the node leaves if the next poll finds the same",
        )
        gone.deleted = True
        raise gone
    raise MachineMissing(
        "the machine of this node does not exist; the node stays",
        where=watched.resource,
        why=f"{why}, {why_it_stays(watched, evidence)}",
    )


def look_around(host: Host, store: Store, watched: Watched, machine: Reply) -> Evidence:
    """What the pool of a missing machine answers: all machines that it lists; the pool, if it lists none."""
    from .resource import reply_to

    version, pool = watched.url.partition("api-version=")[2], pool_of(watched.resource)
    pages: list[Reply] = []
    url = url_of(endpoint_of(watched), pool, version, "/machines")
    # The token is sent nowhere else. A list that is longer than that was not read to its end.
    while url and len(pages) < MOST_PAGES and same_server(url, watched.url):
        pages.append(reply_to(host, store, watched, url))
        url = next_page(pages[-1])
    evidence = Evidence(machine, tuple(pages))
    if not evidence.empty:
        return evidence
    return replace(evidence, pool=reply_to(host, store, watched, url_of(endpoint_of(watched), pool, version)))
