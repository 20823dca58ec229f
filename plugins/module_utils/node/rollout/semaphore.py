# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout record at the API server: read, change, write by its resourceVersion; who loses reads again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import FlexNodeError, Forbidden
from ..net.answer import HttpFailure
from ..net.kube import Json, KubeClient
from .errors import RolloutUnknown
from .record import KEY, NAME, NAMESPACE, NewerRecord, Shared, read, written

T = TypeVar("T")
ATTEMPTS, PAUSE = 8, 0.1  # of a change that meets changes by other nodes; longer each time
CONFLICT = 409
FORBIDDEN = 403
WHERE = f"ConfigMap {NAME} in {NAMESPACE}"
APPLY = "kubectl apply -f docs/examples/rollout.yaml (a file of the collection)"
REPLACE = (
    f"look at it (kubectl get configmap {NAME} -n {NAMESPACE} -o yaml). If nothing in it is needed and no "
    f"node is being updated: kubectl delete configmap {NAME} -n {NAMESPACE}, then {APPLY}, then "
    "run playbook aks.flexnode.update on the nodes: they register again"
)
UPDATE = (
    "update the node to that release of aks.flexnode, or a newer one: run playbook aks.flexnode.bootstrap or "
    "aks.flexnode.update with it"
)
AGAIN = "run this again; a node that polls its configuration tries again by itself"


def read_shared(api: KubeClient) -> tuple[Shared, Json, float]:
    """The record, the object that it is in, and the time of the API server."""
    try:
        found = api.config_map(NAMESPACE, NAME)
    except FlexNodeError as error:
        raise failed("read", error) from error
    if found is None:
        raise unknown("the rollout record does not exist", "nodes are not allowed to create it", APPLY)
    try:
        return read(str((found.get("data") or {}).get(KEY) or "")), found, api.time
    except ValueError as error:
        fix = UPDATE if isinstance(error, NewerRecord) else REPLACE
        raise unknown("the rollout record can't be used", str(error), fix) from error


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
            raise failed("write", error) from error
        api.clock.sleep(PAUSE * attempt)
    raise unknown("can't write the rollout record", f"other nodes changed it {ATTEMPTS} times", AGAIN)


def failed(verb: str, error: FlexNodeError) -> RolloutUnknown:
    """A failure of the API server, as one of the rollout record."""
    why = f"{error.code} {error.what}: {error.why}"
    no_right = isinstance(error, Forbidden) and getattr(error.__cause__, "status", 0) == FORBIDDEN
    return unknown(f"can't {verb} the rollout record", why, APPLY if no_right else error.fix)


def unknown(what: str, why: str, fix: str) -> RolloutUnknown:
    """The error, which also says that the node goes on working."""
    return RolloutUnknown(what, where=WHERE, why=why, fix=f"{fix}. The node keeps its current version")
