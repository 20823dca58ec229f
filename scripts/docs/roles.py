# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles and their variables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.checkout import ROOT
from scripts.docs.tables import code, plain, rows


@dataclass(frozen=True)
class Role:
    """A role, as its metadata has it."""

    name: str
    entry_points: Mapping[str, Mapping[str, Any]]
    galaxy: Mapping[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Role:
        """Read the metadata of a role's directory."""
        specs = yaml.safe_load((directory / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
        meta = yaml.safe_load((directory / "meta" / "main.yml").read_text(encoding="utf-8"))
        return cls(directory.name, specs["argument_specs"], meta["galaxy_info"])


def roles() -> list[Role]:
    """All roles, by name."""
    return [Role.read(path.parent.parent) for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))]


def option_rows(options: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Variables of an entry point."""
    for name, option in options.items():
        value = option.get("default")
        spelled = code("" if value in ("", None) else json.dumps(value))
        default = "**needed**" if option.get("required") else spelled
        kind = " | ".join(option["choices"]) if "choices" in option else option["type"]
        yield code(name), kind, default or "-", plain(option["description"])


OPTION_HEAD = ("variable", "type", "default", "what it is")
# Roles that need no cluster yet: an image can hold what they install.
WITHOUT_CLUSTER = ("agent", "cni", "kubernetes", "runtime", "system_config")
# Roles that use what `config` stored; the others get the document themselves, or need none.
AFTER_CONFIG = (*WITHOUT_CLUSTER, "kubelet", "npd", "services")
# Roles that work on the controller, once for all machines; and the Python packages they need there.
ON_CONTROLLER: Mapping[str, str] = {
    "proof": "`kubernetes`",
    "source": "`azure-identity`, `azure-mgmt-core`, `azure-mgmt-containerservice`, `azure-storage-blob`",
}


def example(role: Role) -> str:
    """A playbook that uses the role."""
    steps: list[object] = []
    if role.name in AFTER_CONFIG:
        config: dict[str, object] = {"role": "aks.flexnode.config"}
        if role.name in WITHOUT_CLUSTER:
            config["vars"] = {"config_purpose": "prepare"}
        steps.append(config)
    if role.name == "node":  # it applies what role source resolved
        steps.append({"role": "aks.flexnode.source"})
    steps.append({"role": f"aks.flexnode.{role.name}"})
    play: dict[str, object] = {
        "name": role.entry_points["main"]["short_description"],
        "hosts": "all",
        "gather_facts": False,
        "become": role.name not in ON_CONTROLLER,
        "roles": steps,
    }
    plays = [play]
    if "absent" in role.entry_points:
        tasks = [
            {
                "name": role.entry_points[point]["short_description"],
                "ansible.builtin.include_role": {"name": f"aks.flexnode.{role.name}", "tasks_from": point},
            }
            for point in ("absent", "left")
            if point in role.entry_points
        ]
        plays.append(
            {
                "name": "Uninstall",
                "hosts": "all",
                "gather_facts": False,
                "become": role.name not in ON_CONTROLLER,
                "tasks": tasks,
            }
        )
    return "\n".join(yaml.safe_dump([one], sort_keys=False, width=100) for one in plays)


def role_readme(role: Role) -> str:
    """README.md of a role."""
    names = {"jammy": "22.04", "noble": "24.04", "bookworm": "12", "trixie": "13"}
    platforms = ", ".join(
        f"{platform['name']} {' and '.join(names.get(v, v) for v in platform['versions'])}"
        for platform in role.galaxy["platforms"]
    )
    parts = [
        "<!-- Written by scripts/docs from meta/: change those files, not this one. -->\n"
        f"# aks.flexnode.{role.name}\n\n{role.entry_points['main']['short_description']}.\n\n"
        f"{plain(role.entry_points['main']['description'])}\n"
    ]
    for name, entry in role.entry_points.items():
        title = "Variables" if name == "main" else f"Entry point `{name}`"
        text = "" if name == "main" else f"{plain(entry['description'])}\n\n"
        options = entry.get("options") or {}
        listing = rows(option_rows(options), head=OPTION_HEAD) if options else "No variables of its own.\n"
        parts.append(f"## {title}\n\n{text}{listing}")
    parts.append(f"## Example\n\n```yaml\n{example(role)}```\n")
    needs = (
        f"on the controller the Python packages\n{ON_CONTROLLER[role.name]}.\nThe"
        if role.name in ON_CONTROLLER
        else f"a machine with {platforms}, systemd,\nPython 3.10 or newer and root (`become: true`). The"
    )
    parts.append(
        f"## Needs\n\nansible-core {role.galaxy['min_ansible_version']} or newer; {needs} document's fields: "
        "[configuration](../../docs/configuration.md).\n"
    )
    return "\n".join(parts)


def variables() -> str:
    """Every variable that a user sets, of all roles."""
    found: dict[str, tuple[str, ...]] = {}
    users: dict[str, list[str]] = {}
    for role in roles():
        for entry in role.entry_points.values():
            for row in option_rows(entry.get("options") or {}):
                if row[0].startswith("`flexnode_"):
                    found.setdefault(row[0], row)
                    users.setdefault(row[0], []).append(role.name)
    lines = [(name, ", ".join(dict.fromkeys(users[name])), *row[1:]) for name, row in found.items()]
    return rows(lines, head=(OPTION_HEAD[0], "roles", *OPTION_HEAD[1:]))
