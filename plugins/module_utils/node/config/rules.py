# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rules between fields. Each is a small pure function, and declares which fields it reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from posixpath import dirname

from ..dataclass import dataclass
from ..errors import NOT_SET, Problem, shown
from .auth import azure_method, contradictions, kubelet_credential, missing_credentials
from .model import NodeConfig, UpgradePolicy
from .pool import MACHINE_NAME, POOL_MACHINE_PATTERN
from .sections.azure import Machines
from .sections.node import DEFAULT_LOG_DIR
from .sections.pull import Pull
from .types.addresses import Network
from .types.crontab import crontab_problem
from .types.setting import Purpose
from .vpn_rules import profile_is_usable, vpn_has_a_profile

ROLLOUT_SETTINGS = {
    "rings": "rings",
    "ringLabel": "ring_label",
    "soakSeconds": "soak_seconds",
    "maxRolledBack": "max_rolled_back",
    "waitSeconds": "wait_seconds",
}
Check = Callable[[NodeConfig], Iterator[Problem]]


@dataclass(frozen=True)
class Rule:
    """A check, and the parts of the document it reads: it is skipped while one of those is wrong."""

    check: Check
    reads: tuple[str, ...]
    purposes: tuple[Purpose, ...] = ("join", "prepare")


def one_client_secret(config: NodeConfig) -> Iterator[Problem]:
    """A service principal has exactly one secret, secret file or certificate file."""
    principal = config.azure.service_principal
    if principal is None:
        return
    credentials = (principal.client_secret, principal.client_secret_file, principal.client_certificate_file)
    count = sum(credential is not None for credential in credentials)
    if count != 1:
        yield Problem(
            "azure.servicePrincipal",
            "without a credential" if count == 0 else f"set with {count} credentials",
            "exactly one of clientSecret, clientSecretFile and clientCertificateFile",
        )


def tenant_of_identity(config: NodeConfig) -> Iterator[Problem]:
    """An Azure identity needs a tenant; a service principal names its own."""
    azure, method = config.azure, azure_method(config)
    if method not in (None, "servicePrincipal") and not azure.tenant_id and not azure.service_principal:
        yield Problem("azure.tenantId", NOT_SET, "a GUID", f"the Azure identity ({method}) needs it")


def arc_has_a_place(config: NodeConfig) -> Iterator[Problem]:
    """An Arc machine is created in a region."""
    azure = config.azure
    if azure.arc.enabled and not (azure.arc.location or azure.target_cluster.location):
        yield Problem("azure.targetCluster.location", NOT_SET, "an Azure region", "azure.arc needs it")


def few_tags(config: NodeConfig) -> Iterator[Problem]:
    """Azure takes 50 tags."""
    if len(config.azure.arc.tags) > 50:
        yield Problem("azure.arc.tags", f"a mapping of {len(config.azure.arc.tags)}", "at most 50 tags")


def thresholds_in_order(config: NodeConfig) -> Iterator[Problem]:
    """The low threshold of image garbage collection is below the high one."""
    low, high = config.node.kubelet.image_gc_low_threshold, config.node.kubelet.image_gc_high_threshold
    if low >= high:
        yield Problem(
            "node.kubelet.imageGCLowThreshold", str(low), f"a number below imageGCHighThreshold ({high})"
        )


def one_taint_each(config: NodeConfig) -> Iterator[Problem]:
    """Kubernetes refuses two taints with the same key and effect."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(config.node.taints):
        if (taint.key, taint.effect) in seen:
            hint = "another taint has the same key and effect"
            yield Problem(f"node.taints[{index}]", str(taint), "each pair of key and effect once", hint)
        seen.add((taint.key, taint.effect))


def one_client_ca(config: NodeConfig) -> Iterator[Problem]:
    """The CA of the kubelet's clients is inline or in a file."""
    kubelet = config.node.kubelet
    if kubelet.client_ca_file and kubelet.client_ca_data:
        yield Problem("node.kubelet.clientCAFile", "set, and clientCAData too", "only one of them")


