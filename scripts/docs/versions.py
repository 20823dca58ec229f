# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions that the catalogue knows, by minor version."""

from __future__ import annotations

from itertools import groupby

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import builtin_digests
from scripts.docs.tables import Stale, rows

NAMES = {"kubelet": "Kubernetes", "containerd": "containerd", "runc": "runc", "cni-plugins": "CNI plugins"}
SAME_AS_KUBELET = {"kubectl", "kubeadm"}


def versions() -> str:
    """Each artifact with its versions."""
    digests = builtin_digests()
    if unnamed := digests.keys() - NAMES.keys() - SAME_AS_KUBELET:
        raise Stale(f"scripts/docs/versions.py has no name for {', '.join(sorted(unnamed))}")
    return rows(((name, _lines(digests[key])) for key, name in NAMES.items()), head=("what", "versions"))


def _lines(known: dict[str, dict[str, str]]) -> str:
    """The first and the last patch of each minor version; those between, too, unless said otherwise."""
    numbers = sorted(tuple(int(part) for part in version.split(".")) for version in known)
    lines = []
    for _, group in groupby(numbers, key=lambda number: number[:2]):
        patches = list(group)
        first, last = patches[0], patches[-1]
        whole = last[2] - first[2] + 1 == len(patches)
        ends = (first, last) if whole and len(patches) > 2 else ()
        lines.append((" to " if ends else ", ").join(".".join(map(str, one)) for one in ends or patches))
    return "; ".join(lines)
