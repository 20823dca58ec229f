# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package of the distribution, such as git. Removed at uninstall only if this collection installed it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from ..dataclass import dataclass
from ..errors import FlexNodeError
from ..machine.host import Host
from .base import Change, Drift, Origin, Vault

if TYPE_CHECKING:
    from ..machine.command import Completed

# What a package is needed for: while this exists, whoever installed it, there is nothing to do.
PROVIDES: Mapping[str, str] = {
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "git": "/usr/bin/git",
    "gpg": "/usr/bin/gpg",
    "openssh-client": "/usr/bin/ssh-keygen",
}
SECONDS, LOCK_SECONDS = 600.0, 120
# Never a question, never a restart of services by needrestart, never the removal of another package.
QUIET = ("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "apt-get", "--quiet", "--yes")
LOCK = f"DPkg::Lock::Timeout={LOCK_SECONDS}"  # apt's own timers hold the lock for a minute and more
INSTALL = ("install", "--no-install-recommends", "--no-remove")
UNKNOWN = re.compile(r"Unable to locate package|has no installation candidate|404 +Not Found")
ADDED, REMOVED = re.compile(r"^Inst (\S+)", re.MULTILINE), re.compile(r"^(?:Remv|Purg) (\S+)", re.MULTILINE)


class PackageUnusable(FlexNodeError):
    """apt-get failed, or does not know the package."""

    code, title = "FLEX-1311", "A package of the distribution can't be installed or removed"
    remedy = "run the apt-get command by hand to see more, fix the cause, then run this again"


@dataclass(frozen=True)
class Package:
    """A package, by the file that it is needed for."""

    kind: ClassVar[str] = "package"
    content_addressed: ClassVar[bool] = False

    package: str
    restarts: tuple[str, ...] = ()
    drift: Drift = Drift.REPAIR

    @property
    def name(self) -> str:
        """The name of the package is the identity."""
        return self.package

    @property
    def mark(self) -> str:
        """Only that it is there: its version belongs to the distribution."""
        return "present"

    def observe(self, host: Host) -> str:
        """present or absent."""
        return self.mark_now(host, self.package)

    def difference(self, seen: str) -> Change | None:
        """A package that is missing is installed; one that is there is never touched."""
        if seen == self.mark:
            return None
        return Change(f"install the package {self.package}", "", f"{self.package}\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Whether it is there; if not, which packages come with it, so that exactly those can go again."""
        if self.observe(host) == self.mark:
            return {"is": "present"}
        planned = apt_get(host, "--simulate", *INSTALL, self.package)
        if planned.status != 0 and UNKNOWN.search(planned.stderr + planned.stdout):
            refresh(host)
            planned = apt_get(host, "--simulate", *INSTALL, self.package)
        if planned.status != 0:
            raise unusable(f"the package {self.package} can't be installed", planned)
        return {"is": "absent", "adds": ADDED.findall(planned.stdout) or [self.package]}

    def apply(self, host: Host) -> None:
        """Install it; package lists that are out of date are refreshed once."""
        done = apt_get(host, *INSTALL, self.package)
        if done.status != 0 and UNKNOWN.search(done.stderr + done.stdout):
            refresh(host)
            done = apt_get(host, *INSTALL, self.package)
        if done.status != 0:
            raise unusable(f"the package {self.package} can't be installed", done)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether what it is needed for exists."""
        return "present" if host.exists(PROVIDES.get(name, f"/var/lib/dpkg/info/{name}.list")) else "absent"

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Remove it and what came with it, unless other packages need that by now."""
        if origin["is"] != "absent":
            if cls.mark_now(host, name) == "absent":  # a rollback of its removal
                cls(name).apply(host)
            return []
        # Also if it is not there itself: an installation that was interrupted leaves some of the others.
        ours = [package for package in origin.get("adds", (name,)) if installed(host, package)]
        if not ours:
            return []
        planned = apt_get(host, "--simulate", "purge", *ours)
        if planned.status != 0:  # what would go is not known
            raise unusable(f"the package {name} can't be removed", planned)
        others = sorted(set(REMOVED.findall(planned.stdout)) - set(ours))
        if others:
            return [f"package {name} (needed by now by {', '.join(others)})"]
        done = apt_get(host, "purge", *ours)
        if done.status != 0:
            raise unusable(f"the package {name} can't be removed", done)
        return []


def installed(host: Host, package: str) -> bool:
    """Whether dpkg has a package, or half of it."""
    shown = host.run(["dpkg-query", "--show", "--showformat=${db:Status-Status}", package], check=False)
    return shown.stdout.strip() not in ("", "not-installed", "config-files")


def refresh(host: Host) -> None:
    """Fetch the package lists; what can't be fetched shows when a package is installed."""
    apt_get(host, "update")


def apt_get(host: Host, *arguments: str) -> Completed:
    """Run apt-get; it waits for another process that installs packages, for a limited time."""
    return host.run([*QUIET, "-o", LOCK, *arguments], timeout=SECONDS, check=False)


def unusable(what: str, done: Completed) -> PackageUnusable:
    """The error of a failed apt-get."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    argv = [word for word in done.argv if "=" not in word and word not in ("env", "-o")]
    return PackageUnusable(
        what, where=" ".join(argv), why=" / ".join(lines[-3:])[:500] or "it printed no reason"
    )
