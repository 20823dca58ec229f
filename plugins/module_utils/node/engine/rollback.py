# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollback: the state of all items of a plan right before it is applied, and the way back to that state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from ..dataclass import replace
from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.layout import KUBELET, UNIT_DIR
from ..resources.base import Origin, Vault, key_of
from ..resources.kinds import KINDS
from ..resources.retired import Retired
from ..resources.units import SYSTEMCTL_SECONDS
from .orphans import Orphan
from .plan import Plan
from .records.journal import Journal
from .records.record import Record, Stage
from .records.state import Store
from .restarts import Progress, reload_and_restart

Restore = Callable[[Host, str, Origin, Vault], list[str]]
RESTORE: dict[str, Restore] = {
    # Content-addressed items stay: without a link to them they are not used.
    **{kind: resource.restore for kind, resource in KINDS.items() if not resource.content_addressed},
    Orphan.kind: Orphan.restore,
    Retired.kind: Retired.restore,
}


def previous_generation(
    plan: Plan, host: Host, journal: Journal, known: Mapping[str, Origin]
) -> dict[str, Origin]:
    """The present state of every item of a plan, except for those whose previous state is known already.

    `known` is the generation before an interrupted run. What that run changed was never proven, so it is no
    generation to return to. Directories are never emptied by a rollback: pods may use them.
    """
    return {
        **known,
        **{
            key: {**step.resource.capture(host, journal), "ours": False}
            for step in plan.steps
            if (key := key_of(step.resource)) not in known
        },
    }


def sync_entries(host: Host, names: Iterable[str]) -> None:
    """A rename is on the disk with its directory, and not before."""
    for directory in sorted({os.path.dirname(name) for name in names if name.startswith("/")}):
        if host.exists(directory):
            host.sync_directory(directory)


def restore_certificate(record: Record, host: Host, store: Store, progress: Progress) -> bool:
    """Return the kubelet's certificate, if it was retired and the kubelet got no new one; True: it did.

    For changes that stay in place after a failed gate. Without it the kubelet has no credential at all, and
    the API server may accept it again.
    """
    generation = [(*key.partition(":")[::2], origin) for key, origin in record.before.items()]
    retired = [
        (name, origin) for kind, name, origin in generation if kind == Retired.kind and not host.exists(name)
    ]
    for name, origin in retired:
        Retired.restore(host, name, origin, store.journal)
    if retired:
        sync_entries(host, (name for name, _origin in retired))
        reload_and_restart(host, False, [KUBELET], progress)
    return bool(retired)


def roll_back(record: Record, host: Host, store: Store, progress: Progress) -> list[str]:
    """Restore the previous generation and restart what runs with the new one; returns what failed, in words.

    It goes on past an item that fails. The record is removed by the caller, when nothing failed.
    """
    failures = []
    try:
        store.begin(replace(record, stage=Stage.ROLLING_BACK).as_dict())
    except FlexNodeError as error:  # the record of the change is still there, and has the same generation
        failures.append(f"{error.what}: {error.why}")
    generation = [(*key.partition(":")[::2], origin) for key, origin in record.before.items()]
    new = {name for kind, name, origin in generation if kind == "file" and origin["is"] == "absent"}
    # A unit of the previous generation must run, also if it happened to be stopped when this change came.
    was_stopped = [
        name
        for kind, name, origin in generation
        if kind == "unit" and origin["is"] != "running" and f"{UNIT_DIR}/{name}" in new
    ]
    was_running = [
        name for kind, name, origin in generation if kind == Orphan.kind and origin["kind"] == "unit"
    ]
    for unit in was_stopped:
        host.run(["systemctl", "stop", unit], timeout=SYSTEMCTL_SECONDS, check=False)
    for kind, name, origin in reversed(generation):
        if kind not in RESTORE or kind == "unit":
            continue
        try:
            RESTORE[kind](host, name, origin, store.journal)
        except FlexNodeError as error:
            failures.append(f"{name}: {error.what}: {error.why}")
        except OSError as error:  # that nobody foresaw
            failures.append(f"{name}: {error}")
    try:  # the record of the change is removed next
        sync_entries(host, (name for _kind, name, _origin in generation))
    except FlexNodeError as error:
        failures.append(f"{error.what}: {error.why}")
    reload = record.reload or any(name.startswith(UNIT_DIR) for _kind, name, _origin in generation)
    restarted = dict.fromkeys((*record.restarted, *was_running))
    try:
        reload_and_restart(host, reload, [unit for unit in restarted if unit not in was_stopped], progress)
    except FlexNodeError as error:
        failures.append(f"{error.what}: {error.why}")
    return failures
