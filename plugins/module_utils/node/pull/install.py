# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install, update or remove ansible-pull, in a transaction of its own after the node works."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..components.every import AFTERWARDS
from ..config.model import NodeConfig
from ..dataclass import replace
from ..engine.prune import prune
from ..engine.records.state import Store
from ..engine.restarts import Progress, silent
from ..errors import FlexNodeError
from ..machine.clock import stamp
from ..machine.host import Host
from ..machine.layout import ANSIBLE_DIR, WHEELS_DIR
from ..operations.obtain import Obtained
from ..operations.outcome import Reconciled
from ..operations.reconcile import reconcile
from .errors import PullNotPossible

PULL = tuple(AFTERWARDS)
NEVER = re.compile(r"^ *Next elapse: never *$", re.MULTILINE)
CRON = ("/usr/sbin/cron", "/usr/sbin/crond")


def is_pending(obtained: Obtained) -> bool:
    """Whether ansible-pull differs from the configuration; also if it is to be removed."""
    if not is_concerned(obtained):
        return False
    if remains(obtained):
        return True
    try:
        return reconcile(replace(obtained, fetched=False), PULL, check=True).changed
    except FlexNodeError:  # the installation itself says why
        return True


def is_concerned(obtained: Obtained) -> bool:
    """Whether this machine pulls, or did so or was to: most do not, and must not pay for the question."""
    pulls = obtained.node.config.pull.repository is not None
    return pulls or obtained.node.host.exists(ANSIBLE_DIR) or bool(remains(obtained))


def remains(obtained: Obtained) -> list[str]:
    """What a machine without a repository still has besides the installation.

    Also without one: an installation that failed leaves a record, and a removal that was killed leaves more.
    """
    if obtained.node.config.pull.repository is not None:
        return []
    # The first has the ssh key and the credentials; the second was copied by the role `pull`.
    places = (f"{obtained.store.directory}/pull", WHEELS_DIR, record_of(obtained.store))
    return [place for place in places if obtained.node.host.exists(place)]


def record_of(store: Store) -> str:
    """How the last run went, or why nothing is installed."""
    return f"{store.directory}/pull.json"


def install(
    obtained: Obtained,
    *,
    check: bool = False,
    progress: Progress = silent,
    machine: str | None = None,
    leave: frozenset[str] | None = None,
) -> Reconciled:
    """Make ansible-pull as the configuration says; a failure is recorded for the status, and raised."""
    node, store = obtained.node, obtained.store
    obtained = replace(obtained, fetched=False)
    left = remains(obtained)

    def apply() -> Reconciled:
        return reconcile(obtained, PULL, check=check, progress=progress, machine=machine, leave=leave)

    try:
        check_schedule(node.host, node.config)
        run = apply() if check or node.config.pull.repository is not None else remove(obtained, apply)
    except FlexNodeError as error:
        if not check:
            note_failure(node.host, store, error)
        raise
    run.actions.extend(f"remove {place}" for place in left)
    if not check and store.pulled().get("install"):  # what failed before is history
        record = {name: value for name, value in store.pulled().items() if name != "install"}
        store.set_pulled(record or None)
    return run


def remove(obtained: Obtained, apply: Callable[[], Reconciled]) -> Reconciled:
    """Remove all of it; a machine that no longer pulls keeps nothing.

    The data go first: if this is killed, the check for drift finds the rest of the installation, but not
    the data. The record goes last: while it is there, the next run does all of this again.
    """
    host, record, left = obtained.node.host, record_of(obtained.store), remains(obtained)
    remove_data(obtained)
    run = apply()
    if run.changed or left:
        remove_data(obtained)  # again: a run that was under way may have written them meanwhile
        prune(host, obtained.store, (), of=frozenset(PULL))
        apply()  # directories that are empty now: they would be drift
    host.remove(record)
    return run


def remove_data(obtained: Obtained) -> None:
    """Remove what is beside the installation, except for the record."""
    for place in remains(obtained):
        if place != record_of(obtained.store):
            obtained.node.host.remove_tree(place)


def install_after(obtained: Obtained, progress: Progress = silent, machine: str | None = None) -> list[str]:
    """The same after a join or an update; a failure is a warning: the node works without it."""
    # A change of the node that is not proven yet comes first.
    if not is_concerned(obtained) or obtained.store.transaction() is not None:
        return []
    try:
        install(obtained, progress=progress, machine=machine)
    except FlexNodeError as error:
        why = f"{error.code}: {error.what}: {error.why}"
        return [f"ansible-pull is not installed as configured: {' '.join(why.split())}"]
    return []


def check_schedule(host: Host, config: NodeConfig) -> None:
    """Refuse a schedule that would never run, before anything is installed."""
    pull = config.pull
    if pull.repository is None:
        return
    if pull.scheduler == "cron":
        if not any(host.exists(path) for path in CRON):
            raise PullNotPossible(
                "cron is not installed on this machine",
                where="pull.scheduler",
                why=f"{' and '.join(CRON)} do not exist",
                fix="remove pull.scheduler (a systemd timer needs nothing), or install the package cron",
            )
        return
    checked = host.run(["systemd-analyze", "calendar", "--", pull.calendar], check=False)
    never = NEVER.search(checked.stdout)
    if checked.status != 0 or never:
        refused = " ".join((checked.stderr or checked.stdout).split())[:300] or "systemd refuses it"
        raise PullNotPossible(
            "the schedule of ansible-pull can't be used",
            where="pull.schedule",
            why=f"{pull.calendar} is never again" if never else refused,
            fix=f"use a calendar expression; try it: systemd-analyze calendar -- {pull.calendar!r}",
        )


def note_failure(host: Host, store: Store, error: FlexNodeError) -> None:
    """Remember why it is not installed; since when, if it is the same reason as before."""
    record = store.pulled()
    before = record.get("install") or {}
    since = before["since"] if before.get("code") == error.code else stamp(host.clock)
    message = " ".join(f"{error.what}: {error.why}".split())
    store.set_pulled({**record, "install": {"code": error.code, "message": message, "since": since}})
