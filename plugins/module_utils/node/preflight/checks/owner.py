# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what is on the machine already: other owners, ports, names, tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone

from ...catalogue.artifacts import artifacts_of
from ...config.pool import MACHINE_NAME, POOL_MACHINE_PATTERN
from ...config.types.formats import DNS_SUBDOMAIN
from ...drift.other_owners import VENDOR_AGENT, VENDOR_FIX, VENDOR_WHY
from ...errors import ForeignRuntime, NotInCatalogue
from ...machine.facts import ARCHITECTURES
from ...machine.layout import CONTAINERD, KUBELET
from ...node_object.advice import TYPO
from ..finding import Outcome, Unchecked, error, listed, warning
from ..probes.network import ports_of
from ..seen import Listener, Situation

OURS = {"kubelet": KUBELET, "containerd": CONTAINERD}
LABEL = 63  # the name is also the value of the label kubernetes.io/hostname
ASK_AGAIN = (
    "get a new one: run playbook aks.flexnode.bootstrap again (sources cluster, blob), or playbook "
    "aks.flexnode.config_tokens (source rp)"
)
SOON = 600  # seconds that a join may take, with slow downloads


def ports(now: Situation) -> Iterator[Outcome]:
    """The node's ports are free, or used by the node itself."""
    machine, wanted = now.machine, ports_of(now.config)
    taken: dict[int, Listener] = {}
    # A runtime that is taken over is stopped, which frees its ports.
    adopted = {path.rpartition("/")[2] for path in machine.foreign} if now.config.takeover else set()
    for listener in machine.listeners:
        ours = OURS.get(listener.owner) in machine.ours or OURS.get(listener.owner) in adopted
        if listener.port in wanted and not ours:
            taken.setdefault(listener.port, listener)
    for port, listener in sorted(taken.items()):
        owner = f"{listener.owner} (process {listener.pid})" if listener.pid else "another process"
        yield error(
            "port-in-use",
            f"port {port} is used by {owner} at {listener.address}",
            f"it is the port of {wanted[port]}",
            f"stop it, or move it to another port: ss --listening --tcp --processes 'sport = :{port}'",
        )


def foreign(now: Situation) -> Iterator[Outcome]:
    """No runtime or kubelet of another owner."""
    machine = now.machine
    if agents := [path for path in machine.foreign if path.endswith(VENDOR_AGENT)]:
        yield error("foreign-runtime", listed(agents), VENDOR_WHY, VENDOR_FIX)
        return
    running = {name for name in machine.processes if OURS.get(name) not in machine.ours}
    if machine.foreign:
        found = listed(machine.foreign)
    elif running:
        found = f"{listed(sorted(running))} runs, not started by a unit of this collection"
    else:
        return
    why = "two of them can't share a machine: they conflict over sockets, cgroups and pod networks"
    if now.config.takeover:
        yield warning(
            "foreign-runtime",
            f"{found}: will be taken over",
            "takeover is true; its pods and containers may stop",
            "nothing to do; unbootstrap restores its files",
        )
    else:
        yield error("foreign-runtime", found, why, ForeignRuntime.remedy)


def identity_left(now: Situation) -> Iterator[Outcome]:
    """No kubelet certificate of another cluster."""
    if path := now.machine.identity_left:
        yield error(
            "kubelet-identity",
            f"{path} belongs to a kubelet that this collection did not install",
            "a kubelet that has a certificate uses it, and requests none from this cluster",
            "remove the machine from the other cluster (kubeadm reset); if that is done: "
            f"rm --recursive {path.rpartition('/')[0]}",
        )


def pod_network(now: Situation) -> Iterator[Outcome]:
    """Exactly one pod network is configured."""
    machine, mode = now.machine, now.config.cni.mode
    if machine.joined or machine.ours & set(OURS.values()):
        return  # the cluster's pod network has written its files
    if mode == "none" and not machine.cni_files:
        yield warning(
            "cni-none",
            "cni.mode is none, and no pod network is configured on this machine",
            "the CNI plugins of AKS do not run on flex nodes: unless the cluster has one that does "
            "(Cilium, Calico, ...), the Node never becomes Ready",
            "install one in the cluster, or set cni.mode: bridge with a cni.podCIDR of this node",
        )
    elif mode == "bridge" and machine.cni_files:
        yield warning(
            "cni-files",
            f"pod networks are configured already: {listed(machine.cni_files)}",
            "containerd uses the first file by name, which may not be 10-flexnode.conflist",
            "remove those that are not needed",
        )


