# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A version of some software: an artifact unpacked into a directory of its own."""

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
    """What a tree must hold, written when it was unpacked from a verified artifact."""

    artifact: str
    files: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, host: Host, tree: str) -> Manifest | None:
        """The manifest of a tree, None where there is none that can be read."""
        try:
            document = json.loads(host.text(f"{tree}/{MANIFEST}"))
            return cls(document["artifact"], document["files"])
        except (ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def write(host: Host, tree: str, artifact: str, digests: Mapping[str, str]) -> None:
        """Note digest and fingerprint of every file."""
        files = {
            name: {"sha256": digest, "fingerprint": host.look(f"{tree}/{name}").fingerprint}
            for name, digest in sorted(digests.items())
        }
        document = json.dumps({"artifact": artifact, "files": files}, indent=1)
        host.write(f"{tree}/{MANIFEST}", document.encode(), 0o644)

    def damaged(self, host: Host, tree: str) -> list[str]:
        """Files that are no longer what was unpacked. Only a file whose fingerprint changed is read again."""
        return [
            name
            for name, noted in self.files.items()
            if list((seen := host.look(f"{tree}/{name}")).fingerprint) != list(noted["fingerprint"])
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
        """The artifact it was made from."""
        return self.artifact.sha256

    @property
    def staging(self) -> str:
        """Where it is unpacked before it takes its place."""
        return self.path + STAGING

    def observe(self, host: Host) -> str:
        """complete, absent, or what is wrong with it."""
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
        """The place is our own: before us there was nothing."""
        return {"is": "absent"}

    def apply(self, host: Host) -> None:
        """The staged directory takes its place; an older one steps aside and goes."""
        aside = self.path + ASIDE
        if not host.look(self.path).absent:
            host.remove_tree(aside)
            host.move(self.path, aside)
        host.move(self.staging, self.path)
        host.remove_tree(aside)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The artifact that its manifest names."""
        manifest = Manifest.read(host, name)
        return manifest.artifact if manifest else host.look(name).is_

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it."""
        return host.remove_tree(name)
