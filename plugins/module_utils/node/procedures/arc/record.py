# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""arc.json: what this collection changed in Azure Arc. Other agents and registrations are not touched."""

from __future__ import annotations

import json
from typing import Any

from ...engine.records.state import DATA_DIR
from ...errors import StateCorrupt
from ...machine.host import Host
from .agent import Status

# It is kept after a leave: the machine may stay registered. Its path is fixed, independent of
# paths.dataDir: after a leave nothing records where that was.
RECORD = f"{DATA_DIR}/arc.json"


class Record:
    """The record of this collection's Arc changes; other agents and registrations are not touched."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._directory, self._path = DATA_DIR, RECORD

    def read(self) -> dict[str, Any]:
        """The recorded changes.

        `package`: digest of the installed package; `registration` and `vm_id`: the created resource;
        `proxy`: the proxy that was set, `proxy_before`: the previous one.
        """
        content = self._host.read(self._path)
        try:
            found = json.loads(content) if content else {}
            if not isinstance(found, dict):
                raise ValueError("not a mapping")
        except ValueError as error:
            raise StateCorrupt(
                "the record of the Arc registration can't be read",
                where=self._path,
                why=str(error),
                fix=f"remove it (rm {self._path}): the registration then counts as created by someone else",
            ) from error
        return found

    def note(self, **values: str | None) -> None:
        """Update the record; None removes a key. An empty record is removed."""
        record = {name: value for name, value in {**self.read(), **values}.items() if value is not None}
        if not record:
            self._host.remove(self._path)
            self._host.remove_directory(self._directory)  # only if it is empty
            return
        self._host.make_directories(self._directory, 0o700)
        self._host.write(self._path, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode(), 0o600)

    def created(self, seen: Status) -> bool:
        """Whether this collection created this registration: the name may belong to a newer one."""
        recorded = self.read()
        ours, vm_id = str(recorded.get("registration", "")), str(recorded.get("vm_id", ""))
        named = seen.registration is not None and seen.registration.resource_id.lower() == ours.lower()
        return named and (not vm_id or not seen.vm_id or vm_id.lower() == seen.vm_id.lower())