def kube_proxy(now: Situation) -> Iterator[Outcome]:
    """AKS's kube-proxy will run on this node: it selects nodes by the cluster's own resource group."""
    config = now.config
    joins = bool(config.node.kubelet.server_url) and not now.machine.joined
    if not joins or config.azure.target_cluster.node_resource_group:
        return
    yield warning(
        "kube-proxy",
        "azure.targetCluster.nodeResourceGroup is not set",
        "AKS's kube-proxy runs only on nodes with the label that is made of it: unless the cluster replaces "
        "kube-proxy (Cilium, ...), the Node becomes Ready, but its pods reach no Service and no cluster DNS",
        "set it: az aks show --resource-group RG --name NAME --query nodeResourceGroup --output tsv",
    )


def node_name(now: Situation) -> Iterator[Outcome]:
    """The Node's name is valid in Kubernetes."""
    name, source = now.node_name, "agent.nodeName" if now.config.node_name else "the host name"
    fix = "set agent.nodeName, or: hostnamectl set-hostname NAME"
    if not re.fullmatch(DNS_SUBDOMAIN, name) or len(name) > LABEL:
        yield error(
            "node-name",
            f"{source} is {name!r}",
            f"a Node's name has lower-case letters, digits, - and ., at most {LABEL}",
            fix,
        )
    elif now.config.azure.target_agent_pool_name and not re.fullmatch(POOL_MACHINE_PATTERN, name):
        yield error("node-name", f"{source} is {name!r}", f"{MACHINE_NAME[1]}: {MACHINE_NAME[0]}", fix)
    elif name.partition(".")[0] == "localhost":
        yield error(
            "node-name",
            f"{source} is {name!r}",
            "two machines with this name would be the same Node",
            fix,
        )
    elif not now.machine.joined:
        yield Unchecked(
            "node-name-taken",
            f"could not check whether the cluster already has a Node {name}, because this machine has no "
            "permission to read Nodes until it has joined. An administrator can check with "
            f"`kubectl get node {name}`. NotFound: the name is free. If there is a Node: set another "
            "agent.nodeName; or, if its machine no longer exists, delete it "
            f"(kubectl delete node {name})",
        )


EXPIRY = "{.data.expiration}"  # of the Secret of a bootstrap token


def token(now: Situation) -> Iterator[Outcome]:
    """The bootstrap token, as far as it can be checked without using it."""
    token = now.config.azure.bootstrap_token
    if token is None or now.machine.joined or now.config.kubernetes_auth.method != "bootstrapToken":
        return
    if token.digest == now.machine.refused_token:
        yield error(
            "token-refused",
            f"the API server rejected the bootstrap token with ID {token.id} in an earlier run",
            "the same token is not tried again",
            f"{TYPO}{ASK_AGAIN}",
        )
    if now.token_expires is None:
        if not token.token.redacted:
            look = f"kubectl -n kube-system get secret bootstrap-token-{token.id} -o jsonpath='{EXPIRY}'"
            yield Unchecked(
                "token-expired",
                f"could not check when the bootstrap token {token.id} expires, because the configuration "
                f"does not say. An administrator can check with `{look} | base64 -d`. Empty output: the "
                "token does not expire. NotFound: the token does not exist, create a new one",
            )
    elif now.token_expires <= now.now + SOON:
        moment = datetime.fromtimestamp(now.token_expires, timezone.utc).isoformat(timespec="seconds")
        ended = now.token_expires <= now.now
        yield error(
            "token-expired",
            f"the bootstrap token {token.id} {'expired' if ended else 'expires'} at {moment}",
            "the API server refuses it" if ended else "the join may take longer than that",
            ASK_AGAIN,
        )


def secrets(now: Situation) -> Iterator[Outcome]:
    """All secrets are known: none is only a placeholder."""
    if now.secrets_missing and not now.machine.joined:
        yield error(
            "secrets-missing",
            f"no secret is set for {listed(now.secrets_missing)}, and none is stored here",
            "secrets are left out for machines that have stored them already; this one has not",
            ASK_AGAIN,
        )


def versions(now: Situation) -> Iterator[Outcome]:
    """Every artifact has a known digest."""
    arch = ARCHITECTURES.get(now.machine.machine)
    if arch is None:
        return
    try:
        artifacts_of(now.config, arch)
    except NotInCatalogue as unknown:
        yield error("artifact-unknown", unknown.what, unknown.why, unknown.fix)
