# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of every request, so that tests can count calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from testbed.azure.database import Database


@dataclass(frozen=True)
class Request:
    """One request, and how it ended."""

    time: float
    """When it came, in seconds since 1970."""
    client: str
    method: str
    path: str
    query: str
    status: int
    """0 where the connection was cut."""
    principal: str | None
    """Its name in Resource Manager, its client id at a token endpoint."""
    seconds: float


class Record:
    """What was asked, in order."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, request: Request) -> None:
        """Note a request."""
        self._database.insert("requests", asdict(request))

    def all(self) -> list[Request]:
        """Every request since the record was emptied."""
        found = self._database.rows("SELECT * FROM requests ORDER BY time, id")
        return [Request(**{name: row[name] for name in Request.__dataclass_fields__}) for row in found]

    def forget(self) -> None:
        """Empty it."""
        self._database.change("DELETE FROM requests")
