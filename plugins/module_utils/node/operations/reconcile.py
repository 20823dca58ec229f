# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be done to a machine, each as one function: the modules and the command both come in here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..catalogue.artifacts import skew
from ..components.every import COMPONENTS, PREPARED, wanted
from ..components.exec_plugin import identity_method, lives_on_tokens
from ..components.kubelet import cluster_ca, kubelet_identity
from ..components.labels import APPLIED_TIME, APPLIED_VERSION, node_labels, node_name
from ..components.services import SERVICES
from ..config.available import check_available
from ..config.document import canonical, layered, merge, placeholders, redact, restore_secrets
from ..config.model import NodeConfig
from ..config.parse import parse
from ..config.types.values import Version
from ..engine.fetch import Fetcher
from ..engine.state import Phase, Store, store_of
from ..engine.transaction import (
    Gate,
    Listener,
    Plan,
    Step,
    Timings,
    clear_leftovers,
    execute,
    make_plan,
    silent,
)
from ..errors import (
    ConfigInvalid,
    ConfigMissing,
    ConfigUnreachable,
    FlexNodeError,
    Forbidden,
    Problem,
    TokenRefused,
    shown,
)
from ..identity.choice import kubernetes_token
from ..machine.clock import stamp
from ..machine.facts import Facts, check_platform, gather
from ..machine.host import Host
from ..machine.layout import KUBELET, UNIT_DIR, enabled
from ..net.http_client import HttpClient
from ..net.kube import KubeClient, kubelet_version
from ..net.proxy import proxies
from ..node_object.certificate import Retired, refused
from ..node_object.gates import HOW_TO_GO_ON, NodeReady, UnitsActive
from ..secret import REDACTED
from ..sources.source import Fetched, Seen, Source, Stored, Url
from ..sources.watched import Watched
from .other_owners import check_foreign


@dataclass(frozen=True, slots=True)
class Obtained:
    """A configuration that was fetched, checked and stored."""

    document: Mapping[str, Any]
    version: str | None
    changed: bool
    warnings: tuple[str, ...] = ()

    @property
    def public(self) -> dict[str, Any]:
        """The document as it may be shown."""
        return redact(self.document)


def obtain(
    host: Host,
    source: Source,
    overrides: Mapping[str, Any],
    *,
    purpose: str = "join",
    check: bool = False,
    durable: bool = False,
    look: Callable[[Mapping[str, Any]], None] | None = None,
) -> Obtained:
    """Fetch, merge, check and store: every source ends here. In check mode nothing is stored.

    durable: the address of the source stays valid, and can be asked again.
    look: sees the document before it is stored, and may refuse it.
    """
    known = store_of(host)
    stored, whole = known.remembered()  # a damaged document is healed from its source
    warnings: list[str] = []
    try:
        fetched = source.fetch()
    except ConfigUnreachable as error:
        if not whole or stored is None or not has_joined(host, stored):
            raise
        # Its token and its address have served: a node that works goes on without them.
        why = f"{error.what} ({error.where}): {error.why}"
        warnings.append(f"{why}. This machine has joined: it goes on with the configuration it has")
        source = Stored(known)
        fetched = source.fetch()
    document = merge(fetched.document, overrides)
    if stored and REDACTED in canonical(document):
        document = restore_secrets(document, stored)
    if not check:  # in check mode nothing has been minted yet
        check_secrets(document, known)
    watched = following(known, source, fetched, overrides, durable=durable)
    config = parse(
        document, purpose="prepare" if purpose == "prepare" else "join", pollable=watched is not None
    )
    check_available(config, pollable=watched is not None)
    if known.directory != config.paths.data_dir and (known.journal.entries() or stored):
        accepted = f"{known.directory}, as long as this machine is a node; unbootstrap first to move it"
        raise ConfigInvalid([Problem("paths.dataDir", shown(config.paths.data_dir), accepted)])
    store = store_of(host, config.paths.data_dir)
    if purpose != "prepare":
        check_token(config, store, host)
        check_name(config, store, stored, host)
    changed = not whole or stored is None or canonical(stored) != canonical(document)
    if look:
        look(document)
    if not check:
        store.set_current_config(document, fetched.version)
        # After the document: an address must not claim that something was seen which is not here.
        proxy = asdict(proxies(config)) if config.proxy.http or config.proxy.https else {}
        store.set_source(replace(watched, proxy=proxy).as_dict() if watched else None)
    return Obtained(document, fetched.version, changed, tuple(warnings))


