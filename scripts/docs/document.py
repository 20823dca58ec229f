# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of the configuration document."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import UNSUPPORTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import (
    Setting,
    table,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.checks.owner import (
    LABEL as LONGEST_NODE_NAME,
)
from scripts.docs.tables import Stale, code, rows

# Fields that are not refused where something else is there.
ONLY_WITH: Mapping[str, str] = {
    "continuousMonitoring": "With source `rp` or `machines` (and an Azure identity of the node), `blob`, or "
    "a durable `url`.",
}
# What is checked elsewhere, and narrower than the field itself.
NARROWER: Mapping[str, str] = {
    "agent.nodeName": f"Preflight refuses more than {LONGEST_NODE_NAME} characters. With the sources "
    "`cluster`, `rp`, `blob` and `machines` the default is the name in the inventory.",
}


def default_of(setting: Setting) -> str:
    """A default as a document would spell it."""
    value = setting.default
    if setting.required == "always":
        return "**needed**"
    if setting.required == "join":
        return "**needed to join**"
    if value is None:
        return "-"
    if isinstance(value, (bool, int)):
        return code(json.dumps(value))
    if isinstance(value, Mapping):
        return code(json.dumps(dict(value)))
    if isinstance(value, tuple):
        return code(json.dumps(list(value)))
    return code(value)


def is_listed(path: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a path is named, or lies in a section that is named."""
    return any(f"{path}.".startswith(f"{prefix}.") for prefix in prefixes)


def about_field(path: str, setting: Setting) -> str:
    """What a field is for, and what this version does with it."""
    parts = [setting.about]
    if others := [name for name in setting.aliases if name != "false"]:
        parts.append(f"Also read: {', '.join(code(name) for name in others)}.")
    if is_listed(path, UNSUPPORTED):
        parts.append("**Refused in this version.**")
    parts += [more[path] for more in (ONLY_WITH, NARROWER) if path in more]
    return " ".join(parts)


def fields() -> str:
    """Every field of the configuration document, one table per top-level section."""
    found = list(table(NodeConfig))
    for prefix in (*UNSUPPORTED, *ONLY_WITH, *NARROWER):
        if not any(is_listed(row.path, (prefix,)) for row in found):
            raise Stale(f"scripts/docs names {prefix}, which is no field")
    sections: dict[str, list[tuple[str, ...]]] = {}
    for row in found:
        section = row.path.partition(".")[0] if "." in row.path else "top level"
        line = (
            code(row.path),
            default_of(row.setting),
            row.setting.kind.accepts,
            about_field(row.path, row.setting),
        )
        sections.setdefault(section, []).append(line)
    head = ("field", "default", "accepted", "about")
    return "\n".join(f"### {name}\n\n{rows(lines, head=head)}" for name, lines in sections.items())
