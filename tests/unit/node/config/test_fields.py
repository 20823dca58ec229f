# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each field: what it takes and what it refuses."""
# ruff: noqa: E501 - a table reads best with one case a line

from __future__ import annotations

from base64 import b64encode
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.setting import table
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.unit.node.config.test_defaults import attribute
from tests.unit.node.config.test_samples import CA_DATA, CLUSTER, PEM, SHA, TENANT, at, joining, problems_of

PATHS = [row.path for row in table(NodeConfig)]


def encoded(text: str, characters: str) -> str:
    return b64encode(text.encode(characters)).decode()


ACCEPTED: list[tuple[str, object, str, object]] = [
    ("continuousMonitoring", "false", "continuous_monitoring", False),
    ("azure.tenantId", TENANT.upper(), "azure.tenant_id", TENANT),
    ("azure.cloud", "azureusgovernment", "azure.sign_in", "https://login.microsoftonline.us"),
    ("azure.cloud", "AzureChinaCloud", "azure.resource_manager", "https://management.chinacloudapi.cn"),
    (
        "azure.resourceManagerEndpoint",
        "https://arm.test:8443/",
        "azure.resource_manager",
        "https://arm.test:8443",
    ),
    ("azure.targetCluster.location", "West Europe", "azure.target_cluster.location", "westeurope"),
    ("azure.targetAgentPoolName", "edge1", "azure.target_agent_pool_name", "edge1"),
    ("azure.arc.machineName", "edge_1.lab", "azure.arc.machine_name", "edge_1.lab"),
    ("azure.arc.tags", {"site": "lab"}, "azure.arc.tags", {"site": "lab"}),
    ("node.maxPods", "50", "node.max_pods", 50),
    ("node.kubelet.dnsServiceIP", "fd00::a", "cluster_dns", ip_address("fd00::a")),
    ("network.serviceCIDR", "10.96.0.0/12", "cluster_dns", ip_address("10.96.0.10")),
    ("node.kubelet.serverURL", "https://[fd00::1]:6443/", "api_server.url", "https://[fd00::1]:6443"),
    (
        "node.kubelet.nodeIP",
        "10.1.0.4, fd00::4",
        "node.kubelet.node_ip",
        (ip_address("10.1.0.4"), ip_address("fd00::4")),
    ),
    (
        "node.kubelet.kubeReserved",
        {"cpu": "100m", "memory": "1Gi"},
        "node.kubelet.kube_reserved.__len__",
        None,
    ),
    (
        "node.kubelet.evictionHard",
        {"pid.available": 1000},
        "node.kubelet.eviction_hard",
        {"pid.available": "1000"},
    ),
    ("kubernetes.version", "v1.34.4", "kubernetes.version.minor", 34),
    ("containerd.metricsAddress", "[::1]:10257", "containerd.metrics_address", "[::1]:10257"),
    ("paths.dataDir", "//data//flex/", "paths.data_dir", "/data/flex"),
    ("paths.dataDir", "/var/lib/edge/flexnode", "paths.data_dir", "/var/lib/edge/flexnode"),
    ("paths.logDir", "/var/log/edge", "log_file", "/var/log/edge/agent.log"),
    ("paths.kubernetes.kubeletDir", "/mnt/disk-1/pods", "paths.kubernetes.kubelet_dir", "/mnt/disk-1/pods"),
    ("agent.logDir", "/data/log", "log_file", "/data/log/agent.log"),
    ("agent.logFile", "/data/log/x.log", "paths.log_dir", "/data/log"),
    ("agent.nodeName", "edge-1.lab", "node_name", "edge-1.lab"),
    ("proxy.no", "a.test, 10.0.0.0/8", "proxy.no", ("a.test", "10.0.0.0/8")),
    ("proxy.noProxy", ["a.test"], "proxy.no", ("a.test",)),
    ("proxy.false", ["a.test"], "proxy.no", ("a.test",)),
    ("mirror.url", "https://mirror.lan/k8s/", "mirror.url", "https://mirror.lan/k8s"),
    ("mirror.url", "https://mirror.lan./k8s/", "mirror.url", "https://mirror.lan./k8s"),
    ("mirror.url", "https://büro.lan/k8s/", "mirror.url", "https://büro.lan/k8s"),
    ("mirror.url", "http://127.0.0.1:8080/k8s/", "mirror.url", "http://127.0.0.1:8080/k8s"),
    ("mirror.url", "http://localhost:8080", "mirror.url", "http://localhost:8080"),
    ("mirror.caCert", PEM, "mirror.ca_cert.pem", PEM),
    ("mirror.caCert", f"# Autorité\n{PEM}# 2\n\n{PEM}", "mirror.ca_cert.pem", PEM * 2),
    ("mirror.caCert", "\ufeff" + PEM.replace("\n", "\r\n"), "mirror.ca_cert.pem", PEM),
    ("node.kubelet.caCertData", encoded(f"# Autorité\n{PEM}", "utf-8"), "api_server.ca.pem", PEM),
    ("node.kubelet.caCertData", encoded(f"# Autorité\n{PEM}", "latin-1"), "api_server.ca.pem", PEM),
    ("node.kubelet.caCertData", encoded(PEM, "utf-8-sig"), "api_server.ca.pem", PEM),
    (
        "mirror.catalogue",
        {"runc": {"1.4.3": {"amd64": SHA}}},
        "mirror.catalogue",
        {"runc": {"1.4.3": {"amd64": SHA}}},
    ),
    ("drift.mode", False, "drift.mode", "off"),
    ("hooks.after", ["/srv/site/after.yml"], "hooks.after", ("/srv/site/after.yml",)),
    (
        "kubelet.configOverrides",
        {"serializeImagePulls": False},
        "kubelet.config_overrides",
        {"serializeImagePulls": False},
    ),
    ("azure.arc.autoRegister", False, "azure.arc.enabled", False),
    ("node.labels", None, "node.labels", {}),
]


