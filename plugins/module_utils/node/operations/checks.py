# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks before anything is changed: secrets, token, name, cluster version, identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..catalogue.artifacts import skew
from ..components.kubelet import cluster_ca
from ..components.labels import node_name
from ..components.services import unit_key
from ..config.document import placeholders
from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.values import Version
from ..dataclass import dataclass
from ..drift.record import node_key
from ..engine.records.name import kubelet_name, own_name
from ..engine.records.state import Phase, Store, store_of
from ..errors import (
    CaMismatch,
    ConfigInvalid,
    ConfigMissing,
    FlexNodeError,
    Forbidden,
    Problem,
    TokenRefused,
    shown,
)
from ..identity.choice import kubernetes_token
from ..machine.facts import LOST
from ..machine.host import Host
from ..machine.layout import KUBELET, KUBELET_DEFAULTS, UNIT_DIR
from ..machine.program import COMMAND
from ..net.kube import KubeClient
from ..node_object.advice import NEW_TOKEN, REPLACE, UNAPPROVED
from ..node_object.certificate import is_expired
from ..node_object.gates import not_the_server
from ..node_object.kubelet_log import DEAD, rejected
from ..node_object.this_node import ThisNode

STOPPED = "the kubelet is stopped"  # of a token that was refused
ANOTHER = (
    "this machine is not the node that the inventory describes. To remove it from its cluster, correct this "
    "for its host in the inventory (agent.nodeName: in flexnode_host_config), then run this again. If "
    "another machine was meant, correct ansible_host"
)


class AlreadyJoined(FlexNodeError):
    code, title = "FLEX-1118", "This machine is a node already: it can't be prepared"
    unchanged = "Nothing was changed on the machine."
    remedy = (
        "to change a node, run playbook aks.flexnode.update; to prepare the machine anew, unbootstrap it "
        "first; to prepare the others, leave it out (--limit)"
    )


def has_joined(host: Host, document: Mapping[str, Any]) -> bool:
    """Whether the kubelet of a stored document has a certificate, or has authenticated with its tokens."""
    try:
        node = ThisNode.of(host, parse(document, purpose="prepare", pollable=True))
    except ConfigInvalid:
        return False
    store = store_of(host, node.config.paths.data_dir)
    if node.uses_tokens:  # its kubeconfig is written by this collection, before the join
        return store.applied_if_intact() is not None
    return installed_kubelet(store) and node.has_credential


def installed_kubelet(store: Store) -> bool:
    """Whether this collection installed the kubelet: a certificate on disk may belong to another cluster."""
    return any(entry.name == f"{UNIT_DIR}/{KUBELET}" for entry in store.journal.entries())


def check_secrets(document: Mapping[str, Any], store: Store) -> None:
    """Refuse a document in which placeholders stand for secrets."""
    if missing := placeholders(document):
        raise ConfigMissing(
            "the configuration has no secrets, and none are stored on this machine",
            where=f"{', '.join(missing)}; {store.directory}",
            why="secrets are left out for machines that have stored them already",
            fix=NEW_TOKEN,
        )


def check_token(node: ThisNode, store: Store, *, rejected_certificate: bool = False) -> None:
    """Refuse a token that the API server refused before. A kubelet with a certificate uses no token.

    rejected_certificate: the API server rejects the certificate. It stays in place if no other can be had.
    """
    if rejected_certificate and not can_get_certificate(node, store):
        raise TokenRefused(
            "the API server rejects the kubelet's certificate, and no unused bootstrap token is configured",
            where=f"Node {node.name}",
            why="the kubelet needs one to request a new certificate. Nothing was changed",
            fix=NEW_TOKEN,
        )
    token = node.config.azure.bootstrap_token
    pool = node.config.azure.target_agent_pool_name
    if pool and token is None and not node.azure_method and not node.has_credential:
        raise TokenRefused(
            "this machine has neither a bootstrap token nor a certificate",
            where=f"pool {pool}",
            why="the token of a pool is not kept after the join",
            fix=f"get a new one: bootstrap (source machines), or `{COMMAND} join --cluster ID --pool {pool}`",
        )
    record = store.join()
    if not token or node.has_credential or record.get("outcome") != "refused":
        return
    # Not its ID alone: a secret that was mistyped and is correct now makes another token.
    if record.get("digest") == token.digest:
        dead = record["what"] == rejected(token.id)  # otherwise it worked, and brought no certificate
        fix = REPLACE if dead else UNAPPROVED
        what = f"{record['what']} in an earlier run, and this run did not try it again"
        error = TokenRefused(what, where=f"Node {node.name}", why=DEAD if dead else "", fix=fix)
        error.add(STOPPED)
        raise error


