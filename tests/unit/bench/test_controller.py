# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet without machines is one that a user could have."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from tests.bench import controller


def test_every_host_has_a_configuration_that_is_accepted() -> None:
    inventory = controller.fleet(controller.HOSTS)["aks_flexnode"]
    hosts = inventory["hosts"]
    assert inventory["vars"]["flexnode_config_source"] == "inline"
    assert len(hosts) == controller.HOSTS
    documents = [
        merge(inventory["vars"]["flexnode_config"], host["flexnode_host_config"]) for host in hosts.values()
    ]
    assert len({document["cni"]["podCIDR"] for document in documents}) == controller.HOSTS
    for document in documents[::50]:
        parse(document)


def test_the_controllers_plays_work(tmp_path: Path) -> None:
    assert controller.seconds(tmp_path, count=3) > 0
