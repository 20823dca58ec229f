# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `preflight`: nodes of one name."""

from __future__ import annotations

import re

import pytest

from tests.unit.playbooks.stage import CLUSTER, Stage

# A host name, which the check of the inventory does not know: all of them would be Node edge-1.
HOST_NAME = """
target = json.loads(given["document"])["azure"]["targetCluster"]["resourceId"]
known = {"name": given["name"], "node_name": "edge-1", "cluster_id": target.lower()}
answer = {"ok": True, "summary": "ok", "table": [given["name"] + "  ok"], **known}
"""


@pytest.mark.parametrize(
    ("clusters", "failing"),
    [
        pytest.param({"a": "oslo", "b": "bergen"}, [], id="two-clusters-may-have-nodes-of-one-name"),
        pytest.param({"a": "oslo", "b": "Oslo", "c": "bergen"}, ["a", "b"], id="one-cluster-may-not"),
    ],
)
def test_preflight_tells_nodes_apart_by_name_and_cluster(
    stage: Stage, clusters: dict[str, str], failing: list[str]
) -> None:
    stage.answer_by_code("flexnode_preflight_info", HOST_NAME)
    targets = {host: {"resourceId": CLUSTER.replace("plant", name)} for host, name in clusters.items()}
    stage.play(
        "aks.flexnode.preflight",
        {host: {"flexnode_config": {"azure": {"targetCluster": one}}} for host, one in targets.items()},
        flexnode_config_source="inline",
    )
    same = re.findall(r"fatal: \[(\w)\].*another machine would be Node edge-1 too", stage.output)
    assert (sorted(same), stage.status != 0) == (failing, bool(failing)), stage.output
    assert stage.output.count("more than one machine would be Node edge-1") == bool(failing)
