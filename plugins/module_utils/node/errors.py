# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every error that a user can get: one class per cause, one stable code per class."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from .dataclass import dataclass

_SHOWN_AT_MOST = 80


class FlexNodeError(Exception):
    """What happened, where, why, and what to do; `code` and `title` belong to the class."""

    code: ClassVar[str] = "FLEX-1000"
    title: ClassVar[str] = "Unexpected failure"
    remedy: ClassVar[str] = ""  # the usual remedy; an instance may name a better one
    waits: ClassVar[bool] = False  # nothing failed: the same is tried again later
    unchanged: str = ""  # said before the remedy: that nothing was changed

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.what, self.where, self.why, self.fix = what, where, why, fix or self.remedy
        self.changed = False  # whether the machine was changed before it failed, and stays so
        self.rolled_back = False  # whether the previous generation was restored
        self.at_gate = False  # whether everything was in place, and did not work
        self.recorded = False  # whether the log of the run has it
        self.last_step: str | None = None  # why the last step after it failed; empty: that step worked
        self.outcome, self.lead = "", "Cause:"  # if it was rolled back: said before what happened
        super().__init__(what)

    def add(self, consequence: str) -> None:
        """Say what became of the machine."""
        self.why = f"{self.why}. {consequence[:1].upper()}{consequence[1:]}" if self.why else consequence

    def __str__(self) -> str:
        """Compose one readable message; empty parts are left out."""
        place = f" ({self.where})" if self.where else ""
        cause = f": {self.why}".replace(": \n", ":\n", 1) if self.why else ""
        first = f"{self.outcome}. {self.lead} " if self.outcome else ""
        advice = "".join(f"\n{line}" for line in (self.unchanged, self.fix and f"fix: {self.fix}") if line)
        return f"{self.code}: {first}{self.what}{place}{cause}{advice}"

    def as_result(self) -> dict[str, Any]:
        """Return what a failed module adds to its message: the code, for automation."""
        return {"code": self.code}

    def as_dict(self) -> dict[str, Any]:
        """Return what modules, status.json and --json print."""
        parts = ("code", "title", "what", "where", "why", "fix", "outcome")
        return {name: getattr(self, name) for name in parts}


NOT_SET = "not set"
UNKNOWN_KEY = "unknown key"


@dataclass(frozen=True)
class Problem:
    """One problem in a document, written so that its parts form sentences.

    PATH is VALUE, but HINT. Set ACCEPTED
    `value` is text that is safe to show; NOT_SET and UNKNOWN_KEY have sentences of their own.
    A hint that asks "did you mean X?" makes the list of accepted values superfluous.
    """

    path: str
    value: str
    accepted: str
    hint: str = ""

    def under(self, prefix: str) -> Problem:
        """Return the same problem with its path seen from a section further out."""
        joint = "." if prefix and self.path and not self.path.startswith("[") else ""
        return Problem(f"{prefix}{joint}{self.path}", self.value, self.accepted, self.hint)

    def as_dict(self) -> dict[str, str]:
        """Return the problem as plain data."""
        return {"path": self.path, "value": self.value, "accepted": self.accepted, "hint": self.hint}

    def __str__(self) -> str:
        """Return one line: what is wrong, why, and what to set instead."""
        if self.hint.startswith("did you mean"):
            return self.what
        verb = "Write it as" if self.accepted.startswith("KEY") else "Set"  # a form, or a value
        return f"{self.what}. {'Known keys:' if self.value == UNKNOWN_KEY else verb} {self.accepted}"

    @property
    def what(self) -> str:
        """What is wrong, and why, without the remedy."""
        if self.value == NOT_SET:
            return f"{self.path} is missing" + (f": {self.hint}" if self.hint else "")
        found = f"{self.path}: {UNKNOWN_KEY}" if self.value == UNKNOWN_KEY else f"{self.path} is {self.value}"
        joint = ", " if self.hint.startswith("did you mean") else ", but "
        return f"{found}{joint}{self.hint}" if self.hint else found


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 change, 2 changes."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shown(value: object) -> str:
    """Return a value as an error may show it; long text is described, not quoted."""
    if isinstance(value, (dict, list, tuple)):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind} of {len(value)}"
    if isinstance(value, str) and len(value) > _SHOWN_AT_MOST:
        return f"a text of {len(value)} characters"
    return json.dumps(value, ensure_ascii=False, default=repr)


