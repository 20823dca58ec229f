# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a play rather than with one of its machines: found before any machine is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.checks import Finding
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import (
    Inventory,
    find_file,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import paths_only_in
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc import is_bound
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import arc_request
from ansible_collections.aks.flexnode.plugins.plugin_utils.play import PlayVariables

WHOLE = {"flexnode_config", "flexnode_host_config"}
OF_PLAYS = {"flexnode_hosts", "flexnode_serial", "flexnode_max_fail_percentage"}

Places = Callable[[str], list[str | None]]


def of_play(
    play: PlayVariables, inventory: Inventory, typed: Sequence[Any], places: Places
) -> Iterator[Finding]:
    """What is wrong whatever the play does."""
    yield from unseen(play, inventory)
    yield from excluded_in_vain(play, typed)
    yield from missing_hooks(inventory, places)


def excluded_in_vain(play: PlayVariables, typed: Sequence[Any]) -> Iterator[Finding]:
    """A name typed wrong after `!`: this run would act on machines that were meant to be left out."""
    for part in (part for pattern in typed for part in play.excluded_in_vain(pattern)):
        what = f"{part} leaves out nothing: the inventory has no machine or group {part[1:]}"
        yield Finding(("all",), what, "correct the name in --limit or flexnode_hosts, or remove it")


def unseen(play: PlayVariables, inventory: Inventory) -> Iterator[Finding]:
    """Variables of playbooks that stand in the inventory, where a play can't see them."""
    for name in sorted(OF_PLAYS & inventory.names - set(play.visible)):
        severity = "error" if name == "flexnode_hosts" else "warning"
        what = f"{name} has no effect in the inventory: a play can't see it there"
        fix = f"type it: -e {name}=...; for machines of one inventory use the group aks_flexnode"
        yield Finding(("all",), what, fix, severity)
    for name in sorted(WHOLE & set(play.extra_vars)):
        ignored: dict[str, list[str]] = {}
        for one in inventory.machines:
            if (hidden_value := play.replaced(name, one.host)) is not None:
                paths = paths_only_in(hidden_value, play.extra_vars[name])
                ignored.setdefault(", ".join(paths), []).append(one.host)
        for settings, hosts in ignored.items():
            what = f"-e {name} replaces {name} of the inventory completely"
            what += f", so these settings are ignored in this run: {settings}" if settings else ""
            fix = "To change individual settings, edit the inventory"
            yield Finding(tuple(hosts), what, fix, "warning")


def shared_kubeconfigs(machines: Iterable[Machine]) -> Iterator[Finding]:
    """One kubeconfig for Arc machines of several clusters: rights would be granted in the wrong one."""
    clusters: dict[str, dict[str, str]] = {}
    for one in machines:
        arc = arc_request(one.document, one.cluster_id)
        if one.arc_kubeconfig and is_bound(arc):
            file = os.path.realpath(os.path.expanduser(one.arc_kubeconfig))
            clusters.setdefault(file, {}).setdefault(str(arc["cluster_id"]).lower(), one.host)
    for file, hosts in clusters.items():
        if len(hosts) > 1:
            name = "flexnode_arc_kubeconfig"
            what = f"{name} {file} is of one cluster, and these machines belong to {len(hosts)}"
            fix = "set that of its cluster for each machine, in the inventory"
            fix += "; where it comes with -e or from an AWX credential, run once per cluster (--limit)"
            yield Finding(tuple(hosts.values()), what, fix)


def unprovable(inventory: Inventory) -> Iterator[Finding]:
    """A test pod is asked for, and there is no kubeconfig to place it with: known before machines join.

    The kubeconfig of another machine is no substitute, it may be of another cluster.
    """
    without = tuple(
        one.host
        for one in inventory.machines
        if one.proof and "flexnode_kubeconfig" not in inventory.filled[one.host]
    )
    if without:
        fix = "set flexnode_kubeconfig to a kubeconfig that may create pods, or leave out flexnode_proof"
        yield Finding(without, "flexnode_proof needs flexnode_kubeconfig", fix)


def missing_hooks(inventory: Inventory, places: Places) -> Iterator[Finding]:
    """Task files of hooks that do not exist: better known before the first machine is changed."""
    missing: dict[tuple[str, str], list[str]] = {}
    for one in inventory.machines:
        for hook, path in one.hooks:
            if not find_file(path, places(one.host)):
                missing.setdefault((hook, path), []).append(one.host)
    for (hook, path), hosts in missing.items():
        what = f"flexnode_update_{hook}: there is no file {path}"
        yield Finding(tuple(hosts), what, "a relative path starts at the current directory")
