# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the network probes: the API server, downloads, clocks, Azure. Pure."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Sequence

from ...catalogue.artifacts import skew as version_skew
from ...config.types.values import Version
from ...net.tls import SET_CA
from ...node_object.rights import binding_command, roles_of
from ...procedures.arc.roles import ACTS, ROLES, Role
from ..azure_roles import PURPOSES, assignment_command, missing_roles, needed_by, scope_of
from ..finding import Finding, Outcome, Unchecked, error, listed, warning
from ..seen import Access, Situation, Source
from .owner import versions
from .vpn import USE_VPN, is_private

SLIGHT, GRAVE = 30.0, 300.0  # seconds; Kubernetes backdates certificates by five minutes
SET_CLOCK = (
    "timedatectl set-ntp true; behind a firewall, name the site's time server in /etc/systemd/timesyncd.conf"
)
TOO_EARLY = "certificate is not yet valid"  # so OpenSSL says it
API_CHECKS = ("api-dns", "api-tcp", "api-tls", "api-answer", "version-skew")
AZURE_CHECKS = ("azure-token", "azure-role", "cluster-identity", "cluster-rights")
NOBODY_LISTENS = (
    "check node.kubelet.serverURL, that the cluster is running, and that no firewall rejects the connection"
)
BLOCKED = (
    "allow outgoing TCP to it. If the cluster has authorized IP ranges, add the public address of this site: "
    "`az aks show --query apiServerAccessProfile.authorizedIpRanges` lists them, and `az aks update "
    "--api-server-authorized-ip-ranges` replaces the whole list"
)


def api_server(now: Situation) -> Iterator[Outcome]:
    """DNS, TCP, TLS, HTTP: the first step that fails is the finding."""
    answer, url = now.reached.api, now.config.node.kubelet.server_url or ""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or url
    where = f"{f'[{host}]' if ':' in host else host}:{parts.port or 443}"
    if answer is None:
        waits = now.reached.api_waits_for or "it was not probed"
        yield from (Unchecked(id_, waits) for id_ in API_CHECKS)
        return
    resolved = answer.addresses and host not in answer.addresses
    at = f"{where} ({listed(answer.addresses)})" if resolved else where
    if answer.failed == "dns":
        yield error(
            "api-dns",
            f"{host} can't be resolved: {answer.reason}",
            "the kubelet connects to the API server by this name",
            f"check node.kubelet.serverURL, and the name servers: resolvectl query {host}. The name of a "
            f"private cluster may exist in its VNet only; {USE_VPN}",
        )
    elif answer.failed == "tcp":
        uses_vpn, private = now.config.azure.vpn.enabled, is_private(answer.addresses)
        yield error(
            "api-tcp",
            f"this machine can't connect to the API server at {at}: {answer.reason}",
            "the kubelet needs it all the time, directly, without a proxy",
            USE_VPN
            if private and not uses_vpn
            else "check the network behind the VPN gateway: routes, network security groups"
            if uses_vpn
            else NOBODY_LISTENS
            if "refused" in answer.reason.lower()
            else BLOCKED,
        )
    elif answer.failed == "tls":
        yield error(
            "api-tls",
            f"TLS with {at} fails: {answer.reason}",
            "the kubelet trusts the CA of node.kubelet.caCertData only",
            answer.advice
            or "compare serverURL and caCertData with the cluster's kubeconfig (az aks get-credentials); "
            "a firewall that intercepts TLS must exclude this name",
        )
    elif answer.failed or not answer.is_kubernetes:
        found = answer.reason or f"HTTP {answer.status}, not a Kubernetes answer"
        yield error(
            "api-answer",
            f"the server at {at} is not an API server: {found}",
            "a captive portal, a proxy or another server may answer in its place",
            f"check it: curl --insecure {url}/version",
        )
    else:
        yield from _version(now, answer.version)


def _version(now: Situation, text: str) -> Iterator[Outcome]:
    """The version skew of kubelet and API server is supported."""
    try:
        served = Version.of_build(text)
    except ValueError:
        yield Unchecked("version-skew", "the API server does not report its version to anonymous clients")
        return
    if problem := version_skew(now.config.kubernetes.version, served):
        yield error(
            "version-skew", problem.what, f"Kubernetes does not support it: {problem.why}", problem.fix
        )


