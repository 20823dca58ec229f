# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One version of an artifact, unpacked into its own directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ..catalogue.artifacts import Artifact
from ..dataclass import dataclass
from ..machine.host import Host
from ..machine.layout import STAGING, version_dir
from .base import Change, Drift, Origin, Vault

MANIFEST = ".manifest.json"


@dataclass(frozen=True)
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

    @property
    def digests(self) -> dict[str, str]:
        """The digest of every file."""
        return {name: str(noted["sha256"]) for name, noted in self.files.items()}

    def damaged(self, host: Host, tree: str) -> list[str]:
        """Files that differ from what was unpacked. Only files whose fingerprint changed are read again."""
        return [
            name
            for name, noted in self.files.items()
            if list((seen := host.stat(f"{tree}/{name}")).fingerprint) != list(noted["fingerprint"])
            and (seen.is_ != "file" or seen.mode != 0o755 or host.sha256(f"{tree}/{name}") != noted["sha256"])
        ]


@dataclass(frozen=True)
class Tree:
    """One build of one artifact under /opt/aks-flex-node/versions. Links decide which one is used."""

    kind: ClassVar[str] = "tree"
    content_addressed: ClassVar[bool] = True

    path: str
    artifact: Artifact
    members: tuple[tuple[str, str], ...]  # name in the archive (empty for a plain binary), name in the tree
    restarts: tuple[str, ...] = ()
    drift: Drift = Drift.REPAIR

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
        return self._state_at(host, self.path)

    def is_staged(self, host: Host) -> bool:
        """Whether it is unpacked and verified beside its place, by this run or an earlier one."""
        return self._state_at(host, self.staging) == "complete"

    def _state_at(self, host: Host, place: str) -> str:
        manifest = Manifest.read(host, place)
        if manifest is None:
            return "absent"
        if manifest.artifact != self.artifact.sha256:
            return "another build"
        if {name for _member, name in self.members} - set(manifest.files):
            return "incomplete"
        damaged = manifest.damaged(host, place)
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
        """Rename the staged directory, which is on the disk already, into place.

        A directory that is there is repaired file by file: links to its files are never without a target.
        """
        if host.stat(self.path).is_ == "directory":
            self._repair(host)
        else:
            host.remove(self.path)
            host.move(self.staging, self.path)
        host.sync_directory(os.path.dirname(self.path))

    def _repair(self, host: Host) -> None:
        staged = Manifest.read(host, self.staging) or Manifest(self.artifact.sha256, {})
        for name in staged.damaged(host, self.path):
            if host.stat(f"{self.path}/{name}").is_ == "directory":
                host.remove_tree(f"{self.path}/{name}")
            host.move(f"{self.staging}/{name}", f"{self.path}/{name}")
        host.sync_directory(self.path)
        Manifest.write(host, self.path, staged.artifact, staged.digests)
        host.remove_tree(self.staging)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The digest in its manifest."""
        manifest = Manifest.read(host, name)
        return manifest.artifact if manifest else host.stat(name).is_

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it."""
        return host.remove_tree(name)


def place_of(artifact: Artifact) -> str:
    """The directory of the tree of an artifact."""
    return version_dir(artifact.name, artifact.version, artifact.sha256)
