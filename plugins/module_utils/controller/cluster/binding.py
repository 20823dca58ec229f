# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create and compare RBAC roles and bindings in a cluster, as an administrator, from the controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..azure.errors import BindingConflict
from ..parallel import in_parallel
from .client import Client
from .rbac import Right

Json = dict[str, Any]


class RbacClient(Client):
    """The API calls for roles and bindings."""

    def bindings(self, selector: str = "") -> list[Json]:
        """All ClusterRoleBindings of the cluster, or those with some labels."""
        chosen = {"label_selector": selector} if selector else {}
        return self._items(self._rbac.list_cluster_role_binding, **chosen)

    def delete_binding(self, name: str) -> bool:
        """Delete a binding; False where there was none."""
        return self._found(self._rbac.delete_cluster_role_binding, name) is not None

    def create(self, body: Json) -> bool:
        """Create a role, a binding or a ConfigMap; False where there is one of this name."""
        create = {
            "ClusterRole": self._rbac.create_cluster_role,
            "ClusterRoleBinding": self._rbac.create_cluster_role_binding,
            "Role": self._rbac.create_namespaced_role,
            "RoleBinding": self._rbac.create_namespaced_role_binding,
            "ConfigMap": self._core.create_namespaced_config_map,
        }[body["kind"]]
        namespace = body["metadata"].get("namespace")
        place = (namespace,) if namespace else ()
        return self._call(create, *place, body, accepted=(409,)) is not None

    def read(self, kind: str, name: str, namespace: str = "") -> Json | None:
        """A role, a binding or a ConfigMap, None where there is none."""
        read = {
            "ClusterRole": self._rbac.read_cluster_role,
            "ClusterRoleBinding": self._rbac.read_cluster_role_binding,
            "Role": self._rbac.read_namespaced_role,
            "RoleBinding": self._rbac.read_namespaced_role_binding,
            "ConfigMap": self._core.read_namespaced_config_map,
        }[kind]
        return self._found(read, name, *((namespace,) if namespace else ()))

    def read_as(self, body: Json) -> Json | None:
        """The object of the same kind, name and namespace, None where there is none."""
        return self.read(body["kind"], body["metadata"]["name"], body["metadata"].get("namespace", ""))


@dataclass(slots=True)
class Changes:
    """What was changed in one cluster."""

    actions: list[str] = field(default_factory=list)
    diff: list[Json] = field(default_factory=list)


def grant(client: RbacClient, rights: Sequence[Right], changes: Changes, *, check: bool) -> None:
    """Create rights. Nothing is bound if an object of one of the names grants something else."""

    def compare(right: Right) -> None:
        for _path, body in right.objects:
            _compare(right, body, client.read_as(body))

    def create(right: Right) -> None:
        for _path, body in right.objects:
            if not client.create(body):  # another run created it at the same time
                _compare(right, body, client.read_as(body))

    in_parallel(compare, rights, lambda right: right.name)
    for right in rights:
        changes.actions.append(f"bind {right.role} to {right.subject}")
        changes.diff.append(
            {
                "before_header": right.name,
                "after_header": right.name,
                "before": {},
                "after": by_name(body for _path, body in right.objects),
            }
        )
    if rights and not check:
        create(rights[0])  # a missing permission is reported once, not once per right
        in_parallel(create, rights[1:], lambda right: right.name)


def by_name(objects: Iterable[Json]) -> Json:
    """Objects as a difference may have them: Ansible shows text and mappings, and fails at a list."""
    return {f"{one['kind']} {one['metadata']['name']}": one for one in objects}


def _compare(right: Right, wanted: Json, found: Json | None) -> None:
    """Refuse an object that has the name of ours and grants something else."""
    if found is None or _granted(found) == _granted(wanted):
        return
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    raise BindingConflict(
        f"a {kind} of this name exists, but grants something else",
        where=name,
        why=f"it should bind {right.role} to {right.subject}"
        if kind.endswith("Binding")
        else f"its rules should be {list(right.rules)}",
        fix=f"check it (kubectl describe {kind.lower()} {name}), delete it if nothing uses it, and run this "
        f"again; docs/examples/{'rollout' if right.namespace else 'rbac'}.yaml shows what it should be",
    )


def _granted(body: Json) -> Json:
    """What a role or a binding grants, without its metadata."""
    return {
        "rules": [_sorted(rule) for rule in body.get("rules") or ()],
        "role": {key: (body.get("roleRef") or {}).get(key) for key in ("kind", "name")},
        "subjects": sorted(
            (str(one.get("kind")), str(one.get("name"))) for one in body.get("subjects") or ()
        ),
    }


def _sorted(rule: Mapping[str, Any]) -> Json:
    return {key: sorted(values) for key, values in rule.items() if values}
