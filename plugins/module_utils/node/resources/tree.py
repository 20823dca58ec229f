# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One version of an artifact, unpacked into its own directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..catalogue.artifacts import Artifact
from ..machine.host import Host
from ..machine.layout import ASIDE, STAGING
from .base import Change, Drift, Origin, Vault

MANIFEST = ".manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The expected files of a tree, written when it was unpacked from a verified artifact."""

    artifact: str
    files: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, host: Host, tree: str) -> Manifest | None:
        """The manifest of a tree; None: it is missing or damaged."""
        try:
            document = json.loads(host.text(f"{tree}/{MANIFEST}"))
            return cls(document["artifact"], document["files"])
        except (ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def write(host: Host, tree: str, artifact: str, digests: Mapping[str, str]) -> None:
        """Write digest and fingerprint of every file."""
        files = {
            name: {"sha256": digest, "fingerprint": host.stat(f"{tree}/{name}").fingerprint}
            for name, digest in sorted(digests.items())
        }
        document = json.dumps({"artifact": artifact, "files": files}, indent=1)
        host.write(f"{tree}/{MANIFEST}", document.encode(), 0o644)

    def damaged(self, host: Host, tree: str) -> list[str]:
        """Files that differ from what was unpacked. Only files whose fingerprint changed are read again."""
        return [
            name
            for name, noted in self.files.items()
            if list((seen := host.stat(f"{tree}/{name}")).fingerprint) != list(noted["fingerprint"])
            and (seen.is_ != "file" or seen.mode != 0o755 or host.sha256(f"{tree}/{name}") != noted["sha256"])
        ]


@dataclass(frozen=True, slots=True)
class Tree:
    """One version of one artifact under /opt/aks-flex-node/versions. Links decide which version is used."""

    kind: ClassVar[str] = "tree"

    path: str
    artifact: Artifact
    members: tuple[tuple[str, str], ...]  # name in the archive (empty for a plain binary), name in the tree
    restarts: tuple[str, ...] = ()
    drift: Drift = Drift.RESTART

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """The digest of its artifact."""
        return self.artifact.sha256

    @property
    def staging(self) -> str:
        """The directory in which it is unpacked first."""
        return self.path + STAGING

    def observe(self, host: Host) -> str:
        """complete, absent, or what differs."""
        manifest = Manifest.read(host, self.path)
        if manifest is None:
            return "absent"
        if manifest.artifact != self.artifact.sha256:
            return "another build"
        if {name for _member, name in self.members} - set(manifest.files):
            return "incomplete"
        damaged = manifest.damaged(host, self.path)
        return f"changed: {', '.join(damaged)}" if damaged else "complete"

    def difference(self, seen: str) -> Change | None:
        """Anything but complete is a difference."""
        if seen == "complete":
            return None
        artifact = self.artifact
        before = "" if seen == "absent" else f"{seen}\n"
        return Change(
            f"install {artifact.name} {artifact.version}",
            before,
            f"{artifact.name} {artifact.version} {artifact.arch}\n"
            f"from {artifact.url}\nsha256 {artifact.sha256}\n",
        )

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Always absent: the directory belongs to this collection."""
        return {"is": "absent"}

    def apply(self, host: Host) -> None:
        """Rename the staged directory into place; an older one is moved aside and removed."""
        aside = self.path + ASIDE
        if not host.stat(self.path).absent:
            host.remove_tree(aside)
            host.move(self.path, aside)
        host.move(self.staging, self.path)
        host.remove_tree(aside)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The digest in its manifest."""
        manifest = Manifest.read(host, name)
        return manifest.artifact if manifest else host.stat(name).is_

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it."""
        return host.remove_tree(name)
