# SPDX-License-Identifier: GPL-3.0-or-later
"""All state of the emulated Azure, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.azure.behaviour.settings import Settings

SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS principals (
    object_id TEXT PRIMARY KEY, client_id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    secret TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS certificates (object_id TEXT NOT NULL, pem TEXT NOT NULL, UNIQUE (object_id, pem));
CREATE TABLE IF NOT EXISTS role_assignments (
    name TEXT PRIMARY KEY, scope TEXT NOT NULL, role TEXT NOT NULL, principal_id TEXT NOT NULL,
    principal_type TEXT NOT NULL, created REAL NOT NULL, created_by TEXT NOT NULL, effective REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS nodes (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS previous_nodes (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS last_seen (name TEXT PRIMARY KEY, status TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS invitations (
    id INTEGER PRIMARY KEY, node TEXT NOT NULL, token_id TEXT, state TEXT NOT NULL, created REAL NOT NULL,
    expires REAL NOT NULL, used REAL
);
CREATE TABLE IF NOT EXISTS operations (
    id TEXT PRIMARY KEY, started REAL NOT NULL, ends REAL NOT NULL, result TEXT
);
CREATE TABLE IF NOT EXISTS operation_errors (
    id TEXT PRIMARY KEY, status TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS agent_pools (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pool_machines (
    pool TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (pool, name)
);
CREATE TABLE IF NOT EXISTS service_acts (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, pool TEXT NOT NULL,
    machine TEXT NOT NULL, step TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, client TEXT NOT NULL, method TEXT NOT NULL,
    path TEXT NOT NULL, query TEXT NOT NULL, status INTEGER NOT NULL, principal TEXT, seconds REAL NOT NULL
);
"""


class Database:
    """One connection that threads take turns with."""

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        # A testbed that loses power is created again: waiting for the disk would only slow it down.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(SCHEMA)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """What a query finds."""
        with self._lock:
            return [dict(row) for row in self._connection.execute(sql, values)]

    def row(self, sql: str, *values: Any) -> dict[str, Any] | None:
        """The first that a query finds."""
        return next(iter(self.rows(sql, *values)), None)

    def change(self, sql: str, *values: Any) -> int:
        """Insert, update or delete; how many rows it was."""
        with self._lock:
            return self._connection.execute(sql, values).rowcount

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row; table and columns are words of this program, never of a request."""
        marks = ", ".join("?" for _ in row)
        self.change(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *row.values())  # noqa: S608

    @contextmanager
    def together(self) -> Iterator[None]:
        """Several changes, all or none."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @property
    def settings(self) -> Settings:
        """The settings of now."""
        return Settings.parse(
            {row["name"]: json.loads(row["value"]) for row in self.rows("SELECT * FROM settings")}
        )

    def set_settings(self, changes: dict[str, Any]) -> Settings:
        """Change some of them."""
        changed = Settings.parse({**self.settings.__dict__, **changes})
        with self.together():
            for name, value in changes.items():
                self.change("REPLACE INTO settings VALUES (?, ?)", name, json.dumps(value))
        return changed
