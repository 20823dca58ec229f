# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be done to a machine, each as one function: the modules and the command both come in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .available import check_available
from .catalogue import skew
from .components.every import COMPONENTS, PREPARED, resources_of
from .components.kubelet import kubelet_identity
from .components.services import SERVICES
from .config.document import canonical, merge, redact, restore_secrets
from .config.model import NodeConfig
from .config.parse import parse
from .config.values import Version
from .engine import Gate, Listener, Plan, Timings, clear_leftovers, execute, make_plan, silent
from .errors import ConfigInvalid, ConfigMissing, FlexNodeError, Forbidden, Problem, TokenRefused, shown
from .facts import Facts, check_platform, gather
from .fetch import Fetcher
from .foreign import check_foreign
from .gates import NodeReady, UnitsActive
from .host import Host
from .http_client import HttpClient
from .kube import KubeClient, kubelet_version
from .labels import node_labels, node_name
from .layout import KUBELET
from .proxy import proxies
from .secret import REDACTED
from .sources import Source
from .state import Phase, Store, store_of


@dataclass(frozen=True, slots=True)
class Obtained:
    """A configuration that was fetched, checked and stored."""

    document: Mapping[str, Any]
    version: str | None
    changed: bool

    @property
    def public(self) -> dict[str, Any]:
        """The document as it may be shown."""
        return redact(self.document)


def obtain(
    host: Host, source: Source, overrides: Mapping[str, Any], *, purpose: str = "join", check: bool = False
) -> Obtained:
    """Fetch, merge, check and store: every source ends here. In check mode nothing is stored."""
    fetched = source.fetch()
    document = merge(fetched.document, overrides)
    config = parse(document, purpose="prepare" if purpose == "prepare" else "join")
    check_available(config)
    known = store_of(host)
    if known.directory != config.paths.data_dir and (known.journal.entries() or known.current_config()):
        accepted = f"{known.directory}, as long as this machine is a node; unbootstrap first to move it"
        raise ConfigInvalid([Problem("paths.dataDir", shown(config.paths.data_dir), accepted)])
    store = store_of(host, config.paths.data_dir)
    stored = store.current_config()
    changed = stored is None or canonical(stored) != canonical(document)
    if not check:
        store.set_current_config(document, fetched.version)
    return Obtained(document, fetched.version, changed)


@dataclass(slots=True)
class Reconciled:
    """What a run did, or would do."""

    plan: Plan
    actions: list[str]
    timings: dict[str, float]
    node: dict[str, Any] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, different afterwards."""
        return bool(self.actions)


def stored_document(host: Host, given: Mapping[str, Any] | None) -> tuple[Store, Mapping[str, Any]]:
    """The document to follow: the stored one; in its absence (check mode on a fresh host) the one given.

    What is given carries no secrets: where it is the stored document in all else, the stored one counts.
    """
    data_dir = ((given or {}).get("paths") or {}).get("dataDir")
    store = store_of(host, data_dir)
    stored = store.current_config()
    if given is None:
        if stored is None:
            raise ConfigMissing("no configuration is stored on this machine", where=store.directory)
        return store, stored
    return store, restore_secrets(given, stored) if stored else given


def reconcile(
    host: Host,
    document: Mapping[str, Any] | None,
    components: Sequence[str],
    *,
    check: bool = False,
    tell: Listener = silent,
    machine: str | None = None,
) -> Reconciled:
    """Make the machine what its configuration says; with `services`, success means that the Node is Ready."""
    timings = Timings(host)
    with timings.of("plan"):
        store, document = stored_document(host, document)
        facts = gather(host, machine)
        check_platform(facts, host)
        prepared = set(components) <= set(PREPARED) | {"agent"}
        config = parse(document, purpose="prepare" if prepared else "join")
        check_available(config)
        check_foreign(host, store, config)
        facts = replace(facts, joined=host.exists(kubelet_identity(config)))
        plan = make_plan(resources_of(components, config, facts), host, store)
    if check:
        return Reconciled(plan, plan.sentences, timings.seconds)
    if REDACTED in canonical(document):
        raise ConfigMissing(
            "the configuration has no secrets, and none are stored on this machine", where=store.directory
        )
    run = Reconciled(plan, plan.sentences, timings.seconds)
    runs_node = "services" in components
    joined = store.applied_config() is not None  # there is something that worked
    gates: list[Gate] = [UnitsActive(SERVICES), node_gate(config, facts, host)] if runs_node else []
    state = store.state()
    # A leave that was cut off has cordoned the Node: remembered until a join has taken that back.
    half_left = {"leaving": True} if Phase.RESETTING.value == state["phase"] or state.get("leaving") else {}
    clear_leftovers(host, store)
    try:
        if runs_node and not joined:
            check_cluster(config, host)
        if plan.changed:
            if runs_node:
                store.enter(Phase.NODE_BOOTSTRAPPING, **half_left)
            # A client reads the system's CAs, which takes its time: only where there is something to fetch.
            stager = Fetcher(host, download_client(config, host), store.cache) if plan.trees else None
            execute(plan, host, store, stager, gates, timings=timings, tell=tell, roll_back=joined)
        else:
            with timings.of("gate"):
                for gate in gates:
                    gate.pass_(host)
            store.finish()  # of a run that was killed when all was done
        if runs_node:
            run.actions += settle_labels(host, store, config, facts)
            run.actions += uncordon(host, config, facts) if half_left else []
    except FlexNodeError as error:
        if runs_node:
            store.enter(Phase.NODE_FAILED, code=error.code, message=error.what, **half_left)
        if isinstance(error, TokenRefused) and not host.exists(kubelet_identity(config)):
            # Never a loop on a dead token: the next run finds the unit stopped, and starts it.
            host.run(["systemctl", "stop", KUBELET], timeout=120, check=False)
        raise
    if runs_node:
        store.enter(Phase.NODE_JOINED)
        store.set_applied_config(document)
        run.node = seen_node(host, config, facts)
    return run


def check_cluster(config: NodeConfig, host: Host) -> None:
    """Before anything is touched: the API server answers, is the one we mean, and is not too far from us.

    Asked as nobody: the bootstrap token is for the kubelet's join alone. A cluster that tells strangers
    nothing is fine; the kubelet will find out.
    """
    server = config.api_server
    try:
        answer = KubeClient(server.url, server.ca.pem, clock=host.clock).version()
        error = skew(config.kubernetes.version, Version.of_build(answer))
    except (Forbidden, ValueError):
        return
    if error:
        raise error


def node_gate(config: NodeConfig, facts: Facts, host: Host) -> NodeReady:
    """Ready, seen at the API server, with the kubelet's own identity."""
    return NodeReady(
        node=node_name(config, facts),
        version=str(config.kubernetes.version),
        identity=kubelet_identity(config),
        connect=lambda: as_kubelet(host, config),
        cni_mode=config.cni.mode,
        seconds=config.upgrade.gate_seconds,
    )


