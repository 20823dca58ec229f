# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights in a cluster, made and compared; by an administrator, from the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from ...node.errors import ApiUnreachable
from ...node.net.kube import KubeClient
from ..azure.errors import BindingConflict
from ..parallel import each
from .rbac import BASE, Right

Json = dict[str, Any]
BINDINGS = f"{BASE}/clusterrolebindings"
PAGE = 500


class RbacClient(KubeClient):
    """The calls that rights need."""

    def bindings(self, selector: str = "") -> list[Json]:
        """All bindings of the cluster, or those with some labels."""
        return self.listed(BINDINGS, {"labelSelector": selector} if selector else {})

    def delete_binding(self, name: str) -> bool:
        """Delete a binding; False where there was none."""
        return self._call("DELETE", f"{BINDINGS}/{quote(name, safe='')}") is not None

    def create(self, path: str, body: Json) -> bool:
        """Create an object; False where there is one of this name."""
        try:
            self._call("POST", path, body)
        except ApiUnreachable as error:
            if getattr(error.__cause__, "status", 0) == 409:
                return False
            raise
        return True

    def read(self, path: str, name: str) -> Json | None:
        """An object, None where there is none."""
        return self._call("GET", f"{path}/{quote(name, safe='')}")

    def listed(self, path: str, query: Mapping[str, str]) -> list[Json]:
        """All of a list, a page at a time: a big cluster's list is more than one answer may hold."""
        found: list[Json] = []
        following: dict[str, str] = {}
        while True:
            parameters = {**query, "limit": str(PAGE), **following}
            answer = self._call("GET", f"{path}?{urlencode(parameters)}") or {}
            found += answer.get("items") or ()
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return found
            following = {"continue": str(token)}


@dataclass(slots=True)
class Done:
    """What was done in one cluster."""

    actions: list[str] = field(default_factory=list)
    diff: list[Json] = field(default_factory=list)


def grant(client: RbacClient, rights: Sequence[Right], done: Done, *, check: bool) -> None:
    """Create rights; nothing is bound where a name is taken for something else."""

    def compare(right: Right) -> None:
        for path, body in right.objects:
            _compare(right, body, client.read(path, body["metadata"]["name"]))

    def create(right: Right) -> None:
        for path, body in right.objects:
            if not client.create(path, body):  # another run at the same time
                _compare(right, body, client.read(path, body["metadata"]["name"]))

    each(compare, rights, lambda right: right.name)
    for right in rights:
        done.actions.append(f"bind {right.role} to {right.subject}")
        done.diff.append(
            {
                "before_header": right.name,
                "after_header": right.name,
                "before": {},
                "after": [body for _path, body in right.objects],
            }
        )
    if rights and not check:
        create(rights[0])  # who may not do it is told once
        each(create, rights[1:], lambda right: right.name)


def _compare(right: Right, wanted: Json, found: Json | None) -> None:
    """Refuse an object that has the name of ours and is not the same."""
    if found is None or _granted(found) == _granted(wanted):
        return
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    raise BindingConflict(
        f"a {kind} of this name is there, but grants something else",
        where=name,
        why=f"it should bind {right.role} to {right.subject}"
        if kind == "ClusterRoleBinding"
        else f"its rules should be {list(right.rules)}",
        fix=f"look at it (kubectl describe {kind.lower()} {name}), delete it if it is "
        "nobody's, and run this again; docs/examples/rbac.yaml shows what it should be",
    )


def _granted(body: Json) -> Json:
    """What a role or a binding grants, whatever else is written about it."""
    return {
        "rules": [_sorted(rule) for rule in body.get("rules") or ()],
        "role": {key: (body.get("roleRef") or {}).get(key) for key in ("kind", "name")},
        "subjects": sorted(
            (str(one.get("kind")), str(one.get("name"))) for one in body.get("subjects") or ()
        ),
    }


def _sorted(rule: Mapping[str, Any]) -> Json:
    return {key: sorted(values) for key, values in rule.items() if values}
