# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a machine: small files under /var/lib/aks-flex-node, atomic, written only on change."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import StateCorrupt
from ...machine.host import Host
from .above import ABOVE, record_missing, remove_above
from .journal import Journal
from .schema import SOURCE, check_schema, mapping_in, stamped

if TYPE_CHECKING:
    from .record import Record

DATA_DIR = "/var/lib/aks-flex-node"
OWN = (
    "cache",
    "pull",
    "pull.json",
    "origins",
    "applied-config.json",
    "config-version.txt",
    "status.json",
    "transaction.json",
    "vpn-transaction.json",
    "refused-config.json",
    "drift.json",
    "current-config.json",
    SOURCE,
    "state.json",
    "journal",
)
KEPT = (
    "join",
    "monitoring",
    "appliedVersion",
    "labels",
    "versions",
    "cordoned",
    "taints",
    "conditions",
    "facts",
    "drift",
    "rollout",
)  # keys of state.json: a new phase keeps them
DOCUMENTS = ("current-config.json", "applied-config.json")  # in the user's format, without a schema number
POINTER = "/etc/aks-flex-node/data-dir"  # where the data directory is, if paths.dataDir moved it


class Phase(enum.Enum):
    """The phase of this machine between start and node."""

    NOT_STARTED = "NotStarted"
    ARC_REGISTERING = "ArcRegistering"
    ARC_REGISTERED = "ArcRegistered"
    ARC_FAILED = "ArcFailed"
    VPN_BOOTSTRAPPING = "VPNBootstrapping"
    VPN_CONNECTED = "VPNConnected"
    VPN_FAILED = "VPNFailed"
    NODE_BOOTSTRAPPING = "NodeBootstrapping"
    NODE_JOINED = "NodeJoined"
    NODE_FAILED = "NodeFailed"
    RESETTING = "Resetting"