def following(
    known: Store, source: Source, fetched: Fetched, overrides: Mapping[str, Any], *, durable: bool
) -> Watched | None:
    """The address that is followed from now on; None where the source has none that can be asked again."""
    watched = Watched.of(known.source())
    if isinstance(source, Seen):
        return source.watched
    if isinstance(source, Stored):
        now = watched and replace(watched, over=layered(watched.over, overrides))
    elif durable and isinstance(source, Url):
        now = Watched(
            source.url,
            source.ca,
            overrides,
            watched.proxy if watched else {},
            fetched.etag,
            fetched.digest,
            fetched.version,
            settled=True,
        )
    else:
        return None
    # The same once more is as settled as it was; anything else is not, before it has been applied.
    return now if now == watched or now is None else replace(now, settled=False)


def has_joined(host: Host, document: Mapping[str, Any]) -> bool:
    """Whether the kubelet of a stored document has a certificate of its own, or has shown its tokens."""
    try:
        config = parse(document, purpose="prepare", pollable=True)
    except ConfigInvalid:
        return False
    store = store_of(host, config.paths.data_dir)
    if lives_on_tokens(config):  # its kubeconfig is our own work, from before the join
        return store.applied_if_whole() is not None
    return our_kubelet(store) and host.exists(kubelet_identity(config))


def our_kubelet(store: Store) -> bool:
    """Whether we placed the kubelet: a certificate may lie here that is another cluster's."""
    return any(entry.name == f"{UNIT_DIR}/{KUBELET}" for entry in store.journal.entries())


def check_secrets(document: Mapping[str, Any], store: Store) -> None:
    """A place where a secret is only marked is no secret."""
    if missing := placeholders(document):
        raise ConfigMissing(
            "the configuration has no secrets, and none are stored on this machine",
            where=f"{', '.join(missing)}; {store.directory}",
            why="a secret is left out for machines that have it already",
            fix=HOW_TO_GO_ON,
        )


def check_token(config: NodeConfig, store: Store, host: Host) -> None:
    """A token that was refused is not tried again; to a kubelet with a certificate tokens are nothing."""
    token = config.azure.bootstrap_token
    refused = {"token": token.id, "outcome": "refused"} if token else {}
    if token and store.join() == refused and not host.exists(kubelet_identity(config)):
        raise TokenRefused(
            "this bootstrap token was refused by the API server, and is not tried again",
            where=f"token {token.id}",
            why="it is unknown, expired or was deleted; a token serves one join",
            fix=HOW_TO_GO_ON,
        )


def check_name(config: NodeConfig, store: Store, stored: Mapping[str, Any] | None, host: Host) -> None:
    """A Node can't be renamed: the kubelet's certificate and all its pods go by its name."""
    document: Mapping[str, Any] | None = store.applied_if_whole()
    if document is None and stored and has_joined(host, stored):
        document = stored
    try:
        joined = parse(document, purpose="prepare", pollable=True) if document else config
    except ConfigInvalid:
        return
    if joined.node_name == config.node_name:
        return
    facts = gather(host)
    name, wish = node_name(joined, facts), node_name(config, facts)
    if name != wish:
        accepted = f"{name}, as long as this machine is that Node; unbootstrap first to rename it"
        raise ConfigInvalid([Problem("agent.nodeName", shown(wish), accepted)])


