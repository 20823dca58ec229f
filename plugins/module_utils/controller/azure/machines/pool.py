# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A FlexNodes pool: the properties that it may have, and what differs from the wanted ones. All pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....node.config.types.values import Version
from ....node.errors import ConfigInvalid, Problem
from ....node.sources.machines import POOL_PATTERN, own_labels, own_taints, pool_id
from ..errors import PoolUnusable
from .plan import users_labels

Json = dict[str, Any]
TYPE, MODE = "FlexNodes", "User"
IN_OPTIONS = "correct these options (in an inventory: flexnode_cluster_id, flexnode_pool), then run again"


def pool_name(text: str) -> str:
    """The name of a pool, checked before any call."""
    if not re.fullmatch(POOL_PATTERN, text):
        accepted = "1-12 lower-case letters and digits, a letter first"
        raise ConfigInvalid([Problem("pool", repr(text), accepted)], fix=IN_OPTIONS)
    return text


@dataclass(frozen=True, slots=True)
class WantedPool:
    """The settings of a pool; None: as it is, a new pool has Azure's defaults."""

    version: str | None = None
    max_pods: int | None = None
    labels: Mapping[str, str] | None = None
    taints: tuple[str, ...] | None = None
    max_unavailable: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> WantedPool:
        """From the options of a module."""
        labels, taints = options["labels"], options["taints"]
        return cls(
            str(options["version"]).removeprefix("v") if options["version"] else None,
            options["max_pods"],
            None if labels is None else users_labels(labels),
            None if taints is None else own_taints(taints),
            str(options["max_unavailable"]) if options["max_unavailable"] else None,
        )

    def over(self, known: Json) -> Json:
        """Settings as `known_settings` returns them, with these over them."""
        explicit = {
            "version": self.version,
            "maxPods": self.max_pods,
            "labels": None if self.labels is None else dict(self.labels),
            "taints": None if self.taints is None else list(self.taints),
            "maxUnavailable": self.max_unavailable,
        }
        return {**known, **{key: value for key, value in explicit.items() if value is not None}}


def known_settings(pool: Mapping[str, Any] | None) -> Json:
    """The settings of a pool as Azure returns it; without those of other kinds of pools."""
    properties = (pool or {}).get("properties") or {}
    upgrade = properties.get("upgradeSettings") or {}
    return {
        "version": str(properties.get("orchestratorVersion") or ""),
        "maxPods": properties.get("maxPods"),
        "labels": own_labels(properties.get("nodeLabels") or {}),
        "taints": list(own_taints(properties.get("nodeTaints") or ())),
        "maxUnavailable": str(upgrade.get("maxUnavailable") or ""),
    }


def properties_of(settings: Mapping[str, Any]) -> Json:
    """What is PUT: only what Azure accepts for a FlexNodes pool, and nothing that is empty."""
    optional = {
        "orchestratorVersion": settings["version"],
        "maxPods": settings["maxPods"],
        "nodeLabels": settings["labels"],
        "nodeTaints": settings["taints"],  # Azure refuses an empty list
        "upgradeSettings": {"maxUnavailable": settings["maxUnavailable"]}
        if settings["maxUnavailable"]
        else None,
    }
    return {"type": TYPE, "mode": MODE, **{key: value for key, value in optional.items() if value}}


def differences(known: Mapping[str, Any], wanted: Mapping[str, Any], current: str = "") -> list[str]:
    """The settings that a PUT would change. current: the full version behind a version such as 1.36."""
    found = [key for key in wanted if key != "version" and wanted[key] != known.get(key)]
    have, want = str(known["version"]), str(wanted["version"])
    same = have == want or want == current or (want.count(".") == 1 and have.startswith(f"{want}."))
    return found if same else ["version", *found]


def require_flexnodes(pool: Mapping[str, Any], where: str) -> None:
    """Refuse a pool of another type: its machines are virtual machines of Azure."""
    kind = str(((pool.get("properties") or {}).get("type")) or "")
    if kind.lower() != TYPE.lower():
        raise PoolUnusable(
            f"the pool is of type {kind or 'unknown'}, not {TYPE}",
            where=where,
            fix="name another pool, or create one: az aks nodepool add --vm-set-type FlexNodes ...; "
            "docs/pools.md has the whole line",
        )


def require_not_newer(version: str, control_plane: str, where: str) -> None:
    """Refuse a version above that of the control plane."""
    if version and control_plane and is_newer(version, control_plane):
        raise PoolUnusable(
            f"Kubernetes {version} is newer than the control plane",
            where=where,
            why=f"the control plane has {control_plane}",
            fix=f"choose {control_plane} or older, or upgrade the control plane first: az aks upgrade "
            "--control-plane-only --kubernetes-version ...",
        )


def is_newer(version: str, than: str) -> bool:
    """Whether a version is newer; a version such as 1.36 is compared by its two numbers."""
    try:
        if version.count(".") == 1:
            one, other = Version.parse(f"{version}.0"), Version.of_build(than)
            return (one.major, one.minor) > (other.major, other.minor)
        return Version.parse(version) > Version.of_build(than)
    except ValueError:
        return False


def described(pool: Mapping[str, Any], cluster: str) -> Json:
    """A pool as modules return it."""
    properties, name = pool.get("properties") or {}, str(pool.get("name") or "").rpartition("/")[2]
    settings = known_settings(pool)
    return {
        "name": name,
        "id": pool_id(cluster, name),
        "type": str(properties.get("type") or ""),
        "version": settings["version"],
        "current_version": str(properties.get("currentOrchestratorVersion") or ""),
        "max_pods": settings["maxPods"],
        "labels": settings["labels"],
        "taints": settings["taints"],
        "max_unavailable": settings["maxUnavailable"],
        "provisioning_state": str(properties.get("provisioningState") or ""),
    }
