# SPDX-License-Identifier: GPL-3.0-or-later
"""What a proof puts into a cluster, and what it takes for left over."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof import objects
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.objects import (
    EXPIRES,
    LABEL,
    OWNER,
    Run,
)

RUN = Run("abc123", "flexnode-proof-abc123", "busybox", 120, "laptop/42", 2000)


def pods() -> list[dict[str, Any]]:
    return [objects.server_pod(RUN, 0, "edge-1"), objects.probe_pod(RUN, 0, "edge-1", "10.0.7.7")]


@pytest.mark.parametrize("made", [objects.namespace(RUN), objects.service(RUN, 0), *pods()])
def test_everything_is_found_again_by_its_label(made: dict[str, Any]) -> None:
    assert made["metadata"]["labels"][LABEL] == RUN.identifier
    assert made["metadata"]["annotations"] == {OWNER: "laptop/42", EXPIRES: "2000"}


@pytest.mark.parametrize("pod", pods())
def test_pod_is_pinned_harmless_and_ends_by_itself(pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["edge-1"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["activeDeadlineSeconds"] > RUN.timeout
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_service_leads_to_the_server_of_its_node_only() -> None:
    selector = objects.service(RUN, 1)["spec"]["selector"]
    assert selector.items() <= objects.server_pod(RUN, 1, "edge-2")["metadata"]["labels"].items()
    assert not selector.items() <= objects.server_pod(RUN, 0, "edge-1")["metadata"]["labels"].items()


@pytest.mark.parametrize("script", [objects.REPORT_SCRIPT, objects.SERVE])
def test_scripts_are_plain_shell(tmp_path: Path, script: str) -> None:
    file = tmp_path / "script"
    file.write_text(script)
    assert subprocess.run(["sh", "-n", str(file)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("owner", "expires", "expected"),
    [
        ("laptop/42", "2000", False),  # its process lives
        ("laptop/41", "2000", True),  # its process is dead
        ("elsewhere/41", "2000", False),  # nobody here can know
        ("elsewhere/41", "999", True),  # but it had its time
        ("elsewhere/41", "soon", False),
    ],
)
def test_leftover_has_nobody_behind_it(owner: str, expires: str, expected: bool) -> None:
    metadata = {"annotations": {OWNER: owner, EXPIRES: expires}}
    assert objects.is_leftover(metadata, 1000, {"laptop/42": True, "laptop/41": False}) is expected