def as_kubelet(host: Host, config: NodeConfig, attempts: int = 1) -> KubeClient:
    """The API server, as the kubelet of this machine."""
    server = config.api_server
    identity = host.path(kubelet_identity(config))
    return KubeClient(server.url, server.ca.pem, certificate=identity, clock=host.clock, attempts=attempts)


def own_node(host: Host) -> tuple[KubeClient, str]:
    """The API server as this machine's kubelet, and the name of its Node."""
    _store, document = stored_document(host, None)
    config = parse(document)
    return as_kubelet(host, config, attempts=3), node_name(config, gather(host))


def download_client(config: NodeConfig, host: Host) -> HttpClient:
    """The client for artifacts: the mirror's CA and the site's proxy."""
    ca = config.mirror.ca_cert
    return HttpClient(ca_pem=ca.pem if ca else "", proxies=proxies(config), clock=host.clock)


def settle_labels(host: Host, store: Store, config: NodeConfig, facts: Facts) -> list[str]:
    """A kubelet sets labels only when it registers a Node: later changes are patched, as the node itself."""
    client, name = as_kubelet(host, config, attempts=3), node_name(config, facts)
    node = client.node(name) or {}
    have = node.get("metadata", {}).get("labels", {})
    want = node_labels(config)
    before = ((store.applied_config() or {}).get("node") or {}).get("labels") or {}
    patch: dict[str, str | None] = {key: value for key, value in want.items() if have.get(key) != value}
    patch |= {key: None for key in before if key not in want and key in have}
    if not patch:
        return []
    client.patch_node(name, {"metadata": {"labels": patch}})
    return [
        f"label {key}={value}" if value is not None else f"remove label {key}" for key, value in patch.items()
    ]


def uncordon(host: Host, config: NodeConfig, facts: Facts) -> list[str]:
    """Let pods come again to a Node that was about to leave."""
    client, name = as_kubelet(host, config, attempts=3), node_name(config, facts)
    if not (client.node(name) or {}).get("spec", {}).get("unschedulable"):
        return []
    client.patch_node(name, {"spec": {"unschedulable": None}})
    return [f"uncordon {name}"]


def seen_node(host: Host, config: NodeConfig, facts: Facts) -> dict[str, Any]:
    """The Node in a few words, as the API server has it."""
    node = as_kubelet(host, config, attempts=3).node(node_name(config, facts)) or {}
    info = node.get("status", {}).get("nodeInfo", {})
    return {
        "name": node_name(config, facts),
        "ready": True,
        "kubeletVersion": kubelet_version(node),
        "containerRuntime": info.get("containerRuntimeVersion", "").replace("://", " "),
        "addresses": [address["address"] for address in node.get("status", {}).get("addresses", ())],
    }


EVERYTHING = tuple(COMPONENTS)
