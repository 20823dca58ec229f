# SPDX-License-Identifier: GPL-3.0-or-later
"""Markdown tables, and what stands in their cells."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARKUP = re.compile(r"\b[VOC]\(([^)]*)\)")
PLUGIN = re.compile(r"\bP\(([^)#]*)#?[^)]*\)")
MODULE = re.compile(r"\bM\(([^)]*)\)")


class Stale(Exception):
    """Documentation and code disagree in a way that only a person can fix."""


def rows(cells: Iterable[tuple[str, ...]], *, head: tuple[str, ...]) -> str:
    """A Markdown table; a pipe in a cell is not a border."""
    lines = [head, tuple("---" for _ in head), *cells]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: object) -> str:
    """Text as code; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def plain(text: str | list[str]) -> str:
    """Ansible's markup as Markdown."""
    joined = text if isinstance(text, str) else " ".join(text)
    return MODULE.sub(r"module `\1`", PLUGIN.sub(r"`\1`", MARKUP.sub(r"`\1`", joined)))