# --- 11xx: configuration ----------------------------------------------------------------------------------


class ConfigInvalid(FlexNodeError):
    """Carries every problem of a document, found in one pass."""

    code, title = "FLEX-1101", "The configuration is not valid"
    unchanged = "Nothing was changed on the machine."  # a document is checked before
    remedy = (
        "correct it in flexnode_config or flexnode_host_config of the inventory (-e replaces such a variable "
        "as a whole), or in the file or at the URL that the configuration comes from. All settings: "
        "docs/configuration.md of the collection"
    )

    def __init__(self, problems: Iterable[Problem], *, where: str = "", fix: str = "") -> None:
        self.problems = tuple(problems)
        listing = "".join(f"\n  {problem}" for problem in self.problems)
        what = f"{counted(len(self.problems), 'problem')} in the configuration"
        super().__init__(what, where=where, why=listing, fix=fix)

    def as_dict(self) -> dict[str, Any]:
        """Add the problems as data, so that a caller need not parse the text."""
        return {**super().as_dict(), "problems": [problem.as_dict() for problem in self.problems]}


class NotJson(FlexNodeError):
    """Names the line and column where reading stopped."""

    code, title = "FLEX-1102", "The configuration is not JSON"

    def __init__(
        self, why: str, *, line: int = 0, column: int = 0, where: str = "document", fix: str = ""
    ) -> None:
        self.line, self.column = line, column
        place = f"{where}, line {line}, column {column}" if line else where
        super().__init__("the configuration is not JSON", where=place, why=why, fix=fix)


class ConfigUnreachable(FlexNodeError):
    code, title = "FLEX-1103", "The source of the configuration can't be reached"
    remedy = "check the URL and its expiry, the network and the proxy; request a new URL"


class ConfigMissing(FlexNodeError):
    code, title = "FLEX-1104", "No configuration is stored on this machine"
    remedy = "run the bootstrap playbook, or: aks-flex-node join --config FILE"


class NotAvailable(FlexNodeError):
    code, title = "FLEX-1105", "The configuration uses fields that this version does not support"


# --- 12xx: artifacts --------------------------------------------------------------------------------------


class ArtifactUnreachable(FlexNodeError):
    code, title = "FLEX-1201", "An artifact can't be downloaded"
    remedy = "check mirror.url, the proxy and the firewall"


class ArtifactTruncated(FlexNodeError):
    code, title = "FLEX-1202", "A download ended early"
    remedy = "run again; if it fails again, check the logs of the proxy or the mirror"


class DigestMismatch(FlexNodeError):
    code, title = "FLEX-1203", "The SHA-256 of a downloaded file does not match"
    remedy = (
        "check that the mirror has the original upstream file; if it serves its own builds, set their "
        "SHA-256 in mirror.catalogue"
    )


class NotInCatalogue(FlexNodeError):
    code, title = "FLEX-1204", "A version is not in this collection's list of known versions (the catalogue)"
    remedy = "use a known version, upgrade the aks.flexnode collection, or set the sha256 of this version"


class ArchiveUnsafe(FlexNodeError):
    code, title = "FLEX-1205", "An archive has unsafe or missing content"
    remedy = "do not use this archive; use upstream's"


class ArtifactTooLarge(FlexNodeError):
    code, title = "FLEX-1206", "A download is larger than any known artifact"
    remedy = "check mirror.url and the URL of the artifact: this is probably another file"


# --- 13xx: host -------------------------------------------------------------------------------------------


class UnsupportedPlatform(FlexNodeError):
    code, title = "FLEX-1301", "This platform is not supported"
    remedy = "use Ubuntu 22.04 or 24.04, Debian 12 or 13, on amd64 or arm64, with systemd"


class CommandFailed(FlexNodeError):
    code, title = "FLEX-1302", "A command failed"


class DiskFull(FlexNodeError):
    code, title = "FLEX-1303", "The disk is full"
    remedy = "free space and run again; nothing is lost"


class ReadOnlyTarget(FlexNodeError):
    code, title = "FLEX-1304", "The target can't be written"
    remedy = "mount it writable, or choose another directory in paths"


class ForeignRuntime(FlexNodeError):
    code, title = "FLEX-1305", "A runtime or kubelet that this collection did not install is on this machine"
    remedy = (
        "uninstall it, or set takeover: true in the configuration: a containerd or kubelet is then replaced, "
        "its pods may stop, unbootstrap restores its files; other software (docker, k3s ...) keeps running"
    )


