# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's own release files, where the network reaches them and a digest vouches for them."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import requests

from testbed.artifacts.recipes import Artifact

Catalogue = Mapping[str, Mapping[str, Mapping[str, str]]]
"""name -> version -> arch -> sha256"""

PROBE = "https://dl.k8s.io/release/stable.txt"
CONNECT_SECONDS = 3
READ_SECONDS = 60
CATALOGUE_MODULE = "ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts"


def known_digests() -> Catalogue:
    """Upstream's digests as the collection knows them; empty when it is not importable."""
    try:
        module: Any = importlib.import_module(CATALOGUE_MODULE)
    except ImportError:
        return {}
    digests: Catalogue = module.builtin_digests()
    return digests


@lru_cache(maxsize=1)
def reachable() -> bool:
    """Whether release downloads work from here; asked once."""
    try:
        return requests.get(PROBE, timeout=(CONNECT_SECONDS, CONNECT_SECONDS)).ok
    except requests.RequestException:
        return False


def digest(artifact: Artifact, version: str, arch: str) -> str | None:
    """The sha256 to hold a download against: the catalogue's, or upstream's own for the control plane."""
    known = known_digests().get(artifact.name, {}).get(version, {}).get(arch)
    if known or artifact.node:
        return known
    answer = requests.get(
        f"https://{artifact.path(version, arch)}.sha256", timeout=(CONNECT_SECONDS, READ_SECONDS)
    )
    return answer.text.split()[0] if answer.ok and answer.text else None


def fetch(artifact: Artifact, version: str, arch: str, wanted: str, target: Path) -> Path | None:
    """Download one release file into a directory; None when it can't be downloaded or its digest differs."""
    path = artifact.path(version, arch)
    file = target / path.rsplit("/", 1)[1]
    seen = hashlib.sha256()
    try:
        with requests.get(f"https://{path}", stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS)) as answer:
            if not answer.ok:
                return None
            with file.open("wb") as stream:
                for block in answer.iter_content(1 << 20):
                    seen.update(block)
                    stream.write(block)
    except requests.RequestException:
        file.unlink(missing_ok=True)
        return None
    if seen.hexdigest() != wanted:
        file.unlink()
        return None
    file.chmod(0o755 if artifact.member is None else 0o644)
    return file