def bridge_has_a_range(config: NodeConfig) -> Iterator[Problem]:
    """The bridge assigns addresses of this node's own range."""
    if config.cni.mode == "bridge" and config.cni.pod_cidr is None:
        yield Problem("cni.podCIDR", NOT_SET, "a CIDR that no other node uses", "cni.mode bridge needs it")
    if config.cni.mode == "none" and config.cni.pod_cidr is not None:
        accepted = "cni.mode: bridge, or remove cni.podCIDR"
        yield Problem("cni.podCIDR", str(config.cni.pod_cidr), accepted, "cni.mode is none")


def ranges_apart(config: NodeConfig) -> Iterator[Problem]:
    """The ranges of Services, pods, VNet and VPN clients do not overlap."""
    network, vpn = config.network, config.azure.vpn
    ranges: list[tuple[str, Network | None]] = [
        ("network.serviceCIDR", network.service_cidr),
        ("network.podCIDR", network.pod_cidr),
        *((f"network.vnetCIDRs[{index}]", cidr) for index, cidr in enumerate(network.vnet_cidrs)),
        ("cni.podCIDR", config.cni.pod_cidr),
        ("azure.vpn.p2sGatewayCIDR", vpn.p2s_gateway_cidr if vpn.enabled else None),
    ]
    for (earlier, first), (later, other) in combinations(ranges, 2):
        if first is None or other is None or first.version != other.version or not first.overlaps(other):
            continue
        # A node's pods are pods of the cluster; Azure checks the prefixes of one VNet.
        if {earlier, later} == {"network.podCIDR", "cni.podCIDR"} or ("vnet" in earlier and "vnet" in later):
            continue
        yield Problem(later, str(other), "another range", f"it overlaps {earlier} ({first})")


def dns_is_a_service(config: NodeConfig) -> Iterator[Problem]:
    """The cluster's DNS is one of its Services."""
    dns, services = config.node.kubelet.dns_service_ip, config.network.service_cidr
    if dns and services and dns not in services:
        yield Problem(
            "node.kubelet.dnsServiceIP", str(dns), f"an address in network.serviceCIDR ({services})"
        )


def tarball_has_a_digest(config: NodeConfig) -> Iterator[Problem]:
    """A node tarball has one digest, single binaries have one each."""
    kubernetes = config.kubernetes
    is_tarball = bool(kubernetes.url_template and kubernetes.url_template.endswith((".tar.gz", ".tgz")))
    if is_tarball and "tarball" not in kubernetes.sha256:
        found = "without a digest of the tarball"
        yield Problem("kubernetes.sha256", found, "one sha256", "kubernetes.urlTemplate is a node tarball")
    if not is_tarball and "tarball" in kubernetes.sha256:
        accepted = "{kubelet, kubectl, kubeadm: sha256 each}"
        yield Problem("kubernetes.sha256", "one digest", accepted, "kubernetes.urlTemplate is not a tarball")


def npd_has_a_digest(config: NodeConfig) -> Iterator[Problem]:
    """The catalogue has no digests of node-problem-detector, and no version is the default."""
    npd = config.npd
    if npd.version and not npd.sha256 and str(npd.version) not in config.mirror.catalogue.get("npd", {}):
        hint = f"the catalogue has no digest of node-problem-detector {npd.version}"
        yield Problem("npd.sha256", NOT_SET, "a sha256, or mirror.catalogue", hint)
    if not npd.version and (npd.sha256 or npd.url):
        yield Problem("npd.version", NOT_SET, "a version", "without one, npd.sha256 and npd.url mean nothing")


def state_is_apart(config: NodeConfig) -> Iterator[Problem]:
    """Unbootstrap needs the state until its end: not in a directory that is emptied on the way."""
    kubernetes, cni, state = config.paths.kubernetes, config.paths.cni, config.paths.data_dir
    emptied = (
        "/opt/aks-flex-node",
        "/etc/containerd",
        kubernetes.config_dir,
        kubernetes.certs_dir,
        kubernetes.manifests_dir,
        kubernetes.volume_plugin_dir,
        kubernetes.kubelet_dir,
        cni.bin_dir,
        cni.conf_dir,
        cni.lib_dir,
    )
    for path in emptied:
        if f"{state}/".startswith(f"{path}/") or f"{path}/".startswith(f"{state}/"):
            yield Problem("paths.dataDir", state, f"a directory apart from {path}, which unbootstrap empties")
            return


