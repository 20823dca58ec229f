# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's audit log: who asked for what, with which credential."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from testbed import Testbed
from testbed.basics import files, podman
from testbed.cluster.components import INSIDE
from testbed.cluster.credentials import Credentials


@dataclass(frozen=True)
class Audit:
    """Every request that was made with a bootstrap token, and every one whose credential was refused."""

    bed: Testbed

    def of_token(self, token_id: str) -> list[dict[str, Any]]:
        """Those made with one token."""
        return [one for one in self.events() if one["user"].get("username") == f"system:bootstrap:{token_id}"]

    def events(self) -> list[dict[str, Any]]:
        """In the order of their arrival."""
        log = podman.podman("logs", self.bed.site.container("kube-apiserver")).stdout
        lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"kind":"Event"')]
        return sorted(lines, key=lambda one: str(one["requestReceivedTimestamp"]))


@pytest.fixture(scope="module")
def audit(bed: Testbed) -> Iterator[Audit]:
    """The API server, replaced by one that keeps an audit log; the usual one comes back afterwards."""
    known = ["system:authenticated", "system:unauthenticated"]
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "userGroups": ["system:bootstrappers"]},
            {"level": "None", "userGroups": known},
            {"level": "Metadata"},  # nobody: a credential that was refused
        ],
    }
    path = Credentials(bed.site).directory / "audit.json"
    files.write(path, json.dumps(policy))
    (server,) = [service for service in bed.cluster.services() if service.name == "kube-apiserver"]
    flags = (f"--audit-policy-file={INSIDE}/audit.json", "--audit-log-path=-")
    replace(server, argv=(*server.argv, *flags)).ensure(bed.site)
    bed.cluster.settle()
    bed.azure.settle()
    yield Audit(bed)
    path.unlink()
    bed.up()
