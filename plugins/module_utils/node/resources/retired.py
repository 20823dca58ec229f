# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet certificate that is taken out of use, so that the kubelet requests a new one."""

from __future__ import annotations

from typing import ClassVar

from ..dataclass import dataclass
from ..machine.host import Host
from ..machine.layout import KUBELET
from .base import Change, Drift, Origin, Vault
from .paths import capture_path, restore_path


@dataclass(frozen=True)
class Retired:
    """Removes the certificate, so that the kubelet requests a new one. A rollback restores it."""

    kind: ClassVar[str] = "certificate"
    content_addressed: ClassVar[bool] = False

    path: str  # the kubelet's link to the certificate
    restarts: tuple[str, ...] = (KUBELET,)
    drift: Drift = Drift.REPAIR
    mark: str = "absent"

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def change(self) -> Change:
        """The change, in words."""
        sentence = "let the kubelet request a new certificate: the API server rejects the current one"
        return Change(sentence, f"{self.path}\n", "")

    def observe(self, host: Host) -> bool:
        """Whether it exists."""
        return host.exists(self.path)

    def difference(self, seen: bool) -> Change | None:
        """An existing certificate is a difference."""
        return self.change if seen else None

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The link; the file that it points to stays in place."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """Remove it: a kubelet that starts without a certificate requests one."""
        host.remove(self.path)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Restore the link, unless the kubelet got a new certificate: the old one is rejected."""
        return [] if host.exists(name) else restore_path(host, name, origin, vault)