def one_log_directory(config: NodeConfig) -> Iterator[Problem]:
    """agent.logDir, agent.logFile and paths.logDir agree, or only one is set."""
    configured = {
        "agent.logDir": config.agent.log_dir,
        "agent.logFile": dirname(config.agent.log_file) if config.agent.log_file else None,
        "paths.logDir": config.paths.log_dir if config.paths.log_dir != DEFAULT_LOG_DIR else None,
    }
    log_dirs = {path: value for path, value in configured.items() if value}
    if len(set(log_dirs.values())) > 1:
        paths = list(log_dirs)
        hint = f"{paths[0]} is {log_dirs[paths[0]]}"
        yield Problem(paths[1], log_dirs[paths[1]], "the same directory, or only one of them", hint)


def pull_has_a_repository(config: NodeConfig) -> Iterator[Problem]:
    """The other fields of `pull` need a repository."""
    if config.pull.repository is None and config.pull != Pull():
        yield Problem("pull.repository", NOT_SET, "a git URL", "the other fields of pull need it")


def pull_knows_its_signers(config: NodeConfig) -> Iterator[Problem]:
    """A signature is checked against keys, and keys have an effect only if signatures are checked."""
    pull = config.pull
    if pull.verify_commit and not pull.signers:
        hint = "pull.verifyCommit needs the keys that may sign"
        yield Problem("pull.allowedSigners", NOT_SET, "an allowed_signers file, or pull.gpgKeys", hint)
    if pull.signers and not pull.verify_commit:
        yield Problem("pull.verifyCommit", NOT_SET, "true", "keys are set that may sign commits")


def pull_has_one_way_in(config: NodeConfig) -> Iterator[Problem]:
    """A deploy key and known hosts are for ssh, a CA is for https, and a cron line has five fields."""
    pull = config.pull
    if pull.repository is None or pull.repository.redacted:
        return
    https = pull.repository.reveal().startswith("https://")
    for key, is_set in (("sshKey", pull.ssh_key), ("knownHosts", pull.known_hosts)):
        if is_set and https:
            yield Problem(f"pull.{key}", "set", "an ssh repository, or remove it", "the repository is https")
    if pull.ca_cert and not https:
        yield Problem("pull.caCert", "set", "an https repository, or remove it", "the repository is ssh")
    if pull.wheels and pull.index:
        yield Problem("pull.index", "set, and pull.wheels too", "only one of them")
    if pull.scheduler == "cron" and pull.schedule and (why := crontab_problem(pull.schedule)):
        hint = f"pull.scheduler is cron: {why}"
        yield Problem("pull.schedule", shown(pull.schedule), "five fields such as 5 * * * *", hint)


def rollouts_have_a_limit(config: NodeConfig) -> Iterator[Problem]:
    """Rings and their settings have no effect on nodes that do not take turns."""
    upgrade, usual = config.upgrade, UpgradePolicy()
    if upgrade.max_unavailable is not None:
        return
    for key, attribute in ROLLOUT_SETTINGS.items():
        if getattr(upgrade, attribute) != getattr(usual, attribute):
            accepted, hint = "a number of nodes", f"upgrade.{key} has no effect without it"
            yield Problem("upgrade.maxUnavailable", NOT_SET, accepted, hint)
            return


def aks_limits_its_pools(config: NodeConfig) -> Iterator[Problem]:
    """AKS itself decides how many nodes of a FlexNodes pool are upgraded at a time."""
    pool, limit = config.azure.target_agent_pool_name, config.upgrade.max_unavailable
    if pool and limit is not None and config.azure.machines.apply != "at-once":
        yield Problem(
            "upgrade.maxUnavailable",
            str(limit),
            "maxUnavailable of the pool in Azure, and remove it here; or azure.machines.apply: at-once",
            f"nodes of pool {pool} wait for AKS, which has a limit of its own",
        )


def overrides_are_settings(config: NodeConfig) -> Iterator[Problem]:
    """Overrides keep kind and apiVersion of the KubeletConfiguration."""
    for key in sorted({"apiVersion", "kind"} & set(config.kubelet.config_overrides)):
        hint = "it is always KubeletConfiguration v1beta1"
        yield Problem(f"kubelet.configOverrides.{key}", "set", "other keys only", hint)


