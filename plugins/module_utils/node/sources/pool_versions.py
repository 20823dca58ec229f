# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of a FlexNodes pool a machine gets: those that it can verify, else the defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..catalogue.artifacts import Catalogue
from ..config import defaults
from ..config.types.formats import containerd_version, version
from ..config.types.setting import Kind, Refused
from ..config.types.values import Version
from ..dataclass import dataclass


@dataclass(frozen=True)
class Component:
    """Software whose version a pool names, as a wish: AKS asks for no certain one."""

    path: str  # in the bootstrap data
    section: str  # of the document
    artifact: str  # in the catalogue
    default: Version
    kind: Kind[Version]


COMPONENTS = (
    Component("components.containerd", "containerd", "containerd", defaults.CONTAINERD, containerd_version),
    Component("components.runc", "runc", "runc", defaults.RUNC, version),
    Component("networking.cniVersion", "cni", "cni-plugins", defaults.CNI_PLUGINS, version),
)


def usable_versions(
    document: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The document of a pool without versions that this machine can't install, and notes for the user.

    settings: those of the machine. Its mirror may have digests of its own, and a version that it chooses
    counts more than the pool's.
    """
    catalogue, usable, notes = catalogue_of(settings), dict(document), []
    for one in COMPONENTS:
        named = _version(document, one)
        if named and not can_install(catalogue, one, named):
            del usable[one.section]
            if not _version(settings, one):
                notes.append(
                    f"the pool names {one.artifact} {named}, which {_list(settings, one)} does not have: "
                    f"{one.default} is installed, unless {one.section}.version names another"
                )
    return usable, notes


def stand_ins(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for versions that only a pool knows, where its mirror's list lacks the default.

    Such a machine never gets the default. The newest of that list is the most likely one.
    """
    catalogue = catalogue_of(settings)
    found: dict[str, Any] = {}
    for one in COMPONENTS:
        if _version(settings, one) or can_install(catalogue, one, str(one.default)):
            continue
        listed = [name for name in catalogue.versions(one.artifact) if can_install(catalogue, one, name)]
        if listed:
            found[one.section] = {"version": listed[-1]}
    return found


def can_install(catalogue: Catalogue, component: Component, named: str) -> bool:
    """Whether a version is supported, and can be verified on machines of every architecture of that list."""
    try:
        component.kind.read(named)
    except Refused:
        return False
    return catalogue.knows(component.artifact, named)


def catalogue_of(settings: Mapping[str, Any]) -> Catalogue:
    """What a machine with these settings can verify. What can't be read in them is refused later."""
    own = _below(_below(settings, "mirror"), "catalogue")
    return Catalogue(
        {
            name: {key: value for key, value in _below(own, name).items() if isinstance(value, Mapping)}
            for name in own
            if isinstance(own[name], Mapping)
        }
    )


def _version(document: Mapping[str, Any], component: Component) -> str:
    return str(_below(document, component.section).get("version") or "")


def _list(settings: Mapping[str, Any], component: Component) -> str:
    own = _below(_below(settings, "mirror"), "catalogue")
    return "mirror.catalogue" if component.artifact in own else "this collection's catalogue"


def _below(document: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = document.get(section)
    return found if isinstance(found, Mapping) else {}
