# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One ansible-pull: fetch, verify, run, record. Whatever goes wrong, the node itself is not touched."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..config.model import NodeConfig
from ..engine.lease import alone, held, new_operation
from ..engine.records.state import Phase, Store
from ..errors import ConfigMissing, FlexNodeError
from ..machine.clock import stamp
from ..machine.command import Stop
from ..machine.host import Host
from ..machine.program import COMMAND
from ..net.proxy import environment, proxies
from ..status.publish import publish
from .errors import CommitOlder, CommitRefused, CopyDamaged, SubmodulesRefused
from .playbook import Run, stopped
from .repository import Access, Repository

Say = Callable[[str], None]
OK, FAILED, REFUSED = "ok", "failed", "refused"
REFUSALS = (CommitRefused, CommitOlder, SubmodulesRefused)
SUBMODULES = ".gitmodules"
OWNER = f"{COMMAND} pull"
RECORD_SECONDS = 300.0  # that a result waits for another run to end; the unit's own limit is longer
NOT_RUN = 3  # exit status, as of a configuration that was refused


def pull_once(host: Host, store: Store, config: NodeConfig, say: Say) -> int:
    """Run what the repository has now; exit status 0: it worked."""
    if config.pull.repository is None:
        raise ConfigMissing(
            "this machine has no repository to pull from",
            where="pull.repository",
            fix="set pull.repository in its configuration",
        )
    if is_leaving(store):
        say("this machine is leaving the cluster: no playbook runs")
        return 0
    with alone(host):
        before, start = store.pulled(), host.clock.now()
        found: dict[str, Any] = {"commit": None, "started": stamp(host.clock)}
        try:
            with stopped_by_signal() as stop:
                summary = fetch_and_run(host, store, config, say, found, before.get("newest") or {}, stop)
        except FlexNodeError as error:
            outcome = REFUSED if isinstance(error, REFUSALS) else FAILED
            what = " ".join(f"{error.what}: {error.why}".split()) if error.why else error.what
            same = before.get("code") == error.code
            since = (before.get("since") if same else "") or stamp(host.clock)
            found |= {"outcome": outcome, "code": error.code, "message": what, "since": since}
            say(str(error))
        else:
            good = {"commit": found["commit"], "time": stamp(host.clock)}
            found |= {"outcome": OK, "message": summary, "lastGood": good}
            say(f"commit {found['commit'][:12]}: {summary}")
        found["seconds"] = round(host.clock.now() - start, 1)
        # A run that changes the machine removes half-written files of others: nobody writes beside it.
        with held(host, new_operation(), OWNER, patience=RECORD_SECONDS):
            keep(host, store, found)
    return 0 if found["outcome"] == OK else NOT_RUN


def keep(host: Host, store: Store, found: Mapping[str, Any]) -> None:
    """Record how a run went, and publish it."""
    if is_leaving(store) or not still_pulls(store):
        return  # what was removed meanwhile must not come back
    now = store.pulled()  # again: meanwhile another run may have installed ansible-pull, or failed to
    kept = {name: now.get(name) for name in ("lastGood", "install", "newest")}
    record = {**kept, **found, "time": stamp(host.clock)}
    store.set_pulled({name: value for name, value in record.items() if value is not None})
    publish(host, store)


def is_leaving(store: Store) -> bool:
    """Whether the machine leaves its cluster, or began to."""
    return store.state().get("phase") == Phase.RESETTING.value


def still_pulls(store: Store) -> bool:
    """Whether the stored configuration has a repository; a machine that left its cluster stores none."""
    return bool(((store.remembered()[0] or {}).get("pull") or {}).get("repository"))


