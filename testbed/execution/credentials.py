# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX makes of credentials when a job starts: files, environment variables and extra variables.

Custom types are evaluated as AWX does it: templates in a sandbox, files of mode 0600 in env/ of the job's
directory, extra variables in a file that only its owner can read. Empty fields do not exist for a template.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from scripts.checkout import ROOT

INSIDE = "/runner"
"""Where a container finds the directory of its job."""
TYPES = ROOT / "awx" / "data" / "credential_types.yml"


class Unsafe(yaml.SafeDumper):
    """Strings as AWX writes them: Ansible must not evaluate what a user typed."""

    def represent_data(self, data: Any) -> yaml.Node:
        if isinstance(data, str):
            return self.represent_scalar("!unsafe", data)
        return super().represent_data(data)


class Templates(yaml.SafeLoader):
    """Reads awx/data: `!unsafe` keeps Ansible from evaluating the templates, which AWX gets as they are."""


Templates.add_constructor("!unsafe", lambda _loader, node: str(node.value))


def unsafe_yaml(values: Mapping[str, Any]) -> str:
    """Extra variables as AWX writes them to a file."""
    return yaml.dump(dict(values), Dumper=Unsafe, default_flow_style=False)


def types() -> dict[str, dict[str, Any]]:
    """The credential types of awx/data, by name."""
    found = yaml.load(TYPES.read_text(encoding="utf-8"), Loader=Templates)  # noqa: S506 - a safe loader
    return {one["name"]: one for one in found["awx_credential_types"]}


@dataclass(repr=False)
class Injected:
    """What the credentials of a job add to it."""

    directory: Path
    """The job's directory; it has a directory env."""
    environment: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    """Of ansible-playbook."""

    def add(self, kind: str, **inputs: str) -> None:
        """Inject a credential of a type of awx/data."""
        injectors = types()[kind]["injectors"]
        known: dict[str, Any] = {name: value for name, value in inputs.items() if value}
        known["tower"] = SimpleNamespace(filename=SimpleNamespace())
        engine = ImmutableSandboxedEnvironment()
        for label, template in injectors.get("file", {}).items():
            path = self._write(engine.from_string(template).render(**known), 0o600)
            # `template` alone is tower.filename; `template.kubeconfig` is tower.filename.kubeconfig.
            if "." in label:
                setattr(known["tower"].filename, label.split(".")[1], path)
            else:
                known["tower"].filename = path
        for name, template in injectors.get("env", {}).items():
            self.environment[name] = engine.from_string(template).render(**known)
        extra = injectors.get("extra_vars", {})
        variables = {name: engine.from_string(template).render(**known) for name, template in extra.items()}
        if variables:
            self.arguments += ["-e", f"@{self._write(unsafe_yaml(variables), 0o400)}"]

    def add_azure(self, environment: Mapping[str, str]) -> None:
        """AWX's own type Microsoft Azure Resource Manager, with a service principal."""
        for name in ("AZURE_CLIENT_ID", "AZURE_SECRET", "AZURE_SUBSCRIPTION_ID", "AZURE_TENANT"):
            self.environment[name] = environment[name]

    def _write(self, text: str, mode: int) -> str:
        """A file with a name that nobody knows before; returns its path in the container."""
        handle, name = tempfile.mkstemp(dir=self.directory / "env")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(mode)
        return f"{INSIDE}/env/{Path(name).name}"
