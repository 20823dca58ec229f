# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's certificate, once the API server takes it no more: as after a rotation of the cluster's CA.

The kubelet itself only looks at the date, and would show a certificate that nobody takes until its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.layout import KUBELET
from ..net.kube import KubeClient
from ..resources.base import Change, Drift, Origin, Vault
from ..resources.paths import capture_path, restore_path


@dataclass(frozen=True, slots=True)
class Retired:
    """A certificate that makes room, so that the kubelet asks for a new one. A rollback brings it back."""

    kind: ClassVar[str] = "certificate"

    path: str  # the kubelet's link to it
    restarts: tuple[str, ...] = (KUBELET,)
    drift: Drift = Drift.REPAIR
    mark: str = "absent"

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def change(self) -> Change:
        """What a person reads."""
        sentence = "let the kubelet ask for a new certificate: the API server takes the old one no more"
        return Change(sentence, f"{self.path}\n", "")

    def observe(self, host: Host) -> bool:
        """Whether it is there."""
        return host.exists(self.path)

    def difference(self, seen: bool) -> Change | None:
        """That it is there."""
        return self.change if seen else None

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The link; what it leads to stays where it is."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """Without it a kubelet that starts asks for a new one."""
        host.remove(self.path)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """It was good for something after all, or nothing better could be had."""
        return restore_path(host, name, origin, vault)


def refused(client: KubeClient, node: str) -> bool:
    """Whether the API server does not know whoever the client is; no answer is no refusal."""
    try:
        client.node(node)
    except FlexNodeError as error:
        return getattr(error.__cause__, "status", 0) == HTTPStatus.UNAUTHORIZED
    return False