class NotRoot(FlexNodeError):
    code, title = "FLEX-1306", "Root is needed"
    remedy = "use sudo, or become: true"


class ForeignPath(FlexNodeError):
    code, title = "FLEX-1307", "Something else exists where a file or directory is needed"


class KernelLacks(FlexNodeError):
    code, title = "FLEX-1308", "The kernel lacks something that Kubernetes needs"


class FileUnusable(FlexNodeError):
    code, title = "FLEX-1309", "A file or directory can't be read or changed"
    remedy = "check the path with `ls -la`, fix it, then run this again"


class PreflightFailed(FlexNodeError):
    code, title = "FLEX-1310", "Preflight checks failed: this machine can't join"
    unchanged = "This run changed nothing."
    remedy = (
        "correct each ERROR above, then run this again; the other lines do not block the join. If a check is "
        "wrong for your site, skip it by its ID, the word before the colon: -e flexnode_preflight_skip=ID"
    )


# --- 14xx: operation --------------------------------------------------------------------------------------


class LeaseHeld(FlexNodeError):
    code, title = "FLEX-1401", "Another run is changing this machine"
    remedy = "wait for it to end; the lease of a dead process expires by itself"


class StateCorrupt(FlexNodeError):
    code, title = "FLEX-1402", "A state file can't be read"
    remedy = (
        "a state file: remove it, then run playbook aks.flexnode.bootstrap or `aks-flex-node join` again. "
        "The undo journal: do not delete it, restore it from a backup"
    )


class StateNewer(FlexNodeError):
    code, title = "FLEX-1403", "The state of this machine was written by a newer version"
    remedy = (
        "install that version or a newer one: ansible-galaxy collection install aks-flexnode-VERSION.tar.gz"
    )


class RollbackIncomplete(FlexNodeError):
    code, title = "FLEX-1404", "An interrupted rollback can't be completed"
    remedy = "fix the cause, then run this again: it continues the rollback"


# --- 15xx: join -------------------------------------------------------------------------------------------


class UnitFailed(FlexNodeError):
    code, title = "FLEX-1501", "A unit does not run"


class NodeNotReady(FlexNodeError):
    code, title = "FLEX-1502", "The Node does not become Ready"


class TokenRefused(FlexNodeError):
    code, title = "FLEX-1503", "The bootstrap token is invalid, expired or already used"
    remedy = "get a new token or URL, then run playbook aks.flexnode.bootstrap or `aks-flex-node join`"


class ApiUnreachable(FlexNodeError):
    code, title = "FLEX-1504", "The API server can't be reached"
    remedy = "check DNS, firewall, proxy, VPN and the cluster's authorized IP ranges"


class Forbidden(FlexNodeError):
    code, title = "FLEX-1505", "The identity is not allowed to do this"


class VersionSkew(FlexNodeError):
    code, title = "FLEX-1506", "The kubelet version is not supported by the API server version (version skew)"


class CaMismatch(FlexNodeError):
    code, title = "FLEX-1507", "The API server's certificate is not signed by the configured CA"
    remedy = "check node.kubelet.serverURL and caCertData against the cluster's kubeconfig"


class Blocked(FlexNodeError):
    code, title = "FLEX-1508", "This configuration is blocked: it was rolled back before"
    remedy = (
        "change the configuration, or try it again: ansible-playbook ... -e flexnode_retry=true, or "
        "`aks-flex-node update --retry`"
    )


class NotDrained(FlexNodeError):
    code, title = "FLEX-1509", "The Node could not be drained in time"
    remedy = (
        "check the pods and their PodDisruptionBudgets, or raise upgrade.drainSeconds, then run this again"
    )


class Downgrade(FlexNodeError):
    code, title = "FLEX-1510", "The configuration asks for an older version than the installed one"
    remedy = "choose a newer version, or set upgrade.allowDowngrade: true"


def error_classes() -> tuple[type[FlexNodeError], ...]:
    """Return every error class with a code, by code: the source of the table in the docs."""
    found: list[type[FlexNodeError]] = [FlexNodeError]
    for one in found:  # it grows meanwhile
        found += one.__subclasses__()
    return tuple(sorted(found[1:], key=lambda cls: cls.code))
