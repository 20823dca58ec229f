# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All network probes, in parallel and within one time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..catalogue.artifacts import Artifact, artifacts_of
from ..config.model import NodeConfig
from ..engine.records.state import store_of
from ..errors import ConfigInvalid, NotInCatalogue
from ..identity.choice import PURPOSES, Purpose, method_for
from ..machine.facts import ARCHITECTURES
from ..machine.host import Host
from ..machine.layout import STAGING, VPN_DEVICE
from ..net.http_client import HttpClient
from ..net.kube import KubeClient
from ..net.proxy import proxies
from ..resources.tree import Manifest, place_of
from .finding import Stage
from .probes.azure import Asked, Identify, ask_azure, own_identity
from .probes.parallel import together
from .probes.reach import PATIENCE, ask_api, ask_artifacts, ask_proxies, ask_registries
from .seen import Access, ApiAnswer, Machine, Reached, Source

SECONDS = 15.0  # for all probes together; most answer within one
# Steps of a connection, each with its own limit: connect, TLS, answer. One more for the resolver, which has
# none: if everything is late, the resolver is the cause.
STEPS = 4
LATE = "no answer in time"
TUNNEL = f"/sys/class/net/{VPN_DEVICE}"
ARC_AGENT = "/var/opt/azcmagent/agentconfig.json"  # exists while the machine is registered
API, AZURE = "api", "azure"


def reach(
    host: Host,
    config: NodeConfig,
    machine: Machine,
    stage: Stage,
    identify: Identify | None = own_identity,
    seconds: float = SECONDS,
) -> Reached:
    """Run all probes; a probe without a result within `seconds` counts as no answer."""
    patience = min(PATIENCE, seconds / STEPS)
    api_waits, access_waits = first_comes(host, config, stage)
    asked: dict[str, Callable[[], ApiAnswer | dict[Purpose, Access] | Source]] = {}
    if config.node.kubelet.server_url and not api_waits:
        asked[API] = lambda: ask_api(config.api_server, host.clock, patience)
    if identify is not None and not access_waits and uses_azure(config):
        way = identify
        arm = HttpClient(proxies=proxies(config), clock=host.clock, timeout=patience, attempts=1)
        connect = asker(config, machine, host, patience) if not api_waits else None
        whom = Asked(arm, connect, api_waits, patience)
        asked[AZURE] = lambda: ask_azure(config, host, way, whom)
    try:
        # A slow mirror is not a missing one: it may use nearly all of the time.
        files = ask_artifacts(to_download(host, config, machine), config, host.clock, 0.8 * seconds)
        registries = ask_registries(config, host.clock, patience)
    except ConfigInvalid as invalid:  # a CA that OpenSSL does not accept
        files, registries = {}, {}
        reason = "; ".join(str(problem) for problem in invalid.problems)
        asked["mirror.caCert"] = lambda: Source(("mirror.caCert",), config.mirror.url or "", reason, tls=True)
    named = ask_proxies(config, patience)
    answers, late = together({**asked, **files, **registries, **named}, seconds)

    def sources(names: Iterable[str]) -> tuple[Source, ...]:
        found = (answers.get(name) for name in names)
        none = tuple(Source((name.rpartition("/")[2] or name,), name, LATE) for name in names if name in late)
        return tuple(item for item in found if isinstance(item, Source)) + none

    api, access = answers.get(API), answers.get(AZURE)
    if API in late:  # every step but the resolver has a limit
        api = ApiAnswer("dns", LATE)
    if AZURE in late:
        access = {purpose: Access(LATE) for purpose in PURPOSES if method_for(config, purpose)}
    return Reached(
        api if isinstance(api, ApiAnswer) else None,
        sources([*files, "mirror.caCert"]),
        sources(list(registries)),
        sources(list(named)),
        access if isinstance(access, dict) else None,
        api_waits,
        access_waits,
    )


def asker(
    config: NodeConfig, machine: Machine, host: Host, seconds: float
) -> Callable[[str], KubeClient] | None:
    """How to query the API server with a token; a kubelet with a certificate needs no other rights."""
    certified = machine.joined and config.kubernetes_auth.profile == "certificate"
    if certified or not config.node.kubelet.server_url:
        return None
    server = config.api_server
    return lambda token: KubeClient(
        server.url, server.ca.pem, token=token, clock=host.clock, attempts=1, timeout=seconds
    )


def first_comes(host: Host, config: NodeConfig, stage: Stage) -> tuple[str, str]:
    """What must be done before the API server or Azure can be queried; nothing in the second stage."""
    if stage != "all":
        return "", ""
    tunnel = config.azure.vpn.enabled and not host.exists(TUNNEL)
    arc = "arc" in (config.azure_auth.method, config.kubernetes_auth.method) and not host.exists(ARC_AGENT)
    return (
        "the VPN is not up yet" if tunnel else "",
        "this machine is not registered with Arc yet" if arc else "",
    )


def uses_azure(config: NodeConfig) -> bool:
    """Whether the machine has an Azure identity."""
    return config.azure_auth.method is not None or config.kubernetes_auth.method not in (
        None,
        "bootstrapToken",
    )


def to_download(host: Host, config: NodeConfig, machine: Machine) -> list[Artifact]:
    """The artifacts that are neither installed nor in the cache."""
    arch = ARCHITECTURES.get(machine.machine)
    if arch is None:
        return []
    try:
        found = artifacts_of(config, arch).values()
    except NotInCatalogue:
        return []  # reported by a check of the first stage
    cache = store_of(host, config.paths.data_dir).cache
    return [item for item in found if not machine.root or not _here(host, item, cache)]


def _here(host: Host, artifact: Artifact, cache: str) -> bool:
    place = place_of(artifact)
    # Installed, or unpacked by a run that did not get further.
    unpacked = (Manifest.read(host, place), Manifest.read(host, place + STAGING))
    return host.exists(f"{cache}/{artifact.sha256}") or any(
        manifest is not None and manifest.artifact == artifact.sha256 for manifest in unpacked
    )
