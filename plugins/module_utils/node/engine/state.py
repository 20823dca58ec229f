# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine remembers of itself: small files under /var/lib/aks-flex-node, atomic, written on change."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

from ..errors import StateCorrupt
from ..machine.host import Host
from .journal import Journal

DATA_DIR = "/var/lib/aks-flex-node"
OWN = (
    "cache",
    "origins",
    "applied-config.json",
    "config-version.txt",
    "status.json",
    "transaction.json",
    "current-config.json",
    "source.json",
    "state.json",
    "journal",
)
KEPT = ("join", "monitoring")  # of state.json: what a new phase does not end
POINTER = "/etc/aks-flex-node/data-dir"  # tells the command where the data is, if paths.dataDir moved it


class Phase(enum.Enum):
    """How far this machine is on its way."""

    NOT_STARTED = "NotStarted"
    NODE_BOOTSTRAPPING = "NodeBootstrapping"
    NODE_JOINED = "NodeJoined"
    NODE_FAILED = "NodeFailed"
    RESETTING = "Resetting"


class Store:
    """The files of the data directory."""

    def __init__(self, host: Host, directory: str = DATA_DIR) -> None:
        self._host = host
        self.directory = directory
        self.cache = f"{directory}/cache"
        self.journal = Journal(host, directory)

    @property
    def directories(self) -> tuple[str, ...]:
        """Where only we write."""
        return (self.directory, f"{self.directory}/origins", POINTER.rpartition("/")[0])

    # -- configuration -------------------------------------------------------------------------------------

    def current_config(self) -> dict[str, Any] | None:
        """The document this machine was told to follow, secrets included."""
        return self._read("current-config.json")

    def remembered(self) -> tuple[dict[str, Any] | None, bool]:
        """The current document, and True; False: it is damaged, and this is what was applied, if anything."""
        try:
            return self.current_config(), True
        except StateCorrupt:
            return self.applied_if_whole(), False

    def set_current_config(self, document: Mapping[str, Any], version: str | None) -> bool:
        """Remember the document; True if it was news."""
        changed = self._write("current-config.json", document)
        path, number = self._path("config-version.txt"), f"{version}\n".encode() if version else None
        if self._host.read(path) != number:
            if number is None:
                self._host.remove(path)  # of an earlier document: it would be a wrong answer now
            else:
                self._host.write(path, number, 0o600)
            changed = True
        return changed

    def config_version(self) -> str | None:
        """The version of the current document, where its source numbers them."""
        return self._host.text(self._path("config-version.txt")).strip() or None

    def applied_config(self) -> dict[str, Any] | None:
        """The document that was last applied with success."""
        return self._read("applied-config.json")

    def applied_if_whole(self) -> dict[str, Any] | None:
        """The same, for those who can do without it."""
        try:
            return self.applied_config()
        except StateCorrupt:
            return None

    def set_applied_config(self, document: Mapping[str, Any]) -> None:
        """Remember what the machine now is."""
        self._write("applied-config.json", document)

    def source(self) -> dict[str, Any] | None:
        """The address that this machine follows, if its configuration came from a durable one."""
        return self._read("source.json")

    def set_source(self, source: Mapping[str, Any] | None) -> None:
        """Remember it, or follow none from now on. It is a secret, and so are some of its settings."""
        if source is None:
            self._host.remove(self._path("source.json"))
        else:
            self._write("source.json", source)

    # -- progress ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Phase and what belongs to it."""
        return self._read("state.json") or {"phase": Phase.NOT_STARTED.value}

    def enter(self, phase: Phase, **details: Any) -> None:
        """Move to a phase; written before and after the work, so that a re-run knows where it stands."""
        try:
            before = self.state()
        except StateCorrupt:
            before = {}  # a run that needs it has stopped by now; the way back does not need it
        kept = {name: before[name] for name in KEPT if name in before}
        self._write("state.json", {**kept, "phase": phase.value, **details})

    def join(self) -> dict[str, str]:
        """How far the join got: `token` is the id of the token, `outcome` attempted, refused or joined."""
        return dict(self.state().get("join") or {})

    def set_join(self, token: str, outcome: str) -> None:
        """Remember what became of a token; its secret part is never written here."""
        self._write("state.json", {**self.state(), "join": {"token": token, "outcome": outcome}})

    def monitoring(self) -> dict[str, Any]:
        """What is wrong with following the configuration; empty while all is well."""
        return dict(self.state().get("monitoring") or {})

    def set_monitoring(self, trouble: Mapping[str, Any]) -> None:
        """Remember it; nothing is wrong any more: nothing is kept."""
        state = {name: value for name, value in self.state().items() if name != "monitoring"}
        self._write("state.json", {**state, **({"monitoring": dict(trouble)} if trouble else {})})

    def set_status(self, status: Mapping[str, Any]) -> None:
        """The last status; a new time alone is no reason to write (SD cards)."""
        before = self._read("status.json") or {}
        if {**before, "timestamp": ""} != {**status, "timestamp": ""}:
            self._write("status.json", status)

    def status(self) -> dict[str, Any] | None:
        """The last status that was written."""
        return self._read("status.json")

    # -- the transaction under way -------------------------------------------------------------------------

    def transaction(self) -> dict[str, Any] | None:
        """An unfinished transaction, if a run was cut off."""
        return self._read("transaction.json")

    def begin(self, transaction: Mapping[str, Any]) -> None:
        """Write down what is about to happen."""
        self._write("transaction.json", transaction)

    def finish(self) -> None:
        """It has happened."""
        self._host.remove(self._path("transaction.json"))

    # -- files ---------------------------------------------------------------------------------------------

    def forget(self) -> list[str]:
        """Remove everything of ours; the last act of leaving. The journal goes last, others' files stay."""
        left = [path for name in OWN for path in self._host.remove_tree(self._path(name))]
        half_written = tuple(f".{name}." for name in OWN)  # by a run that was killed in the middle of a write
        for name in self._host.names(self.directory):
            if name.startswith(half_written):
                self._host.remove(self._path(name))
        self._host.remove_directory(self.directory)
        self._host.remove(POINTER)
        self._host.remove_directory(POINTER.rpartition("/")[0])
        return left

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _read(self, name: str) -> dict[str, Any] | None:
        content = self._host.read(self._path(name))
        if content is None:
            return None
        try:
            document = json.loads(content)
            if not isinstance(document, dict):
                raise ValueError("not a mapping")
        except ValueError as error:
            raise StateCorrupt(
                "a state file can't be read",
                where=self._path(name),
                why=str(error),
                fix=f"remove it (rm {self._path(name)}) and run bootstrap or `aks-flex-node join` again",
            ) from error
        return document

    def _write(self, name: str, document: Mapping[str, Any]) -> bool:
        content = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
        if self._host.read(self._path(name)) == content:
            return False
        self._host.make_directories(self.directory, 0o700)
        self._host.write(self._path(name), content, 0o600)
        self._point_here()
        return True

    def _point_here(self) -> None:
        if self.directory != DATA_DIR and self._host.text(POINTER).strip() != self.directory:
            self._host.make_directories(POINTER.rpartition("/")[0])
            self._host.write(POINTER, f"{self.directory}\n".encode(), 0o644)


def store_of(host: Host, directory: str | None = None) -> Store:
    """The store of this machine: where the configuration says, else where it was found last."""
    return Store(host, directory or host.text(POINTER).strip() or DATA_DIR)