def fetch_and_run(
    host: Host,
    store: Store,
    config: NodeConfig,
    say: Say,
    found: dict[str, Any],
    newest: Mapping[str, Any],
    stop: Stop,
) -> str:
    """The run itself; `found` receives the commit as soon as it is known. Returns one line.

    newest: the commit that ran last, whatever came of it.
    """
    directory, ref = f"{store.directory}/pull", config.pull.ref or "HEAD"
    # One limit for all of it: systemd's own is longer, and would end the run before anything is recorded.
    end = host.clock.monotonic() + config.pull.timeout_seconds
    access = access_of(config)
    repository = Repository(host, directory, access)
    if newest.get("repository", access.shown) != access.shown:
        newest = {}  # of another repository, whose commits have nothing to do with these
    try:
        rewritten = fetch_and_verify(repository, config, say, found, newest, config.pull.timeout_seconds)
    except CopyDamaged as error:  # by a power cut or a bad sector
        say(f"{error.what}: {error.why}. It is replaced by a new copy.")
        left = max(end - host.clock.monotonic(), 1.0)
        # From the start: of the new copy nothing is verified yet, and the server may have another commit now.
        rewritten = fetch_and_verify(repository, config, say, found, newest, left, anew=True)
    commit = found["commit"]
    date = repository.date(commit)
    found["newest"] = {"commit": commit, "ref": ref, "date": date, "repository": access.shown}
    if found["newest"] != newest:  # before it runs: a playbook may reboot the machine
        with held(host, new_operation(), OWNER):
            store.set_pulled({**store.pulled(), "newest": found["newest"]})
    run = Run(host, repository, directory, commit, config.pull, environment(config), say, end, stop)
    summary = run.run()
    return f"{summary} (the history was rewritten: {rewritten[:12]} is no ancestor)" if rewritten else summary


def fetch_and_verify(
    repository: Repository,
    config: NodeConfig,
    say: Say,
    found: dict[str, Any],
    newest: Mapping[str, Any],
    seconds: float,
    *,
    anew: bool = False,
) -> str:
    """Fetch a commit, check all that must be true of it, and let ansible-pull see it.

    Returns the commit that ran last if it is no ancestor of this one: then the history was rewritten.
    """
    ref = config.pull.ref or "HEAD"
    commit = found["commit"] = repository.fetch(ref, seconds, anew=anew)
    if config.pull.verify_commit:
        repository.verify(commit)
        say(f"commit {commit[:12]} has a good signature")
    known = str(newest.get("commit") or "")
    rewritten = bool(known) and not repository.follows(commit, known)
    # Another ref in the configuration is a decision of the administrator, who may go back.
    if rewritten and config.pull.verify_commit and newest["ref"] == ref:
        check_newer(repository, commit, newest)
    if repository.has(commit, SUBMODULES):
        raise SubmodulesRefused(
            f"commit {commit[:12]} is not run",
            where=SUBMODULES,
            why="the submodules that it names would come from other servers, and not be verified",
        )
    repository.accept(commit)
    return known if rewritten else ""


def check_newer(repository: Repository, commit: str, newest: Mapping[str, Any]) -> None:
    """Refuse a signed commit that does not follow the last one and is older: its signature never expires."""
    known = str(newest["commit"])
    if repository.follows(known, commit) or repository.date(commit) < int(newest["date"]):
        raise CommitOlder(
            f"commit {commit[:12]} is not run",
            where=str(newest["ref"]),
            why=f"it is older than {known[:12]}, which ran on this machine before",
        )


def access_of(config: NodeConfig) -> Access:
    """How the configuration says to reach the repository."""
    pull = config.pull
    url = pull.repository.reveal() if pull.repository else ""
    through = proxies(config)
    return Access(
        url,
        ssh_key=pull.ssh_key.reveal() if pull.ssh_key else "",
        known_hosts=pull.known_hosts or "",
        ca_pem=pull.ca_cert.pem if pull.ca_cert else "",
        proxy=through.https if url.startswith("https://") else "",
        no_proxy=",".join(through.no) if through.https else "",
        allowed_signers=pull.allowed_signers or "",
        gpg_keys=pull.gpg_keys or "",
    )


@contextlib.contextmanager
def stopped_by_signal() -> Iterator[Stop]:
    """When systemd, a shutdown or unbootstrap ends this process, its playbook ends; the status says so."""
    stop = Stop()

    def asked(_number: int, _frame: object) -> None:
        stop.ask()
        if not stop.busy:
            raise stopped()

    before = signal.signal(signal.SIGTERM, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
