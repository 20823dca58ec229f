# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The controller's modules against the emulated Azure, a real cluster and Azurite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed
from testbed.azure import Azure, Principal
from tests.contract.modules.loaded import Loaded
from tests.contract.sdk import Sdk

ROOT = Path(__file__).parents[3]
LOADED = Loaded()


@dataclass(frozen=True)
class Person:
    """Somebody with an Azure identity who runs modules."""

    bed: Testbed
    principal: Principal
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """What they have exported."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "PYTHONPATH": str(ROOT / ".collections"),
            **self.bed.azure.environment(self.principal),
        }

    def run(self, module: str, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """Run a module in a process of its own, as Ansible does."""
        file = self.directory / "arguments.json"
        internal = {
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            "_ansible_remote_tmp": str(self.directory),
        }
        file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, **internal}}))
        name = f"ansible_collections.aks.flexnode.plugins.modules.{module}"
        done = LOADED.run(name, file, self.environment, self.directory)
        assert self.principal.secret not in done.stdout + done.stderr
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode != 0) == bool(answer.get("failed")), done.stderr
        return answer

    def do(self, module: str, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """Run a module that must succeed."""
        answer = self.run(module, check=check, **arguments)
        assert not answer.get("failed"), answer["msg"]
        return answer

    def ansible(self, module: str, arguments: Mapping[str, Any], *options: str) -> str:
        """The same by Ansible itself: all that a person sees."""
        command = [
            str(Path(sys.executable).parent / "ansible"),
            "localhost",
            "--connection=local",
            f"--extra-vars=ansible_python_interpreter={sys.executable}",
            f"--module-name=aks.flexnode.{module}",
            f"--args={json.dumps(arguments)}",
        ]
        environment = {**self.environment, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections")}
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=self.directory,
            env=environment,
        )
        return done.stdout + done.stderr


@pytest.fixture
def person(
    bed: Testbed, azure: Azure, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Person]]:
    """People with roles on the cluster: `person("Reader")`."""
    made: list[str] = []

    def make(*roles: str) -> Person:
        name = f"{request.node.name}-{len(made)}"
        principal = azure.app_registration(name)
        made.append(name)
        for role in roles:
            azure.grant(principal, role)
        return Person(bed, principal, tmp_path)

    yield make
    for name in made:
        azure.remove_registration(name)


@pytest.fixture
def contributor(azure: Azure, person: Callable[..., Person]) -> Iterator[Person]:
    """Somebody who may do all that the modules do; there is no flexNodeConfig before and after."""
    someone = person("Contributor")
    clients = Sdk(azure, someone.principal, someone.bed.ca_file)
    _forget_all(clients)
    yield someone
    azure.behave()
    _forget_all(clients)


def _forget_all(clients: Sdk) -> None:
    for page in list(clients.pages(clients.node())):
        for node in page:
            clients.send("DELETE", node["id"])
