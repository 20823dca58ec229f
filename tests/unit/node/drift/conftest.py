# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node whose units have processes, and what a check says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import DriftRecord, Item
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import Site, a_site

TAINT = {"key": "plant", "value": "lab", "effect": "NoSchedule"}


@dataclass
class Drifting:
    """A joined node."""

    site: Site
    pki: Pki
    capsys: pytest.CaptureFixture[str]

    @property
    def machine(self) -> Machine:
        return self.site.machine

    def check(self, *options: str) -> tuple[int, str]:
        """The whole check, now; what it says."""
        self.capsys.readouterr()
        status = main(["poll", "--drift", *options], self.machine.host)
        said = self.capsys.readouterr()
        return status, said.out + said.err

    def plan(self) -> str:
        """What `aks-flex-node plan` says."""
        self.capsys.readouterr()
        assert main(["plan"], self.machine.host) == 0
        return self.capsys.readouterr().out

    @property
    def record(self) -> DriftRecord:
        return DriftRecord.of(self.machine.store)

    def item(self, key: str) -> Item:
        (found,) = [item for item in self.record.items if item.item == key]
        return found

    @property
    def node(self) -> dict[str, Any]:
        """The Node at the API server."""
        return self.site.api.nodes["edge-1"]


@pytest.fixture
def drifting(debian: Machine, pki: Pki, capsys: pytest.CaptureFixture[str]) -> Iterator[Drifting]:
    """A node with a label and a taint, as its kubelet registered it."""
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    debian.commands.processes = True
    with a_site(debian, pki) as site:
        site.document["node"]["taints"] = [TAINT]
        site.join()
        site.api.nodes["edge-1"]["spec"]["taints"] = [TAINT]
        yield Drifting(site, pki, capsys)
