# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How state files are read, and their version: push, poll and an administrator may use different releases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import StateCorrupt, StateNewer
from ...machine.program import VERSION

# 1: without a number; transactions that no run reads back.
# 2: a number in every file; transactions keep the previous generation in order; refused documents.
SCHEMA = 2
SCHEMA_KEY, WRITER_KEY = "schema", "writer"


SOURCE = "source.json"
AGAIN = "run playbook aks.flexnode.bootstrap or `aks-flex-node join` again"
REWRITTEN = (
    "run playbook aks.flexnode.bootstrap again, or `aks-flex-node join` with the same options as before: "
    "that writes it anew"
)


def mapping_in(content: bytes, where: str) -> dict[str, Any]:
    """What a state file contains; a damaged one is an error that says what to do about this file."""
    try:
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError("not a mapping")
    except ValueError as error:
        fix = REWRITTEN if where.endswith(f"/{SOURCE}") else f"remove it (rm {where}), then {AGAIN}"
        raise StateCorrupt("a state file can't be read", where=where, why=str(error), fix=fix) from error
    return document


def stamped(document: Mapping[str, Any]) -> dict[str, Any]:
    """A state file as it is written: with the schema, and the release that wrote it."""
    return {**document, SCHEMA_KEY: SCHEMA, WRITER_KEY: VERSION}


def check_schema(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The content of a state file. Older schemas are read as they are; a newer one is refused."""
    found = document.get(SCHEMA_KEY, 1)
    if not isinstance(found, int) or found > SCHEMA:
        raise StateNewer(
            f"this machine's state was written by aks.flexnode {document.get(WRITER_KEY, '(unknown)')}",
            where=where,
            why=f"it has schema {found}; aks.flexnode {VERSION} reads schema {SCHEMA} and older. "
            "Nothing was changed",
        )
    return {key: value for key, value in document.items() if key not in (SCHEMA_KEY, WRITER_KEY)}