@pytest.mark.parametrize(
    ("path", "raw", "name", "expected"), ACCEPTED, ids=[f"{c[0]}={c[1]}"[:60] for c in ACCEPTED]
)
def test_accepted(path: str, raw: object, name: str, expected: object) -> None:
    found = attribute(parse(joining(at(path, raw))), name)
    assert expected is None or found == expected


REFUSED: list[tuple[str, object]] = [
    ("continuousMonitoring", "yes"),
    ("continuousMonitoring", 1),
    ("azure.subscriptionId", "not-a-guid"),
    ("azure.cloud", "AzureGermanCloud"),
    ("azure.resourceManagerEndpoint", "http://arm.test"),
    ("azure.targetCluster.resourceId", CLUSTER.replace("managedClusters", "agentPools")),
    ("azure.targetCluster.resourceId", CLUSTER + "/agentPools/x"),
    ("azure.targetCluster.location", "west-europe!"),
    ("azure.targetAgentPoolName", "Edge"),
    ("azure.targetAgentPoolName", "edge-pool"),
    ("azure.targetAgentPoolName", "a" * 13),
    ("azure.machines.apiVersion", "newest"),
    ("azure.machines.apply", "later"),
    ("azure.managedIdentity.clientId", "mine"),
    ("azure.arc.machineName", "a" * 55),
    ("azure.arc.resourceGroup", "ends-with-dot."),
    ("azure.arc.tags", {"a<b": "c"}),
    ("azure.arc.tags", ["a"]),
    ("azure.bootstrapToken.token", "ABCDEF.0123456789abcdef"),
    ("azure.vpn.p2sGatewayCIDR", "192.168.100.1/24"),
    ("azure.vpn.p2sGatewayCIDR", "192.168.100.0"),
    ("azure.vpn.gatewaySKU", "Basic"),
    ("kubernetesAuth.method", "password"),
    ("kubernetesAuth.profile", "both"),
    ("azureAuth.method", "bootstrapToken"),
    ("kubernetes.version", "1.34"),
    ("kubernetes.version", 1.34),
    ("kubernetes.version", "1.34.4-rc.1"),
    ("kubernetes.urlTemplate", "ftp://x.test/v{version}"),
    ("kubernetes.urlTemplate", "https://x.test/{name}"),
    ("kubernetes.urlTemplate", "https://x.test/%s/%s/%s"),
    ("kubernetes.urlTemplate", "https://user:pw@x.test/v%s"),
    ("kubernetes.sha256", "abc"),
    ("kubernetes.sha256", {"kubelet": SHA, "kubeproxy": SHA}),
    ("containerd.version", "1.6.36"),
    ("containerd.version", "3.0.0"),
    ("containerd.pauseImage", "no spaces allowed"),
    ("containerd.metricsAddress", "localhost:10257"),
    ("containerd.metricsAddress", "127.0.0.1:70000"),
    ("containerd.metricsAddress", "::1:10257"),
    ("containerd.metricsAddress", "[127.0.0.1]:10257"),
    ("containerd.sha256", {"s390x": SHA}),
    ("runc.url", "runc.amd64"),
    ("cni.mode", "calico"),
    ("network.serviceCIDR", "10.0.0.0/33"),
    ("network.vnetCIDRs", "10.0.0.0/8"),
    ("node.maxPods", 0),
    ("node.maxPods", 501),
    ("node.maxPods", True),
    ("node.kubelet.dnsServiceIP", "cluster-dns-service-ip"),
    ("node.kubelet.serverURL", "http://plant"),
    ("node.kubelet.serverURL", "https://plant/path"),
    ("node.kubelet.serverURL", "https://user@plant"),
    ("node.kubelet.serverURL", "https://plant:99999"),
    ("node.kubelet.serverURL", "https://"),
    ("node.kubelet.serverURL", "https://.plant.example:443"),
    ("node.kubelet.serverURL", "https://plant..example"),
    ("node.kubelet.serverURL", f"https://{'a' * 64}.example"),
    ("node.kubelet.serverURL", f"https://{'abcdefg.' * 32}example"),
    ("node.kubelet.serverURL", f"https://{'ä' * 60}.example"),
    ("mirror.url", "https://.mirror.lan/k8s"),
    ("proxy.https", "http://proxy..lan:3128"),
    ("node.kubelet.caCertData", "not base64!"),
    ("node.kubelet.caCertData", PEM),
    ("node.kubelet.caCertData", CA_DATA[:-8]),
    ("node.kubelet.clientCAFile", "relative.crt"),
    ("node.kubelet.kubeReserved", {"gpu": "1"}),
    ("node.kubelet.kubeReserved", {"cpu": "lots"}),
    ("node.kubelet.evictionHard", {"memory.available": "110%"}),
    ("node.kubelet.nodeIP", "10.0.0.1,10.0.0.2"),
    ("node.kubelet.verbosity", 11),
    ("paths.dataDir", "/"),
    ("paths.dataDir", "/a/../b"),
    ("paths.cni.binDir", "opt/cni"),
    ("paths.cni.binDir", "/opt/cni plugins/bin"),
    ("paths.dataDir", "/srv/100%"),
    ("paths.dataDir", "/srv/$HOME"),
    ("paths.dataDir", '/srv/"flex"'),
    ("paths.dataDir", "/srv/fl;ex"),
    ("paths.dataDir", "/srv/flex\\"),
    ("paths.kubernetes.kubeletDir", "/srv/küche"),
    ("paths.logDir", "/var/log"),
    ("paths.logDir", "/var/log/two words"),
    ("agent.logLevel", "loud"),
    ("agent.nodeName", "Edge_1"),
    ("agent.nodeName", "a" * 254),
    ("proxy.https", "socks5://proxy"),
    ("proxy.http", "https://user:s3cret@proxy"),
    ("proxy.https", "https://user:s3cret@proxy"),
    ("mirror.url", "https://user:pw@mirror"),
    ("mirror.url", "http://mirror.lan/k8s/"),
    ("mirror.url", "http://127.0.0.1.evil.example"),
    ("kubernetes.urlTemplate", "http://mirror.lan/v{version}"),
    ("runc.url", "http://mirror.lan/runc"),
    ("mirror.url", "https://mirror?sig=1"),
    ("mirror.caCert", "-----BEGIN PRIVATE KEY-----"),
    ("mirror.catalogue", {"docker": {}}),
    ("mirror.catalogue", {"runc": {"1.4.3": {"amd64": "short"}}}),
    ("registryMirrors", {"docker.io": {"endpoints": ["http://plain"]}}),
    ("registryMirrors", {"docker.io": {"endpoints": []}}),
    ("registryMirrors", {"docker.io": {"endpoints": ["https://m"], "caCert": "x"}}),
    ("drift.mode", "fix"),
    ("drift.interval", 5),
    ("upgrade.drain", "sometimes"),
    ("upgrade.gateSeconds", 1),
    ("upgrade.maxUnavailable", 0),
    ("pull.repository", "file:///srv/repo"),
    ("pull.repository", "ssh://git:s3cret@git.example/repo.git"),
    ("pull.repository", "https://git.example/repo.git?private_token=s3cret"),
    ("pull.ref", "--upload-pack=evil"),
    ("hooks.before", ["before.yml"]),
    ("hooks.before", ["/srv/before.sh"]),
    ("kubelet.configOverrides", ["a"]),
]