def check_unjoined(host: Host, store: Store, stored: Mapping[str, Any] | None) -> None:
    """Refuse to prepare a node: its configuration and what it polls would be replaced, without any gate."""
    if store.applied_if_intact() is not None or (stored and has_joined(host, stored)):
        raise AlreadyJoined(
            "this machine is a node, and is not prepared again",
            where=store.directory,
            why="that would replace its configuration and restart its services, without a drain or a gate",
        )


def check_fixed(node: ThisNode, store: Store, stored: Mapping[str, Any] | None) -> None:
    """Refuse to change what a node keeps until it leaves: its name, its cluster, the range of its pods."""
    if store.state()["phase"] == Phase.RESETTING.value and not node.has_credential:
        return  # it has left the cluster, and only some files of it remain
    document: Mapping[str, Any] | None = store.applied_if_intact()
    if document is None and stored and has_joined(node.host, stored):
        document = stored
    if document is None:
        return
    try:
        joined = parse(document, purpose="prepare", pollable=True)
    except ConfigInvalid:
        return
    name = node_name(joined, own_name(node.host, store.directory))
    if problems := list(_moved(joined, name, node)):
        raise ConfigInvalid(problems)


def _moved(joined: NodeConfig, name: str, node: ThisNode) -> Iterator[Problem]:
    """What a configuration can't change. The certificate and the pods are bound to it."""
    first = "unbootstrap it {} first, then change"
    if name != node.name:
        accepted = f"{name}. To rename it, {first.format('under this name')} agent.nodeName"
        yield Problem("agent.nodeName", shown(node.name), accepted, f"this machine is Node {name}")
    old, new = joined.azure, node.config.azure
    cluster, other = str(old.target_cluster.resource_id or ""), str(new.target_cluster.resource_id or "")
    if cluster and _differ(other, cluster):
        accepted = f"{cluster}. To move it, {first.format('there')} this"
        hint = "this machine is a node of another cluster"
        yield Problem("azure.targetCluster.resourceId", other, accepted, hint)
    pool, other = old.target_agent_pool_name or "", new.target_agent_pool_name or ""
    if pool and _differ(other, pool):
        accepted = f"{pool}. To move it, {first.format('there')} this"
        yield Problem("azure.targetAgentPoolName", shown(other), accepted, f"this machine is in pool {pool}")
    pods, others = joined.cni, node.config.cni
    if pods.mode == others.mode == "bridge" and pods.pod_cidr != others.pod_cidr:
        accepted = f"{pods.pod_cidr}. To change it, {first.format('with this range')} this"
        hint = f"the bridge and the pods of this node have addresses of {pods.pod_cidr}"
        yield Problem("cni.podCIDR", shown(str(others.pod_cidr)), accepted, hint)


@dataclass(frozen=True)
class Expected:
    """Which node the inventory says a machine is, as far as it does; what is empty may be anything."""

    node: str = ""
    cluster: str = ""  # resource id
    pool: str = ""  # of source `machines`


def check_expected(host: Host, store: Store, expected: Expected) -> None:
    """Refuse to remove another node: the controller cleans up in Azure by the names of the inventory.

    A machine that is no node has no name yet. Where its configuration can't be read, its kubelet has a name.
    """
    if not any(entry.key == f"unit:{KUBELET}" for entry in store.journal.entries()):
        return
    try:
        document = store.applied_config() or store.current_config()
        config = parse(document, purpose="prepare", pollable=True) if document else None
    except FlexNodeError:
        config = None
    if config:
        name = node_name(config, own_name(host, store.directory))
    else:  # a leave that was interrupted may have removed what the kubelet ran with
        name = kubelet_name(host) if host.exists(KUBELET_DEFAULTS) else ""
    if problems := list(_differences(expected, config, name)):
        raise ConfigInvalid(problems, fix=ANOTHER)


def _differences(expected: Expected, config: NodeConfig | None, name: str) -> Iterator[Problem]:
    """What differs, without regard to case: Azure ignores it, and Nodes have lower-case names."""
    if name and _differ(expected.node, name):
        yield Problem("agent.nodeName", shown(expected.node), name, f"this machine is Node {name}")
    if config is None:
        return
    cluster = str(config.azure.target_cluster.resource_id or "")
    if cluster and _differ(expected.cluster, cluster):
        hint = "this machine is a node of another cluster"
        yield Problem("flexnode_cluster_id", expected.cluster, cluster, hint)
    pool = config.azure.target_agent_pool_name or ""
    if _differ(expected.pool, pool):
        accepted = pool or "flexnode_config_source to what it joined with"
        hint = f"this machine is in {f'pool {pool}' if pool else 'no pool'}"
        yield Problem("flexnode_pool", shown(expected.pool), accepted, hint)


