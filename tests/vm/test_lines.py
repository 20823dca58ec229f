# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest and the newest line of Kubernetes that the catalogue has, on cgroup v2.

Kubelets from 1.35 on refuse cgroup v1, so containers on such a machine can't show them. Each joins a control
plane that may have such nodes: of the same version, or at most three minors newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from testbed import Testbed
from testbed.basics import paths
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.vm.acts import AGAIN, JOIN, LINE, POD, UNINSTALL
from tests.vm.beds import alone, bed_name
from tests.vm.lab import Lab, Shown, is_ready, photographed, pod_works, unchanged, uninstall
from tests.vm.seen import Seen

LINES = dict(zip(("oldest", "newest"), versions.LINES, strict=True))


@pytest.fixture(params=LINES)
def line(
    request: pytest.FixtureRequest, shown: Shown, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lab, str]]:
    """A testbed with a control plane for the line, and the version of its nodes."""
    control_plane, node = LINES[request.param]
    bed = Testbed(f"{bed_name()}{request.param}")
    with alone(bed):
        try:
            with shown():
                bed.up(kubernetes=control_plane)
            yield Lab(bed, tmp_path_factory.mktemp(request.param), shown), node
        finally:
            bed.down()


def test_a_line_joins_on_cgroup_v2(line: tuple[Lab, str], seen: Seen) -> None:
    lab, version = line
    bed = lab.bed
    machine = lab.machine("line", "debian12", Hardware(paths.arch()))
    act = partial(seen.act, machine, version, part=LINE)
    before = photographed(machine)
    node = lab.group(machine, lab.document(fleet.join_document(bed), version))
    with act(JOIN):
        fleet.succeeded(node.play("bootstrap", node.document))
        is_ready(bed, machine)
        assert updating.running_version(machine, updating.KUBELET) == version
    with act(POD):
        pod_works(bed, machine, "line")
    with act(AGAIN):
        unchanged(node.play("bootstrap", node.document), machine)
    with act(UNINSTALL):
        uninstall(node, node.document)
        assert differences(before, photographed(machine)) == []