@pytest.mark.parametrize(("path", "raw"), REFUSED, ids=[f"{path}={raw}"[:60] for path, raw in REFUSED])
def test_refused_with_its_path_and_what_is_accepted(path: str, raw: object) -> None:
    found = problems_of(joining(at(path, raw)))
    assert found, path
    assert all(name.startswith(path) for name in found), found
    assert all(problem.accepted for problem in found.values())


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ("not base64!", "it is not base64"),
        (encoded("né", "utf-8"), "it has no complete -----BEGIN CERTIFICATE----- block"),
        (encoded(PEM.replace("MA", "Mé"), "utf-8"), "it has no complete -----BEGIN CERTIFICATE----- block"),
    ],
)
def test_what_is_wrong_with_the_cluster_ca(raw: str, hint: str) -> None:
    assert problems_of(joining(at("node.kubelet.caCertData", raw)))["node.kubelet.caCertData"].hint == hint


def test_a_proxy_over_tls_is_refused_with_the_reason_and_without_its_password() -> None:
    problem = problems_of(joining(at("proxy.https", "https://user:s3cret@proxy")))["proxy.https"]
    assert "spoken to over http://" in problem.hint
    assert "s3cret" not in str(problem)


@pytest.mark.parametrize("path", [path for path in PATHS if "." in path])
def test_a_section_of_the_wrong_type_is_one_problem_without_its_value(path: str) -> None:
    section = path.rpartition(".")[0]
    # The rules of the section stay silent: what they read is wrong already.
    found = problems_of(joining(at(section, "hunter2-in-the-wrong-place")))
    assert found[section].accepted == "a mapping"
    assert "hunter2" not in str(found[section])


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("node.maxpods", "node.maxPods"),
        ("node.lables", "node.labels"),
        ("maxPods", "node.maxPods"),
        ("azure.servicePrincipal.clientSecrett", "azure.servicePrincipal.clientSecret"),
        ("azure.arc.autoRegistre", "azure.arc.autoRegister"),
        ("kubernets", "kubernetes"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(path: str, nearest: str) -> None:
    problem = problems_of(joining(at(path, "misspelt-s3cret")))[path]
    assert problem.value == "unknown key"
    assert nearest in problem.hint
    assert "misspelt-s3cret" not in str(problem)


def test_aliases_may_agree_but_not_contradict() -> None:
    both = {"azure": {"arc": {"enabled": True, "autoRegister": False}}}
    document = joining()
    document["azure"].update(both["azure"])
    assert "azure.arc.enabled" in problems_of(document)
    document["azure"]["arc"]["autoRegister"] = True
    document["azure"] |= {
        "tenantId": TENANT,
        "targetCluster": {"resourceId": CLUSTER, "location": "westeurope"},
    }
    assert parse(document).azure.arc.enabled


def test_a_bare_no_in_yaml_is_understood() -> None:
    assert parse(joining({"proxy": {False: ["a.test"]}})).proxy.no == ("a.test",)


@given(
    st.lists(st.sampled_from(REFUSED), min_size=2, max_size=8, unique_by=lambda case: case[0].split(".")[0])
)
def test_all_problems_come_in_one_pass(cases: list[tuple[str, object]]) -> None:
    document = joining(*(at(path, raw) for path, raw in cases))
    found = problems_of(document)
    for path, _raw in cases:
        assert any(name.startswith(path) for name in found), (path, found)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([part for path in PATHS for part in path.split(".")]) | st.text(), inner)))  # fmt: skip
def test_any_document_is_accepted_or_refused_never_a_crash(raw: object) -> None:
    document = raw if isinstance(raw, dict) else {"node": raw}
    with pytest.raises(ConfigInvalid) as caught:
        parse(document)
    assert caught.value.problems


def test_every_field_describes_itself() -> None:
    for row in table(NodeConfig):
        assert row.setting.about.endswith("."), row.path
        assert row.setting.kind.accepts, row.path
    assert len(PATHS) == len(set(PATHS))