@dataclass(slots=True)
class Reconciled:
    """What a run did, or would do."""

    plan: Plan
    actions: list[str]
    timings: dict[str, float]
    node: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

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
    if given is None:
        stored = store.current_config()
        if stored is None:
            raise ConfigMissing("no configuration is stored on this machine", where=store.directory)
        return store, stored
    stored, _whole = store.remembered()
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
        runs_node = "services" in components
        pollable = check or store.source() is not None  # in check mode nothing was stored
        config = parse(document, purpose="prepare" if prepared else "join", pollable=pollable)
        check_available(config, pollable=pollable)
        check_foreign(host, store, config)
        facts = replace(facts, joined=host.exists(kubelet_identity(config)))
        retired = worthless(config, facts, host, store) if runs_node else []
        if retired:
            facts = replace(facts, joined=False)
        if runs_node:
            check_token(config, store, host)
        resources, ownership = wanted(components, config, facts)
        plan = make_plan(resources, host, store, ownership)
        plan = replace(plan, steps=(*(Step(one, one.change) for one in retired), *plan.steps))
    run = Reconciled(plan, plan.sentences, timings.seconds, warnings=list(plan.left))
    if check:
        return run
    check_secrets(document, store)
    token = config.azure.bootstrap_token
    joined = store.applied_config() is not None  # there is something that worked
    gates: list[Gate] = [UnitsActive(SERVICES), node_gate(config, facts, host)] if runs_node else []
    state = store.state()
    # A leave that was cut off has cordoned the Node: remembered until a join has taken that back.
    half_left = {"leaving": True} if Phase.RESETTING.value == state["phase"] or state.get("leaving") else {}
    clear_leftovers(host, store)
    store.journal.release(plan.settled)

    def attempt() -> None:
        """From here on the kubelet may have used its token."""
        if runs_node and token and not facts.joined:
            store.set_join(token.id, "attempted")

    try:
        if runs_node and not joined:
            check_cluster(config, host)
        if runs_node and plan.changed and (lives_on_tokens(config) or not facts.joined):
            check_identity(config, host)
        if plan.changed:
            if runs_node:
                store.enter(Phase.NODE_BOOTSTRAPPING, **half_left)
            # A client reads the system's CAs, which takes its time: only where there is something to fetch.
            stager = Fetcher(host, download_client(config, host), store.cache) if plan.trees else None
            execute(
                plan,
                host,
                store,
                stager,
                gates,
                timings=timings,
                tell=tell,
                roll_back=joined,
                starting=attempt,
            )
        else:
            attempt()
            with timings.of("gate"):
                for gate in gates:
                    gate.pass_(host)
            store.finish()  # of a run that was killed when all was done
        if runs_node:
            run.actions += settle_node(host, store, config, facts)
            run.actions += uncordon(host, config, facts) if half_left else []
    except FlexNodeError as error:
        used_up = isinstance(error, TokenRefused) and not host.exists(kubelet_identity(config))
        if runs_node:
            outcome = {"join": {"token": token.id, "outcome": "refused"}} if used_up and token else {}
            store.enter(Phase.NODE_FAILED, code=error.code, message=error.what, **half_left, **outcome)
        if used_up:
            stop_joining(host, store)
        raise
    if runs_node:
        # A kubelet that had joined before did so with the token that was noted then.
        used = store.join().get("token") if facts.joined else None
        used = used or (token.id if token else None)
        store.enter(Phase.NODE_JOINED, **({"join": {"token": used, "outcome": "joined"}} if used else {}))
        store.set_applied_config(document)
        if set(components) >= set(COMPONENTS) and (watched := Watched.of(store.source())):
            store.set_source(replace(watched, settled=True).as_dict())
        run.node = seen_node(host, config, facts)
    return run


