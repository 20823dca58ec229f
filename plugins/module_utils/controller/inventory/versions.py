# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that a machine would refuse, found for all machines before anything is written. Pure."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from ...node.catalogue.artifacts import KUBERNETES, artifacts_of, skew
from ...node.config.document import merge
from ...node.config.parse import parse
from ...node.config.types.values import Arch, Version
from ...node.errors import ConfigInvalid, FlexNodeError, NotInCatalogue, Problem, counted
from ..azure.flexnode_config.plan import checked
from .checks import Finding, lines_of
from .errors import CORRECT_SETTINGS, NOTHING_CHANGED, InventoryInvalid
from .machines import Machine

ARCHES: tuple[Arch, ...] = ("amd64", "arm64")
# What decides about the files that are downloaded: machines that are the same in this are checked once.
SECTIONS = ("kubernetes", "containerd", "runc", "npd", "mirror")
CNI = ("version", "sha256")  # without podCIDR, which every machine has of its own
# Stands for a version that only Azure knows: its digests are not looked up.
UNKNOWN = {"version": "1.34.4", "sha256": dict.fromkeys(KUBERNETES, "0" * 64)}


def require_versions(
    machines: Iterable[Machine],
    clusters: Iterable[Mapping[str, Any]],
    unchanged: str = NOTHING_CHANGED,
    whole: Container[str] = (),
) -> None:
    """Stop if a machine would refuse its versions; all findings of all machines are shown in one list.

    The same checks as on the machine: each version is in the catalogue or has a digest, and the kubelet fits
    to the API server. clusters: what is known of the clusters of these machines. unchanged: what this run has
    not changed yet. whole: hosts whose documents must be right in everything else, too.
    """
    known = {str(one["id"]).lower(): str(one.get("kubernetes_version") or "") for one in clusters}
    all_machines = list(machines)
    by_software: dict[str, list[FlexNodeError]] = {}
    found: dict[str, tuple[FlexNodeError, list[str]]] = {}
    for machine in all_machines:
        software, cluster = software_of(machine.document), known.get(machine.cluster_id.lower(), "")
        key = json.dumps([software, cluster], sort_keys=True, default=str)
        if key not in by_software:
            by_software[key] = refused(software, cluster)
        for error in by_software[key]:
            found.setdefault(str(error), (error, []))[1].append(machine.host)
    refusing = {host for _error, hosts in found.values() for host in hosts}
    others = list(other_problems(one for one in all_machines if one.host in refusing or one.host in whole))
    if not found and not others:
        return
    errors = [error for error, _hosts in found.values()]
    findings = [
        Finding(tuple(hosts), f"{error.what}: {error.why} ({error.code})", error.fix)
        for error, hosts in found.values()
    ]
    findings += others
    refusing.update(host for finding in others for host in finding.hosts)
    what = f"the configuration of {counted(len(refusing), 'machine')} is not valid"
    what += f": {counted(len(findings), 'error')}"
    kinds = {type(error) for error in errors}
    # Different codes: each is in its line, and none of them leads.
    kind = InventoryInvalid if others or len(kinds) > 1 else kinds.pop()
    stop = kind(what, why="\n  " + "\n  ".join(lines_of(findings)), fix=CORRECT_SETTINGS)
    stop.unchanged = unchanged
    raise stop


def other_problems(machines: Iterable[Machine]) -> Iterator[Finding]:
    """What else is wrong in the documents of these machines: a user wants to know everything at once."""
    by_problem: dict[str, list[str]] = {}
    for machine in machines:
        for problem in _problems(machine):
            by_problem.setdefault(str(problem), []).append(machine.host)
    for sentence, found in by_problem.items():
        yield Finding(tuple(found), f"{sentence} ({ConfigInvalid.code})", "")  # it says what to set


def _problems(machine: Machine) -> Iterable[Problem]:
    """A document of the inventory must be complete; elsewhere the cluster fills in version and location."""
    if machine.source != "inline":
        return checked("", machine.document)
    try:
        parse(machine.document, purpose="prepare")
    except ConfigInvalid as invalid:
        return invalid.problems
    return ()


def software_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a document that names versions, digests and mirrors; one spelling, no nulls."""
    plain = merge({}, document)
    software = {name: plain[name] for name in SECTIONS if name in plain}
    cni = plain.get("cni")
    if isinstance(cni, Mapping):
        software["cni"] = {name: cni[name] for name in CNI if name in cni}
    return software


def refused(software: Mapping[str, Any], cluster: str) -> list[FlexNodeError]:
    """Why a machine would refuse these versions. cluster: the version of its API server, empty: not known."""
    kubernetes = software.get("kubernetes")
    chosen = kubernetes.get("version") if isinstance(kubernetes, Mapping) else None
    default = UNKNOWN if not cluster else {"version": cluster}
    try:
        config = parse(software if chosen else merge(software, {"kubernetes": default}), purpose="prepare")
    except ConfigInvalid:
        return []  # the document's own checks report what can't be read
    errors: list[FlexNodeError] = []
    unknown = [error for arch in ARCHES if (error := _unknown(config, arch))]
    if len(unknown) == len(ARCHES):  # the architecture is known on the machine only
        errors.append(unknown[0])
    try:
        too_far = skew(config.kubernetes.version, Version.of_build(cluster)) if chosen and cluster else None
    except ValueError:
        return errors
    return [*errors, too_far] if too_far else errors


def _unknown(config: Any, arch: Arch) -> NotInCatalogue | None:
    try:
        artifacts_of(config, arch)
    except NotInCatalogue as error:
        return error
    return None
