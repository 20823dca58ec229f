# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's kubeconfig: the kubelet writes it at the join; afterwards this keeps its server URL."""

from __future__ import annotations

import json
import re
from typing import ClassVar

from ..dataclass import dataclass
from ..machine.host import Host
from .base import Change, Drift, Origin, Vault
from .paths import capture_path, path_mark, restore_path

MODE = 0o600  # as the kubelet writes it


@dataclass(frozen=True)
class Kubeconfig:
    """The API server URL of a kubelet that has joined.

    A kubelet copies it from its bootstrap kubeconfig at the join, and never again: a new URL or another
    CA file would not reach it. A file that does not exist yet is left to the kubelet.
    """

    kind: ClassVar[str] = "kubeconfig"
    content_addressed: ClassVar[bool] = False

    path: str
    server: str
    ca: str  # file with the cluster's CA
    identity: str  # file with the kubelet's certificate and key
    restarts: tuple[str, ...] = ()
    drift: Drift = Drift.REPAIR

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """Server and CA; the rest belongs to the kubelet."""
        return f"{self.server} {self.ca}"

    def observe(self, host: Host) -> str:
        """Its present server and CA."""
        return self.mark_now(host, self.path)

    def difference(self, seen: str) -> Change | None:
        """Another server URL, or another CA file."""
        if seen in ("absent", self.mark):
            return None
        return Change(f"point {self.path} at {self.server}", f"{seen}\n", f"{self.mark}\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The present file, byte for byte."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """Write what a kubelet writes, with the new server URL."""
        host.write(self.path, self._content().encode(), MODE)

    def _content(self) -> str:
        server, ca, identity = (json.dumps(text) for text in (self.server, self.ca, self.identity))
        return f"""apiVersion: v1
clusters:
- cluster:
    certificate-authority: {ca}
    server: {server}
  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: {identity}
    client-key: {identity}
"""

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Server and CA of a file in the kubelet's format; the path mark of anything else."""
        text = host.text(name) if host.stat(name).is_ == "file" else ""
        server, ca = (_value(text, key) for key in ("server", "certificate-authority"))
        return f"{server} {ca}" if server else path_mark(host, name)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Restore the file byte for byte."""
        return restore_path(host, name, origin, vault)


def _value(text: str, key: str) -> str:
    """The single value of a key, plain or quoted; a kubelet writes exactly one cluster."""
    found = re.findall(rf"^ +{key}: +(.+?) *$", text, re.MULTILINE)
    return found[0].strip("\"'") if len(found) == 1 else ""
