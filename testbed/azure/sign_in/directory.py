# SPDX-License-Identifier: GPL-3.0-or-later
"""The tenant's principals."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field

from testbed.azure.database import Database


@dataclass(frozen=True)
class Principal:
    """An app registration with its service principal."""

    name: str
    object_id: str
    client_id: str
    secret: str = field(repr=False)


class Directory:
    """Who exists."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def application(self, client_id: str) -> Principal | None:
        """The app registration of a client id."""
        return self._find("SELECT * FROM principals WHERE client_id = ?", client_id.lower())

    def principal(self, object_id: str) -> Principal | None:
        """The principal of an object id."""
        return self._find("SELECT * FROM principals WHERE object_id = ?", object_id.lower())

    def certificates(self, application: Principal) -> list[str]:
        """The certificates that may sign for an app registration, as PEM."""
        found = self._database.rows("SELECT pem FROM certificates WHERE object_id = ?", application.object_id)
        return [str(row["pem"]) for row in found]

    def add_certificate(self, application: Principal, pem: str) -> None:
        """Add a certificate that may sign for it."""
        self._database.change(
            "INSERT OR IGNORE INTO certificates (object_id, pem) VALUES (?, ?)", application.object_id, pem
        )

    def register(self, name: str) -> Principal:
        """The app registration of that name, created if there is none."""
        new = Principal(name, str(uuid.uuid4()), str(uuid.uuid4()), _new_secret())
        self._database.change(
            "INSERT OR IGNORE INTO principals (object_id, client_id, name, secret) VALUES (?, ?, ?, ?)",
            *(new.object_id, new.client_id, new.name, new.secret),
        )
        return self._find("SELECT * FROM principals WHERE name = ?", name) or new

    def renew_secret(self, name: str) -> Principal | None:
        """Give an app registration another secret, and end the old one."""
        self._database.change("UPDATE principals SET secret = ? WHERE name = ?", _new_secret(), name)
        return self._find("SELECT * FROM principals WHERE name = ?", name)

    def remove(self, name: str) -> bool:
        """Remove an app registration; tokens it got before stay valid until they expire."""
        self._database.change(
            "DELETE FROM certificates WHERE object_id IN (SELECT object_id FROM principals WHERE name = ?)",
            name,
        )
        return self._database.change("DELETE FROM principals WHERE name = ?", name) > 0

    def _find(self, statement: str, value: str) -> Principal | None:
        row = self._database.row(statement, value)
        return Principal(**row) if row else None


def _new_secret() -> str:
    return f"{secrets.token_urlsafe(3)}~{secrets.token_urlsafe(24)}"