def admin_conf_has_an_identity(config: NodeConfig) -> Iterator[Problem]:
    """The cluster's admin credential is fetched from Azure."""
    if config.write_admin_conf and azure_method(config) is None:
        hint = "the machine fetches the cluster's admin credential from Azure with its own identity"
        yield Problem("writeAdminConf", "true", "false, or an Azure identity (azureAuth.method)", hint)


def machines_have_a_pool(config: NodeConfig) -> Iterator[Problem]:
    """How machines of a pool are followed matters only to a node of a pool."""
    if config.azure.target_agent_pool_name is None and config.azure.machines != Machines():
        yield Problem(
            "azure.targetAgentPoolName",
            NOT_SET,
            "the name of a FlexNodes pool, or remove azure.machines",
            "azure.machines has no effect without it",
        )


def name_of_a_machine(config: NodeConfig) -> Iterator[Problem]:
    """The Node of a pool has the name of its machine, which is shorter and has no dots."""
    name = config.agent.node_name
    if config.azure.target_agent_pool_name and name and not re.fullmatch(POOL_MACHINE_PATTERN, name):
        yield Problem("agent.nodeName", shown(name), *MACHINE_NAME)


def monitoring_has_a_way(config: NodeConfig) -> Iterator[Problem]:
    """A node that polls its configuration needs a source that it can poll."""
    if config.continuous_monitoring and azure_method(config) is None:
        yield Problem(
            "continuousMonitoring",
            "true",
            "false, an Azure identity, source blob, or a durable URL (durable: true, --durable)",
            "a bootstrap token expires after the join, and its configUrl with it",
        )


_CREDENTIALS = (
    "azure.servicePrincipal",
    "azure.managedIdentity",
    "azure.bootstrapToken",
    "azure.arc.enabled",
    "azure.targetAgentPoolName",
    "kubernetesAuth",
    "azureAuth",
)

RULES: tuple[Rule, ...] = (
    Rule(one_client_secret, ("azure.servicePrincipal",)),
    Rule(contradictions, _CREDENTIALS),
    Rule(missing_credentials, _CREDENTIALS),
    Rule(kubelet_credential, _CREDENTIALS, ("join",)),
    Rule(tenant_of_identity, (*_CREDENTIALS, "azure.tenantId"), ("join",)),
    Rule(arc_has_a_place, ("azure.arc.enabled", "azure.arc.location", "azure.targetCluster.location")),
    Rule(few_tags, ("azure.arc.tags",)),
    Rule(vpn_has_a_profile, ("azure.vpn",)),
    Rule(profile_is_usable, ("azure.vpn",)),
    Rule(thresholds_in_order, ("node.kubelet.imageGCLowThreshold", "node.kubelet.imageGCHighThreshold")),
    Rule(one_taint_each, ("node.taints",)),
    Rule(one_client_ca, ("node.kubelet.clientCAFile", "node.kubelet.clientCAData")),
    Rule(bridge_has_a_range, ("cni.mode", "cni.podCIDR")),
    Rule(ranges_apart, ("network", "cni.podCIDR", "azure.vpn")),
    Rule(dns_is_a_service, ("node.kubelet.dnsServiceIP", "network.serviceCIDR")),
    Rule(tarball_has_a_digest, ("kubernetes",)),
    Rule(npd_has_a_digest, ("npd", "mirror.catalogue")),
    Rule(state_is_apart, ("paths",)),
    Rule(one_log_directory, ("agent.logDir", "agent.logFile", "paths.logDir")),
    Rule(pull_has_a_repository, ("pull",)),
    Rule(pull_knows_its_signers, ("pull",)),
    Rule(pull_has_one_way_in, ("pull",)),
    Rule(rollouts_have_a_limit, ("upgrade",)),
    Rule(aks_limits_its_pools, ("upgrade", "azure.targetAgentPoolName", "azure.machines")),
    Rule(overrides_are_settings, ("kubelet",)),
    Rule(machines_have_a_pool, ("azure.targetAgentPoolName", "azure.machines")),
    Rule(name_of_a_machine, ("azure.targetAgentPoolName", "agent.nodeName")),
    Rule(admin_conf_has_an_identity, ("writeAdminConf", *_CREDENTIALS), ("join",)),
)
# Only if the source can't be polled without an identity.
MONITORING = Rule(monitoring_has_a_way, ("continuousMonitoring", *_CREDENTIALS), ("join",))
