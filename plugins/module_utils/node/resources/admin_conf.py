# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""admin.conf, if writeAdminConf asks for it: the cluster's admin kubeconfig, for root only."""

from __future__ import annotations

from typing import ClassVar

from ..dataclass import dataclass
from ..errors import FileUnusable
from ..machine.host import Host
from ..machine.layout import RUN_DIR
from .base import HIDDEN, Change, Drift, Origin, Vault
from .paths import access, capture_path, path_mark, restore_path

MODE = 0o600
STAGED = f"{RUN_DIR}/admin.conf"  # between fetching it and placing it; a reboot clears it
HEADER = "# aks-flex-node (writeAdminConf): admin credential of "


@dataclass(frozen=True)
class AdminConf:
    """The file. Its first line names the cluster: another cluster or CA needs another credential."""

    kind: ClassVar[str] = "admin-conf"
    content_addressed: ClassVar[bool] = False

    path: str
    cluster: str  # id, and a digest of its CA
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The path is the identity."""
        return self.path

    @property
    def mark(self) -> str:
        """Of which cluster it is; the credential itself is Azure's."""
        return f"admin:{self.cluster}"

    def observe(self, host: Host) -> tuple[str, tuple[int, int, int]]:
        """Of which cluster it is, with mode and owner."""
        return self.mark_now(host, self.path), access(host.stat(self.path))

    def difference(self, seen: tuple[str, tuple[int, int, int]]) -> Change | None:
        """It is missing, of another cluster, or others can read it."""
        mark, now = seen
        if mark == self.mark and now == (MODE, 0, 0):
            return None
        before = "" if mark == "absent" else f"{HIDDEN}\n"
        return Change(
            f"write {self.path} (writeAdminConf)", before, f"mode {MODE:04o}, owner 0:0\n{HIDDEN}\n"
        )

    def capture(self, host: Host, vault: Vault) -> Origin:
        """What exists at this path, byte for byte."""
        return capture_path(host, self.path, vault)

    def apply(self, host: Host) -> None:
        """Write what was fetched."""
        content = host.read(STAGED)
        if content is None:
            raise FileUnusable("the admin credential was not fetched", where=STAGED, fix="run this again")
        host.write(self.path, f"{HEADER}{self.cluster}\n".encode() + content, MODE)
        host.remove(STAGED)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Of which cluster it is; the path mark of anything else."""
        text = host.text(name) if host.stat(name).is_ == "file" else ""
        if text.startswith(HEADER):
            return f"admin:{text.splitlines()[0].removeprefix(HEADER)}"
        return path_mark(host, name)

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it, and restore what was here."""
        return restore_path(host, name, origin, vault)


def stage(host: Host, content: bytes) -> None:
    """Keep a fetched credential until it is placed."""
    host.make_directories(RUN_DIR, 0o700)
    host.write(STAGED, content, MODE, durable=False)
