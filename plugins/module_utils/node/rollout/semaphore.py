# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout record at the API server: read, change, write by its resourceVersion; who loses reads again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import FlexNodeError
from ..net.answer import HttpFailure
from ..net.kube import Json, KubeClient
from .errors import RolloutUnknown
from .record import KEY, NAME, NAMESPACE, Shared, read, written

T = TypeVar("T")
ATTEMPTS, PAUSE = 8, 0.1  # of a change that meets changes by other nodes; longer each time
CONFLICT = 409
WHERE = f"ConfigMap {NAME} in {NAMESPACE}"


def read_shared(api: KubeClient) -> tuple[Shared, Json, float]:
    """The record, the object that it is in, and the time of the API server."""
    try:
        found = api.config_map(NAMESPACE, NAME)
    except FlexNodeError as error:
        raise unknown("it can't be read", error) from error
    if found is None:
        raise RolloutUnknown("the rollout record does not exist", where=WHERE, why="nodes may not create it")
    try:
        return read(str((found.get("data") or {}).get(KEY) or "")), found, api.time
    except ValueError as error:
        raise RolloutUnknown("the rollout record can't be used", where=WHERE, why=str(error)) from error


def change_shared(api: KubeClient, step: Callable[[Shared, float], tuple[T, Shared]]) -> T:
    """Change the record by a pure step, which is repeated if another node was faster; returns its result."""
    for attempt in range(1, ATTEMPTS + 1):
        shared, found, now = read_shared(api)
        result, changed = step(shared, now)
        if changed == shared:
            return result
        data = {**(found.get("data") or {}), KEY: written(changed)}
        try:
            if api.replace_config_map(NAMESPACE, NAME, {**found, "data": data}) is not None:
                return result
        except HttpFailure as failure:
            if failure.status != CONFLICT:
                raise
        except FlexNodeError as error:
            raise unknown("it can't be written", error) from error
        api.clock.sleep(PAUSE * attempt)
    raise RolloutUnknown(
        "the rollout record can't be written", where=WHERE, why=f"other nodes changed it {ATTEMPTS} times"
    )


def unknown(what: str, error: FlexNodeError) -> RolloutUnknown:
    """A failure of the API server, as one of the rollout record."""
    why = f"{error.code} {error.what}: {error.why}"
    return RolloutUnknown(f"the rollout record is not known: {what}", where=WHERE, why=why)