def worthless(config: NodeConfig, facts: Facts, host: Host, store: Store) -> list[Retired]:
    """The kubelet's certificate, if the API server takes it no more.

    Asked only where there is a reason: another CA than the one in place, or a run that did not end well.
    """
    if lives_on_tokens(config) or not facts.joined or not our_kubelet(store):
        return []
    same = host.text(cluster_ca(config)).strip() == config.api_server.ca.pem.strip()
    if same and store.state()["phase"] == Phase.NODE_JOINED.value:
        return []
    try:
        client = as_kubelet(host, config)
    except FlexNodeError:  # a damaged one is left to the gate, which tells what is wrong with it
        return []
    return [Retired(kubelet_identity(config))] if refused(client, node_name(config, facts)) else []


def stop_joining(host: Host, store: Store) -> None:
    """Never a loop on a dead token: not now, and not after a boot. The next run enables it again."""
    host.run(["systemctl", "stop", KUBELET], timeout=120, check=False)
    link = enabled(KUBELET)[0]
    if any(entry.name == link and entry.was == "absent" for entry in store.journal.entries()):
        host.remove(link)


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


def check_identity(config: NodeConfig, host: Host) -> None:
    """Before anything is touched: the Azure identity that the kubelet is about to show gets a token."""
    if identity_method(config):
        kubernetes_token(config, host)


def node_gate(config: NodeConfig, facts: Facts, host: Host) -> NodeReady:
    """Ready, seen at the API server, with the kubelet's own identity."""
    return NodeReady(
        node=node_name(config, facts),
        version=str(config.kubernetes.version),
        identity=kubelet_identity(config),
        connect=lambda: as_kubelet(host, config),
        azure=identity_method(config) or "",
        cni_mode=config.cni.mode,
        seconds=config.upgrade.gate_seconds,
    )


def as_kubelet(host: Host, config: NodeConfig, attempts: int = 1) -> KubeClient:
    """The API server, as the kubelet of this machine."""
    server = config.api_server
    if lives_on_tokens(config):
        token = kubernetes_token(config, host)
        return KubeClient(server.url, server.ca.pem, token=token, clock=host.clock, attempts=attempts)
    identity = host.path(kubelet_identity(config))
    return KubeClient(server.url, server.ca.pem, certificate=identity, clock=host.clock, attempts=attempts)


def own_node(host: Host) -> tuple[KubeClient, str]:
    """The API server as this machine's kubelet, and the name of its Node."""
    _store, document = stored_document(host, None)
    config = parse(document, pollable=True)
    return as_kubelet(host, config, attempts=3), node_name(config, gather(host))


def download_client(config: NodeConfig, host: Host) -> HttpClient:
    """The client for artifacts: the mirror's CA and the site's proxy."""
    ca = config.mirror.ca_cert
    return HttpClient(ca_pem=ca.pem if ca else "", proxies=proxies(config), clock=host.clock)


def settle_node(host: Host, store: Store, config: NodeConfig, facts: Facts) -> list[str]:
    """A kubelet sets labels only when it registers a Node: later changes are patched, as the node itself.

    With them goes the version that was applied: the status of a flexNodeConfig is read from its Node.
    """
    client, name = as_kubelet(host, config, attempts=3), node_name(config, facts)
    metadata = (client.node(name) or {}).get("metadata", {})
    have = metadata.get("labels", {})
    want = node_labels(config)
    before = ((store.applied_config() or {}).get("node") or {}).get("labels") or {}
    patch: dict[str, str | None] = {key: value for key, value in want.items() if have.get(key) != value}
    patch |= {key: None for key in before if key not in want and key in have}
    version = store.config_version()
    told = {}
    if version and metadata.get("annotations", {}).get(APPLIED_VERSION) != version:
        told = {APPLIED_VERSION: version, APPLIED_TIME: stamp(host.clock)}
    if not patch and not told:
        return []
    client.patch_node(name, {"metadata": {"labels": patch, "annotations": told}})
    return [
        *(
            f"label {key}={value}" if value is not None else f"remove label {key}"
            for key, value in patch.items()
        ),
        *([f"report configuration {version} as applied"] if told else ()),
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