class Store:
    """The files of the data directory."""

    def __init__(self, host: Host, directory: str = DATA_DIR, record: str = "transaction.json") -> None:
        self._host = host
        self._record = record
        self.directory = directory
        self.cache = f"{directory}/cache"
        self.journal = Journal(host, directory)

    @property
    def directories(self) -> tuple[str, ...]:
        """Directories in which only this collection writes."""
        return (self.directory, f"{self.directory}/origins", POINTER.rpartition("/")[0])

    @property
    def is_there(self) -> bool:
        """Whether anything of it is on the disk, even if it holds nothing."""
        return any(not self._host.stat(path).absent for path in (self.directory, POINTER, ABOVE))

    # -- configuration -------------------------------------------------------------------------------------

    def current_config(self) -> dict[str, Any] | None:
        """The current document, secrets included."""
        return self._read("current-config.json")

    def remembered(self) -> tuple[dict[str, Any] | None, bool]:
        """The current document, and True; False: it is damaged, and this is the applied one, if any."""
        try:
            return self.current_config(), True
        except StateCorrupt:
            return self.applied_if_intact(), False

    def set_current_config(self, document: Mapping[str, Any], version: str | None) -> bool:
        """Store the document; True: it changed."""
        changed = self._write("current-config.json", document)
        path, number = self._path("config-version.txt"), f"{version}\n".encode() if version else None
        if self._host.read(path) != number:
            if number is None:
                self._host.remove(path)  # it belongs to an earlier document
            else:
                self._host.write(path, number, 0o600)
            changed = True
        return changed

    def config_version(self) -> str | None:
        """The version of the current document, if its source has versions."""
        return self._host.text(self._path("config-version.txt")).strip() or None

    def applied_config(self) -> dict[str, Any] | None:
        """The document that was last applied successfully."""
        return self._read("applied-config.json")

    def applied_if_intact(self) -> dict[str, Any] | None:
        """The same; None if it is damaged."""
        try:
            return self.applied_config()
        except StateCorrupt:
            return None

    def set_applied_config(self, document: Mapping[str, Any], version: str | None) -> None:
        """Store the document that was applied, and its version."""
        self._write("applied-config.json", document)
        self.note(appliedVersion=version)

    def refused(self) -> dict[str, Any]:
        """The last document that was refused or rolled back, with code, message and time; empty: none."""
        return self._read("refused-config.json") or {}

    def refuse(self, document: Mapping[str, Any], reason: Mapping[str, Any]) -> None:
        """Keep a document beside the current one, with the reason why it is not the current one."""
        self._write("refused-config.json", {**reason, "document": document})

    def forget_refused(self) -> None:
        """A configuration was applied: what was refused before is history."""
        self._host.remove(self._path("refused-config.json"))

    def source(self) -> dict[str, Any] | None:
        """The durable URL that this machine polls, if it has one, with what was last seen there."""
        return self._read(SOURCE)

    def source_if_intact(self) -> dict[str, Any] | None:
        """The same; None if its record is damaged."""
        try:
            return self.source()
        except StateCorrupt:
            return None

    @property
    def polls(self) -> bool:
        """Whether this machine polls a source; which one, the record may be too damaged to say."""
        return not self._host.stat(self._path(SOURCE)).absent

    def set_source(self, source: Mapping[str, Any] | None) -> None:
        """Store it, or stop polling (None). The URL is a secret, and so are some of its settings."""
        if source is None:
            self._host.remove(self._path(SOURCE))
        else:
            self._write(SOURCE, source)

    # -- progress ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The phase and its details."""
        return {"phase": Phase.NOT_STARTED.value, **(self._read("state.json") or {})}

    def enter(self, phase: Phase, **details: Any) -> None:
        """Enter a phase; written before and after the work, so that the next run knows where it stopped."""
        try:
            before = self.state()
        except StateCorrupt:
            before = {}  # a join has failed before this; unbootstrap does not need it
        kept = {name: before[name] for name in KEPT if name in before}
        self._write("state.json", {**kept, "phase": phase.value, **details})

    def forget_state(self) -> None:
        """Nothing was begun on this machine, or all of it was undone."""
        for name in ("status.json", "state.json"):
            self._host.remove(self._path(name))
        if self._host.remove_directory(self.directory):  # only if it is empty
            self._forget_place()

    def note(self, **details: Any) -> None:
        """Change details of the present phase; None removes one."""
        state = {**self.state(), **details}
        self._write("state.json", {name: value for name, value in state.items() if value is not None})

    def join(self) -> dict[str, str]:
        """How far the join got: `token` is the id of the token, `outcome` attempted, refused or joined.

        Of a refused token also `digest`, of the whole token, and `what` happened to it.
        """
        return dict(self.state().get("join") or {})

    def set_join(self, token: str, outcome: str) -> None:
        """Record the outcome of a token; its secret part is never written here."""
        self._write("state.json", {**self.state(), "join": {"token": token, "outcome": outcome}})

    def monitoring(self) -> dict[str, Any]:
        """The last error of polling; empty: there is none."""
        return dict(self.state().get("monitoring") or {})

    def set_monitoring(self, failure: Mapping[str, Any]) -> None:
        """Record the last error of polling; an empty one removes the record."""
        state = {name: value for name, value in self.state().items() if name != "monitoring"}
        self._write("state.json", {**state, **({"monitoring": dict(failure)} if failure else {})})

    def set_status(self, status: Mapping[str, Any]) -> None:
        """Store the status; a new timestamp alone is not written (SD cards wear out)."""
        try:
            before = self._read("status.json") or {}
        except StateCorrupt:
            before = {}
        if {**before, "timestamp": ""} != {**status, "timestamp": ""}:
            self._write("status.json", status)

    def status(self) -> dict[str, Any] | None:
        """The last status that was written."""
        return self._read("status.json")

    def drift(self) -> dict[str, Any] | None:
        """What the last drift check recorded; None: nothing."""
        return self._read("drift.json")

    def set_drift(self, record: Mapping[str, Any] | None) -> None:
        """Store it, or remove it (None)."""
        if record is None:
            self._host.remove(self._path("drift.json"))
        else:
            self._write("drift.json", record)

    def pulled(self) -> dict[str, Any]:
        """The result of the last ansible-pull; empty: none ran yet."""
        return self._read("pull.json") or {}

    def set_pulled(self, record: Mapping[str, Any] | None) -> None:
        """Store it, or remove it (None)."""
        if record is None:
            self._host.remove(self._path("pull.json"))
        else:
            self._write("pull.json", record)

    # -- transaction -----------------------------------------------------------------------------------------

    @property
    def tunnel(self) -> Store:
        """The same store, with the record of the VPN's own transaction.

        That one is proven before the node's transaction begins, and is rolled back without it.
        """
        return Store(self._host, self.directory, "vpn-transaction.json")

    @property
    def is_unfinished(self) -> bool:
        """Whether a run left a transaction to be completed: the node's, or the VPN's."""
        return self.transaction() is not None or self.tunnel.transaction() is not None

    def transaction(self) -> dict[str, Any] | None:
        """The transaction of an interrupted run, if any."""
        return self._read(self._record)

    def begin(self, transaction: Mapping[str, Any]) -> None:
        """Record the intent."""
        self._write(self._record, transaction)

    def finish(self) -> None:
        """Remove the record: the transaction is complete."""
        self._host.remove(self._path(self._record))

    def returned(self, record: Record, *, refuse: bool = True) -> None:
        """The previous generation is back: so are its document and its source. The record goes last.

        refuse: keep the other document as a refused one.
        A crash in between is harmless: the next run rolls back again, and comes here again.
        """
        applied, (refused, _intact) = self.applied_if_intact(), self.remembered()
        if applied is not None:
            known = self.refused().get("fingerprint", "") == record.reason.get("fingerprint")
            if (
                refuse
                and refused is not None
                and not known
                and (refused != applied or record.reason.get("blocks"))
            ):
                self.refuse(refused, record.reason)
            if refused != applied:
                self.set_source(record.source)
                self.set_current_config(applied, self.state().get("appliedVersion"))
        self.finish()

    # -- files ---------------------------------------------------------------------------------------------

    def forget(self) -> list[str]:
        """Remove the data directory, as the last step of leaving; the journal last. Files of others stay."""
        left = [path for name in OWN for path in self._host.remove_tree(self._path(name))]
        half_written = tuple(f".{name}." for name in OWN)  # by a run that was killed while writing
        for name in self._host.names(self.directory):
            if name.startswith(half_written):
                self._host.remove(self._path(name))
        self._host.remove_directory(self.directory)
        self._forget_place()
        return left

    def _forget_place(self) -> None:
        remove_above(self._host, self.directory)
        self._host.remove(POINTER)
        self._host.remove_directory(POINTER.rpartition("/")[0])

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _read(self, name: str) -> dict[str, Any] | None:
        if (content := self._host.read(self._path(name))) is None:
            return None
        document = mapping_in(content, self._path(name))
        return document if name in DOCUMENTS else check_schema(document, self._path(name))

    def _write(self, name: str, document: Mapping[str, Any]) -> bool:
        document = document if name in DOCUMENTS else stamped(document)
        content = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
        if self._host.read(self._path(name)) == content:
            return False
        self._point_here()
        self._host.make_directories(self.directory, 0o700)
        self._host.write(self._path(name), content, 0o600)
        return True

    def _point_here(self) -> None:
        """Say where the data directory is before it is created: a run that is killed then is undone too."""
        if self.directory != DATA_DIR and self._host.text(POINTER).strip() != self.directory:
            self._host.make_directories(POINTER.rpartition("/")[0])
            record_missing(self._host, self.directory)
            self._host.write(POINTER, f"{self.directory}\n".encode(), 0o644)


def store_of(host: Host, directory: str | None = None) -> Store:
    """The store of this machine: in the configured directory, else where it was last."""
    return Store(host, directory or host.text(POINTER).strip() or DATA_DIR)