def clock(now: Situation) -> Iterator[Outcome]:
    """This machine's clock against the clocks of the servers: the median counts."""
    api = now.reached.api
    measured = [api.skew if api else None, *(source.skew for source in now.reached.sources)]
    skews = [skew for skew in measured if skew is not None]
    if not skews:
        yield _clock_without_answers(now)
        return
    skew = sorted(skews)[len(skews) // 2]
    if abs(skew) < SLIGHT:
        return
    found = f"this machine's clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
    if abs(skew) >= GRAVE:
        yield error("clock-skew", found, "certificates and tokens seem not valid yet, or expired", SET_CLOCK)
    else:
        yield warning("clock-skew", found, "tokens expire early, and log timestamps do not match", SET_CLOCK)


def _clock_without_answers(now: Situation) -> Outcome:
    """What is known of the clock when no server told the time: how it judged their certificates."""
    api = now.reached.api
    asked = {
        "the API server": [api.reason] if api else [],
        "the download servers": [source.failure for source in now.reached.sources],
    }
    early = [name for name, failures in asked.items() if any(TOO_EARLY in failure for failure in failures)]
    if early:
        judged = f"by it, the certificate of {' and of '.join(early)} is not valid yet"
        cause = "no server can be trusted at this time"
        return error("clock-skew", f"this machine's clock is behind: {judged}", cause, SET_CLOCK)
    silent = " and ".join(name for name, failures in asked.items() if failures)
    why = f"{silent} did not answer, or could not be trusted" if silent else "no server was asked"
    compare = f"could not compare this machine's clock with a server's, because {why}"
    return Unchecked("clock-skew", f"{compare}. Check it with `timedatectl`")


def artifacts(now: Situation) -> Iterator[Outcome]:
    """All artifacts can be downloaded; one finding per server and reason."""
    if any(isinstance(outcome, Finding) for outcome in versions(now)):
        yield Unchecked("artifact-unreachable", "not probed: see artifact-unknown")
    grouped: dict[tuple[str, str], list[Source]] = {}
    for source in now.reached.sources:
        if source.failure:
            origin = source.url if source.missing else _origin(source.url)
            grouped.setdefault((origin, source.failure), []).append(source)
    mirrored = bool(now.config.mirror.url)
    for (where, reason), failed in grouped.items():
        names = listed(name for source in failed for name in source.names)
        first = failed[0]
        if first.missing:
            fix = (
                f"add the file to the mirror, or choose a version that it has: {where}"
                if mirrored
                else f"check the version and the URL: curl --head --location {where}"
            )
        elif first.tls:
            fix = first.advice or SET_CA
        elif mirrored:
            fix = f"check that the mirror runs, and that firewall and proxy allow {where}"
        else:
            fix = f"open the firewall for {where}, set proxy.https, or use a mirror (mirror.url)"
        yield error(
            "artifact-unreachable",
            f"can't download {names} from {where}: {reason}",
            "the join downloads it before it changes anything",
            fix,
        )


def registries(now: Situation) -> Iterator[Outcome]:
    """The pause image can be pulled."""
    for source in now.reached.registries:
        if source.failure:
            yield warning(
                "registry-unreachable",
                f"can't pull {listed(source.names)} from {source.url}: {source.failure}",
                "no pod starts without it, unless the image is on the machine already",
                source.advice
                or f"open the firewall for {_origin(source.url)}, or set proxy.https or registryMirrors",
            )


def proxies(now: Situation) -> Iterator[Outcome]:
    """The configured proxy can be reached."""
    for source in now.reached.proxies:
        if source.failure:
            yield error(
                "proxy-unreachable",
                f"{listed(source.names)} {source.url}: {source.failure}",
                "everything that goes through it fails",
                f"check the URL, and that this machine may use it: curl --proxy {source.url} --head URL",
            )


def azure(now: Situation) -> Iterator[Outcome]:
    """The machine's Azure identities: that each gets a token, and which roles it lacks."""
    needed, found = needed_by(now.config), now.reached.access
    if not needed:
        return
    if found is None:
        waits = now.reached.access_waits_for or "no identity is available here"
        yield Unchecked("azure-token", waits)
        if any(needed.values()):
            yield Unchecked("azure-role", waits)
        if "kubernetes" in needed:
            yield Unchecked("cluster-rights", waits)
        return
    reported: list[Access] = []
    for access in found.values():
        if any(access is known for known in reported):
            continue  # the same identity for both
        reported.append(access)
        served = {role for purpose, roles in needed.items() if found[purpose] is access for role in roles}
        roles = [role for role in ROLES.values() if role in served]
        yield from _identity(now, access, roles, kubelet=found.get("kubernetes") is access)


def _identity(now: Situation, access: Access, needed: Sequence[Role], *, kubelet: bool) -> Iterator[Outcome]:
    if access.failure:
        config = now.config
        method = access.method or config.azure_auth.method or config.kubernetes_auth.method
        yield error(
            "azure-token",
            f"no token for the identity {method}: {access.failure}",
            "the kubelet joins with it, or the node uses Azure with it",
            access.advice
            or "check the identity's settings under azure, and the connection to its token service",
        )
        if needed:
            yield Unchecked("azure-role", "there is no token to check with")
        if kubelet:
            yield Unchecked("cluster-rights", "there is no token to check with")
        return
    if kubelet:
        yield from _in_cluster(now, access)
    # The kubelet's rights in the cluster are not checked in Azure: a binding in the cluster grants them too.
    wanted = [role for role in needed if role.key not in ACTS or access.lacks != ()]
    if access.granted is None:
        if wanted:
            yield Unchecked("azure-role", access.why_unread or "the permissions could not be read")
        return
    for role in missing_roles(access.granted, wanted):
        yield error(
            "azure-role",
            f"the identity {access.principal_id or 'of this machine'} has no role {role.name} "
            f"{'at the pool' if now.config.azure.target_agent_pool_name else 'on the cluster'}",
            f"it {PURPOSES[role.key]}",
            assignment_command(role, access.principal_id, scope_of(now.config)),
        )


def _in_cluster(now: Situation, access: Access) -> Iterator[Outcome]:
    """The API server accepts the kubelet's identity, and it has its rights."""
    who = access.principal_id or "OBJECT_ID_OF_THE_IDENTITY"
    if access.not_accepted:
        yield error(
            "cluster-identity",
            f"the API server does not accept the identity {who}: {access.not_accepted}",
            "the kubelet authenticates with it",
            "check azure.tenantId, and that the cluster has Entra ID integration: az aks show --query "
            "aadProfile",
        )
    elif access.lacks:
        token = now.config.kubernetes_auth.profile == "token"
        lines = "; ".join(binding_command(role, who, now.node_name) for role in roles_of(access.lacks))
        yield error(
            "cluster-rights",
            f"the identity {who} may not {listed(act.words for act in access.lacks)} in the cluster",
            "the kubelet does all its work with it"
            if token
            else "the kubelet requests its certificate with it",
            f"grant the Azure roles that are named here or, on a cluster without Azure RBAC: {lines}"
            if token
            else lines,
        )
    elif access.why_unasked:
        yield Unchecked("cluster-rights", access.why_unasked)


def _origin(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