def _differ(expected: str, found: str) -> bool:
    return bool(expected) and expected.lower() != found.lower()


def can_get_certificate(node: ThisNode, store: Store) -> bool:
    """Whether a kubelet without a certificate could get one. Only a pool's token serves several joins."""
    token, record = node.config.azure.bootstrap_token, store.join()
    if node.azure_method or token is None:
        return bool(node.azure_method)
    if record.get("outcome") == "refused":
        return record.get("digest") != token.digest
    used = record.get("outcome") == "joined" and record.get("token") == token.id
    return not used or node.config.azure.target_agent_pool_name is not None


def certificate_in_doubt(node: ThisNode, store: Store) -> bool:
    """Whether to ask the API server if it accepts the certificate.

    It expired, the CA changed, or the last run failed.
    """
    if node.uses_tokens or not node.has_credential or not installed_kubelet(store):
        return False
    installed_ca = node.host.text(cluster_ca(node.config)).strip()
    same_ca = installed_ca == node.config.api_server.ca.pem.strip()
    if same_ca and not can_get_certificate(node, store):  # the gate tells what the API server answers
        return False
    # With an expired one the kubelet has been trying for long, with a token that was used: it must stop.
    return not same_ca or is_expired(node) or store.state()["phase"] != Phase.NODE_JOINED.value


def is_lost(
    node: ThisNode,
    components: Sequence[str],
    applied: Mapping[str, Any] | None,
    leave: frozenset[str] | None,
) -> bool:
    """Whether the Node of a node was deleted: a kubelet registers it only when it starts. No answer: no.

    leave: of a repair. It leaves a Node alone that another process deletes again and again, and one of a
    pool: AKS may be deleting the machine, and the poll asks for that first.
    """
    if "services" not in components or applied is None or not node.has_credential or node.is_cut_off:
        return False
    if leave is not None and (
        node.config.azure.target_agent_pool_name or {node_key(node.name), unit_key(KUBELET)} & leave
    ):
        return False
    try:
        return node.read(attempts=1) is None
    except FlexNodeError:
        return False


def same_server(applied: Mapping[str, Any] | None, document: Mapping[str, Any]) -> bool:
    """Whether a configuration names the API server, and its CA, with which this node has worked before.

    If so, a certificate that is not trusted is no fault of this configuration.
    """

    def server(of: Mapping[str, Any]) -> tuple[Any, Any]:
        kubelet = (of.get("node") or {}).get("kubelet") or {}
        return kubelet.get("serverURL"), kubelet.get("caCertData")

    return applied is not None and server(applied) == server(document)


def check_cluster(node: ThisNode, *, known: bool) -> None:
    """The API server answers, has the configured CA, and its version supports this kubelet.

    known: this node has worked with this API server and this CA before.

    Asked as the kubelet, or before the join anonymously: the bootstrap token is reserved for the join. A
    cluster that refuses anonymous requests is not checked here; the kubelet will find out.
    """
    server = node.config.api_server
    try:
        anonymous = KubeClient(server.url, server.ca.pem, clock=node.host.clock)
        answer = (node.api() if node.has_credential else anonymous).version()
        error = skew(node.config.kubernetes.version, Version.of_build(answer))
    except (Forbidden, ValueError):
        return
    except CaMismatch as mismatch:
        raise not_the_server(mismatch) if known else mismatch from mismatch
    if error:
        raise error


def check_identity(node: ThisNode) -> None:
    """The Azure identity that the kubelet is about to use gets a token."""
    if node.azure_method:
        kubernetes_token(node.config, node.host)


def stored_facts(host: Host, store: Store, *, asked: bool) -> dict[str, Any] | None:
    """The facts of the join; None: there are none.

    asked: an administrator runs this. A resolver's file that is gone for good is replaced then; at boot it
    is missing for a moment, which a check must not take for a change.
    """
    stored: dict[str, Any] | None = store.state().get("facts")
    if not stored and store.applied_if_intact() is not None:
        return dict(LOST)
    if asked and stored and not host.exists(stored.get("resolv_conf", "")):
        return {name: value for name, value in stored.items() if name != "resolv_conf"}
    return stored
