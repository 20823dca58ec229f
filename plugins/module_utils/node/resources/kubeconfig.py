# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's kubeconfig: the kubelet writes it when it joins, and then the cluster's address is ours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import ClassVar

from ..machine.host import Host
from .base import Change, Drift, Origin, Vault
from .paths import capture_path, path_mark, restore_path

MODE = 0o600  # as the kubelet writes it


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Where the kubelet finds its API server, once it has joined.

    A kubelet copies this from its bootstrap kubeconfig at the join, and never again: a new address or another
    place of the CA would not reach it. A file that is not there is none of our business.
    """

    kind: ClassVar[str] = "kubeconfig"

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
        """What it says of the cluster; the rest is the kubelet's."""
        return f"{self.server} {self.ca}"

    def observe(self, host: Host) -> str:
        """What it says now."""
        return self.mark_now(host, self.path)

    def difference(self, seen: str) -> Change | None:
        """Another address, or another file with the CA."""
        if seen in ("absent", self.mark):
            return None
        return Change(f"point {self.path} at {self.server}", f"{seen}\n", f"{self.mark}\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The file as it is, to the byte."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """The same that a kubelet writes, with the cluster's new address."""
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
        """Address and CA, of a file as kubelets and we write it; whatever else is there is told as it is."""
        text = host.text(name) if host.look(name).is_ == "file" else ""
        server, ca = (_value(text, key) for key in ("server", "certificate-authority"))
        return f"{server} {ca}" if server else path_mark(host, name)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Back to the byte."""
        return restore_path(host, name, origin, vault)


def _value(text: str, key: str) -> str:
    """The one value of a key, plain or quoted; a file with several clusters is not what a kubelet writes."""
    found = re.findall(rf"^ +{key}: +(.+?) *$", text, re.MULTILINE)
    return found[0].strip("\"'") if len(found) == 1 else ""
