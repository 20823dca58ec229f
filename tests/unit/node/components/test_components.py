# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What components render: golden files for every text, and which resources there are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.every import (
    COMPONENTS,
    PREPARED,
    resources_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.kubelet import (
    kube_reserved,
    kubelet_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.labels import (
    cluster_label,
    node_labels,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import check_available
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.labels import label_value
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import RESOURCE_GROUP
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import with_parents
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NotAvailable
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import Facts
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import ABSENT
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import CONTAINERD, KUBELET
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource, key_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kinds import KINDS
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from scripts.docs.machine import FACTS
from tests.unit.node.config.test_samples import PEM, PREPARE, TOKEN, joining
from tests.unit.node.conftest import Golden

PROXY = {"proxy": {"http": "http://u:s3cret%40@proxy.example:3128", "https": "http://proxy.example:3128"}}
MIRRORS = {
    "registryMirrors": {
        "docker.io": {"endpoints": ["https://mirror.example/hub", "https://second.example"], "caCert": PEM},
        "mcr.microsoft.com": {"endpoints": ["https://10.0.0.5:5000"]},
        "_default": {"endpoints": ["https://any.example"]},
    }
}


FOLLOWED = {"continuousMonitoring": True}


def configured(*changes: dict[str, Any]) -> NodeConfig:
    return parse(joining(*changes), pollable=True)


def files_of(component: str, config: NodeConfig, facts: Facts = FACTS) -> dict[str, File]:
    return {item.path: item for item in resources_of([component], config, facts) if isinstance(item, File)}


# -- golden files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.7.32", "2.0.5", "2.2.9"])
@pytest.mark.parametrize("may_lower", [True, False])
def test_containerd_config(golden: Golden, version: str, may_lower: bool) -> None:
    config = configured({"containerd": {"version": version, "sha256": "ab" * 32}})
    facts = replace(FACTS, may_lower_oom_score=may_lower)
    suffix = "" if may_lower else "-in-a-container"
    file = files_of("runtime", config, facts)["/etc/containerd/config.toml"]
    golden(f"containerd-{version}{suffix}.toml", file.content)
    assert file.restarts == (CONTAINERD,)


@pytest.mark.parametrize("version", ["1.31.14", "1.34.4", "1.35.4", "1.36.3"])
@pytest.mark.parametrize("cgroup", ["v1", "v2"])
def test_kubelet_config(golden: Golden, version: str, cgroup: str) -> None:
    digest = dict.fromkeys(("kubelet", "kubectl", "kubeadm"), "ab" * 32)
    config = configured({"kubernetes": {"version": version, "sha256": digest}})
    facts = replace(FACTS, cgroup_v2=cgroup == "v2")
    golden(f"kubelet-{version}-cgroup-{cgroup}.json", kubelet_config(config, facts))


def test_kubelet_config_with_everything_said(golden: Golden) -> None:
    config = configured(
        {"node": {"maxPods": 50, "taints": ["dedicated=edge:NoSchedule", "gpu:NoExecute"]}},
        {
            "node": {
                "kubelet": {"dnsServiceIP": "10.0.0.99", "verbosity": 4, "clientCAFile": "/etc/own-ca.crt"}
            }
        },
        {"node": {"kubelet": {"kubeReserved": {"memory": "1Gi", "cpu": "100m"}}}},
        {"kubelet": {"configOverrides": {"maxParallelImagePulls": 3, "logging": {"format": "json"}}}},
    )
    facts = replace(FACTS, resolv_conf="/run/systemd/resolve/resolv.conf")
    golden("kubelet-everything.json", kubelet_config(config, facts))


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_artifacts_and_links(golden: Golden, arch: Any) -> None:
    config = configured({"containerd": {"version": "2.2.1"}, "cni": {"version": "1.9.1"}})
    lines = []
    for item in resources_of(PREPARED, config, replace(FACTS, arch=arch)):
        if isinstance(item, Tree):
            members = " ".join(f"{member or '(itself)'}>{name}" for member, name in item.members)
            lines.append(f"{item.path}\n  {item.artifact.url}\n  {item.artifact.sha256}\n  {members}")
        elif isinstance(item, Link):
            lines.append(f"{item.path} -> {item.target} {' '.join(item.restarts)}".rstrip())
    golden(f"artifacts-{arch}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("name", "component", "path", "changes"),
    [
        ("containerd.service", "runtime", "/etc/systemd/system/containerd.service", []),
        (
            "containerd-proxy.conf",
            "runtime",
            "/etc/systemd/system/containerd.service.d/10-proxy.conf",
            [PROXY],
        ),
        ("hosts-docker.io.toml", "runtime", "/etc/containerd/certs.d/docker.io/hosts.toml", [MIRRORS]),
        ("hosts-mcr.toml", "runtime", "/etc/containerd/certs.d/mcr.microsoft.com/hosts.toml", [MIRRORS]),
        ("hosts-default.toml", "runtime", "/etc/containerd/certs.d/_default/hosts.toml", [MIRRORS]),
        ("kubelet.service", "kubelet", "/etc/systemd/system/kubelet.service", []),
        (
            "kubelet-10-containerd.conf",
            "kubelet",
            "/etc/systemd/system/kubelet.service.d/10-containerd.conf",
            [],
        ),
        ("kubelet-10-kubeadm.conf", "kubelet", "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", []),
        ("default-kubelet", "kubelet", "/etc/default/kubelet", []),
        (
            "default-kubelet-everything",
            "kubelet",
            "/etc/default/kubelet",
            [
                {"node": {"labels": {"site": "lab-1", "a/b": ""}, "kubelet": {"nodeIP": "10.1.2.3,fd00::3"}}},
                {
                    "agent": {"nodeName": "other-name"},
                    "paths": {"kubernetes": {"kubeletDir": "/data/kubelet"}},
                },
                {"azure": {"targetCluster": {"nodeResourceGroup": "MC_rg_plant_westeurope"}}},
            ],
        ),
        ("bootstrap-kubeconfig.json", "kubelet", "/var/lib/kubelet/bootstrap-kubeconfig", []),
        (
            "bridge-v4.conflist",
            "cni",
            "/etc/cni/net.d/10-flexnode.conflist",
            [{"cni": {"mode": "bridge", "podCIDR": "10.244.7.0/24"}}],
        ),
        (
            "bridge-v6.conflist",
            "cni",
            "/etc/cni/net.d/10-flexnode.conflist",
            [{"cni": {"mode": "bridge", "podCIDR": "fd00:7::/64"}}],
        ),
        ("poll.timer", "agent", "/etc/systemd/system/aks-flex-node-poll.timer", [FOLLOWED]),
        ("poll.service", "agent", "/etc/systemd/system/aks-flex-node-poll.service", [FOLLOWED]),
        ("apply.service", "agent", "/etc/systemd/system/aks-flex-node-apply.service", [FOLLOWED]),
        ("modules-load.conf", "system_config", "/etc/modules-load.d/aks-flex-node.conf", []),
        ("sysctl.conf", "system_config", "/etc/sysctl.d/99-zz-aks-flex-node.conf", []),
    ],
)
def test_rendered_files(
    golden: Golden, name: str, component: str, path: str, changes: list[dict[str, Any]]
) -> None:
    golden(name, files_of(component, configured(*changes))[path].content)


@pytest.mark.parametrize(("drain", "gate"), [(1, 10), (300, 120), (86400, 3600)])
def test_systemd_does_not_end_a_run_before_its_own_limits_do(drain: int, gate: int) -> None:
    """One that is killed while it drains begins again, and so on for ever."""
    upgrade = {"upgrade": {"drainSeconds": drain, "gateSeconds": gate}}
    unit = files_of("agent", configured(FOLLOWED, upgrade))["/etc/systemd/system/aks-flex-node-apply.service"]
    limit = re.search(r"^TimeoutStartSec=(\d+)$", unit.content, re.MULTILINE)
    assert limit
    waits = drain + 5 * gate  # tunnel, units, Ready, node-problem-detector; Ready again after a rollback
    assert int(limit[1]) - waits >= 3600, "downloads take their time, too"


def test_the_node_of_a_pool_has_the_labels_by_which_aks_finds_it() -> None:
    assert not any("agentpool" in key for key in node_labels(configured()))
    labels = node_labels(configured({"azure": {"targetAgentPoolName": "edge"}}))
    assert {key: value for key, value in labels.items() if key.startswith("kubernetes.azure.com/")} == {
        "kubernetes.azure.com/managed": "false",
        "kubernetes.azure.com/agentpool": "edge",
        "kubernetes.azure.com/mode": "user",
        "kubernetes.azure.com/nodepool-type": "FlexNodes",
    }


@pytest.mark.parametrize(
    ("group", "label"),
    [
        ("MC_rg_plant_westeurope", "MC_rg_plant_westeurope"),
        ("MC_rg(old)_plant_westeurope", "MC_rg-old-_plant_westeurope"),
        ("a" * 63, "a" * 63),
        ("a" * 80, "a" * 63),
        ("MC_rg_(plant)", "MC_rg_-plant-z"),
        ("rg_", "rg_z"),
        (f"{'a' * 61}_", f"{'a' * 61}_z"),
        (f"{'a' * 62}_", f"{'a' * 62}z"),
        (f"{'a' * 62}.b", f"{'a' * 62}z"),
        # AKS has no rule for these.
        ("Werk_Köln", "Werk_K-ln"),
        ("(old)", "zold-z"),
        ("_", "zz"),
    ],
)
def test_the_label_of_the_cluster_is_written_as_aks_does(group: str, label: str) -> None:
    config = configured({"azure": {"targetCluster": {"nodeResourceGroup": group}}})
    assert node_labels(config)["kubernetes.azure.com/cluster"] == label
    registration = files_of("kubelet", config)["/etc/default/kubelet-registration"].content
    assert f"kubernetes.azure.com/cluster={label}," in registration


@given(st.from_regex(RESOURCE_GROUP, fullmatch=True))
def test_every_resource_group_gives_a_label_that_kubernetes_accepts(group: str) -> None:
    label = cluster_label(group)
    assert label
    assert label_value.read(label) == label


# -- which resources there are -----------------------------------------------------------------------------


def everything(*changes: dict[str, Any], facts: Facts = FACTS) -> list[Resource]:
    return resources_of(COMPONENTS, configured(*changes), facts)


def test_each_resource_once_and_the_same_each_time() -> None:
    keys = [key_of(item) for item in everything()]
    assert len(set(keys)) == len(keys)
    assert keys == [key_of(item) for item in everything()]
    assert {key.partition(":")[0] for key in keys} <= set(KINDS)


def test_components_come_in_their_order_however_they_are_asked_for() -> None:
    config = configured()
    one, other = (resources_of(names, config, FACTS) for names in (["kubelet", "cni"], ["cni", "kubelet"]))
    assert one == other
    assert next(iter(COMPONENTS)) == "agent"
    assert list(COMPONENTS)[-1] == "services"


def test_an_image_holds_nothing_of_a_cluster() -> None:
    prepared = resources_of(PREPARED, parse(PREPARE, purpose="prepare"), FACTS)
    assert not any(isinstance(item, Unit) for item in prepared)
    assert not any("multi-user.target.wants" in item.name for item in prepared)
    assert TOKEN not in repr(prepared)


def test_secrets_lie_in_root_only_files_that_are_never_shown() -> None:
    secret = [
        item
        for item in everything(PROXY)
        if isinstance(item, File) and (TOKEN in item.content or "s3cret" in item.content)
    ]
    assert len(secret) == 2
    for item in secret:
        assert (item.mode, item.secret) == (0o600, True)
        shown = repr(item.difference((ABSENT, None)))
        assert TOKEN not in shown
        assert "s3cret" not in shown


def test_what_asks_for_a_restart() -> None:
    asked = {item.name: item.restarts for item in everything(PROXY, MIRRORS) if item.restarts}
    assert asked["/usr/local/bin/kubelet"] == (KUBELET,)
    assert asked["/usr/local/bin/containerd"] == (CONTAINERD,)
    assert asked["/etc/default/kubeletconfig.json"] == (KUBELET,)
    # Read at every pull, by every new pod or only at the first start: no reason to disturb what runs.
    for quiet in (
        "/usr/local/sbin/runc",
        "/usr/local/bin/containerd-shim-runc-v2",
        "/etc/containerd/certs.d/docker.io/hosts.toml",
    ):
        assert quiet not in asked
    # A new token matters to a kubelet that has no certificate yet, and to no other.
    assert asked["/var/lib/kubelet/bootstrap-kubeconfig"] == (KUBELET,)
    joined = {item.name: item.restarts for item in everything(PROXY, facts=replace(FACTS, joined=True))}
    assert joined["/var/lib/kubelet/bootstrap-kubeconfig"] == ()


def test_what_looks_after_a_node_is_there_if_asked_for_and_comes_last() -> None:
    timer = "aks-flex-node-poll.timer"
    assert not any("aks-flex-node-" in item.name and "/systemd/" in item.name for item in everything())
    items = everything(FOLLOWED)
    assert items[-1] == Unit(timer, last=True)
    assert items[-2] == Link(
        f"/etc/systemd/system/timers.target.wants/{timer}", f"/etc/systemd/system/{timer}"
    )
    assert [item.name for item in items if isinstance(item, Unit) and item.last] == [timer]


def test_moved_paths_are_honoured_everywhere() -> None:
    config_dir, data = "/srv/k8s", "/srv/data"
    paths = {
        "kubernetes": {
            "configDir": config_dir,
            "certsDir": f"{data}/certs",
            "manifestsDir": f"{config_dir}/manifests",
            "volumePluginDir": f"{config_dir}/volumes",
            "kubeletDir": data,  # above certsDir, but listed after it
        },
        "cni": {"binDir": "/srv/cni/bin", "confDir": "/srv/cni/conf", "libDir": "/srv/cni/lib"},
    }
    items = with_parents(everything({"paths": paths, "cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"}}))
    text = " ".join(f"{item.name} {getattr(item, 'content', '')}" for item in items)
    for default in ("/etc/kubernetes", "/var/lib/kubelet", "/opt/cni/bin", "/etc/cni/net.d", "/var/lib/cni"):
        assert default not in text
    names = [item.name for item in items if isinstance(item, Directory)]
    assert names.index(data) < names.index(f"{data}/certs")


def test_swap_units_are_masked() -> None:
    facts = replace(FACTS, swap_units=("dev-sda2.swap", "zramswap.service"))
    links = {item.name: item for item in resources_of(["system_config"], configured(), facts)}
    for unit in facts.swap_units:
        assert links[f"/etc/systemd/system/{unit}"] == Link(f"/etc/systemd/system/{unit}", "/dev/null")


def test_a_starting_kubelet_has_the_kernel_settings_whatever_file_sorts_last_at_boot() -> None:
    files = {item.name: item for item in everything() if isinstance(item, File)}
    (settings,) = (path for path in files if path.startswith("/etc/sysctl.d/"))
    before, _start, _after = files["/etc/systemd/system/kubelet.service"].content.partition("\nExecStart=")
    assert f"\nExecStartPre=-/usr/lib/systemd/systemd-sysctl {settings}" in before


@pytest.mark.parametrize(("version", "imports"), [("1.7.32", False), ("2.0.5", True)])
def test_drop_ins_of_others_only_where_they_merge(version: str, imports: bool) -> None:
    config = configured({"containerd": {"version": version, "sha256": "ab" * 32}})
    names = [item.name for item in resources_of(["runtime"], config, FACTS)]
    assert ("/etc/containerd/conf.d" in names) == imports


@pytest.mark.parametrize(
    ("cpus", "gibibytes", "pods", "reserved"),
    [
        (1, 2, 110, {"cpu": "60m", "memory": "512Mi"}),
        (2, 4, 30, {"cpu": "100m", "memory": "650Mi"}),
        (3, 8, 110, {"cpu": "100m", "memory": "2048Mi"}),
        (4, 16, 110, {"cpu": "140m", "memory": "2250Mi"}),
        (128, 512, 250, {"cpu": "740m", "memory": "5050Mi"}),
        (0, 1, 10, {"cpu": "60m", "memory": "250Mi"}),
    ],
)
def test_what_is_reserved_as_aks_does(cpus: int, gibibytes: int, pods: int, reserved: dict[str, str]) -> None:
    facts = replace(FACTS, cpus=cpus, memory=gibibytes << 30)
    assert kube_reserved(configured({"node": {"maxPods": pods}}), facts) == reserved


@pytest.mark.parametrize(
    ("network", "dns"),
    [
        ({}, "10.0.0.10"),
        ({"serviceCIDR": "172.16.0.0/16"}, "172.16.0.10"),
        ({"serviceCIDR": "fd00::/108"}, "fd00::a"),
    ],
)
def test_the_cluster_dns_is_known_without_being_said(network: dict[str, str], dns: str) -> None:
    document = json.loads(kubelet_config(configured({"network": network}), FACTS))
    assert document["clusterDNS"] == [dns]


def test_monitoring_is_there_for_an_address_that_can_be_asked_again() -> None:
    check_available(configured(FOLLOWED), pollable=True)
    with pytest.raises(NotAvailable) as caught:
        check_available(configured(FOLLOWED))
    assert caught.value.where == "continuousMonitoring"
    assert "--durable" in caught.value.fix


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hooks": {"before": ["/etc/x.yml"]}}, "hooks.before"),
        ({"paths": {"configDir": "/etc/flex"}}, "paths.configDir"),
    ],
)
def test_what_can_not_be_done_yet_is_refused_never_ignored(change: dict[str, Any], field: str) -> None:
    check_available(configured())
    with pytest.raises(NotAvailable) as caught:
        check_available(configured(change))
    assert caught.value.where == field
