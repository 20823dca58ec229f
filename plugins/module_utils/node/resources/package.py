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

# What a package is needed for: while this exists, whoever installed it, the package is not installed.
PROVIDES: Mapping[str, str] = {
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "git": "/usr/bin/git",
    "gpg": "/usr/bin/gpg",
    "openssh-client": "/usr/bin/ssh-keygen",
    "openvpn": "/usr/sbin/openvpn",
}
LOCK_SECONDS = 900  # unattended upgrades of a slow machine hold the lock for many minutes
SECONDS = LOCK_SECONDS + 900.0
# Never a question, never a restart of services by needrestart, never the removal of another package.
QUIET = ("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1", "apt-get", "--quiet", "--yes")
LOCK = f"DPkg::Lock::Timeout={LOCK_SECONDS}"
INSTALL = ("install", "--no-install-recommends", "--no-remove")
UNKNOWN = re.compile(r"Unable to locate package|has no installation candidate|404 +Not Found")
# Without the version in brackets that an upgrade has: a package that is upgraded was there before.
ADDED = re.compile(r"^Inst (\S+) \(", re.MULTILINE)
REMOVED = re.compile(r"^(?:Remv|Purg) (\S+)", re.MULTILINE)
# A dependency is needed by packages that depend on it, not by those that only recommend or suggest it.
DEPENDS_ONLY = (
    "-o",
    "APT::AutoRemove::RecommendsImportant=false",
    "-o",
    "APT::AutoRemove::SuggestsImportant=false",
)


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
        """Remove it and what came with it, unless other packages need that by now.

        Of what came with it, only what apt itself would remove: two packages of ours may have brought the
        same dependency, and a dependency that an administrator has installed since is marked as such by apt.
        """
        if origin["is"] != "absent":
            if cls.mark_now(host, name) == "absent":  # a rollback of its removal
                cls(name).apply(host)
            return []
        came = [package for package in origin.get("adds", (name,)) if installed(host, package)]
        if not came:
            return []
        # Also if it is not there itself: an installation that was interrupted leaves some of the others.
        removes = ("purge", "--auto-remove", name) if name in came else ("autoremove", "--purge")
        goes = would_go(host, name, *DEPENDS_ONLY, *removes)
        ours = [package for package in came if package in goes]
        if not ours:
            return []
        others = sorted(would_go(host, name, "purge", *ours) - set(ours))
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


def would_go(host: Host, name: str, *arguments: str) -> set[str]:
    """The packages that apt-get would remove for this; without an answer nothing is removed."""
    planned = apt_get(host, "--simulate", *arguments)
    if planned.status != 0:
        raise unusable(f"the package {name} can't be removed", planned)
    return set(REMOVED.findall(planned.stdout))


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
