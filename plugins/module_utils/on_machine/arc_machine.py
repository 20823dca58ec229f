# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the options of the modules arc_register and arc_info; the result is what they return."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ..node.config.sections.azure import CLOUDS
from ..node.engine.records.state import store_of
from ..node.errors import CaMismatch, FlexNodeError, Forbidden
from ..node.identity.choice import AKS
from ..node.identity.errors import TokenSourceUnreachable
from ..node.identity.token import Identity
from ..node.machine.clock import Clock
from ..node.machine.host import Host
from ..node.net.http_client import HttpClient
from ..node.net.kube import KubeClient
from ..node.net.proxies import Proxies
from ..node.node_object.rights import refused
from ..node.procedures.arc.agent import Registration, RegistrationRequest
from ..node.procedures.arc.errors import ArmUnusable
from ..node.procedures.arc.registration import (
    Outcome,
    Package,
    own_identity,
    own_principal,
    query,
    register,
    unregister,
)
from ..node.procedures.arc.roles import (
    ROLES,
    Grants,
    Missing,
    missing_bindings,
    missing_roles,
    needed,
    wait_for_roles,
)
from ..node.secret import Secret
from ..node.sources.machines import pool_id
from ..node.status.publish import publish

Params = Mapping[str, Any]
Result = dict[str, Any]
T = TypeVar("T")

PATIENCE, PAUSE = 30.0, 3.0
CERTIFICATE = "pki/kubelet-client-current.pem"


def register_machine(host: Host, params: Params, *, check: bool) -> Result:
    """Register this machine, and return or wait for the roles that its identity lacks."""
    progress: list[str] = []
    store = store_of(host, params["data_dir"])
    try:
        outcome = register(
            host,
            store,
            request_of(params),
            _access_token(params),
            package_=package_of(params, host),
            proxy=params["proxy"],
            services_seconds=params["services_seconds"],
            check=check,
            progress=progress.append,
        )
    finally:
        if not check:
            publish(host, store)
    wait = 0 if check else int(params["wait_roles_seconds"])
    # A wait for roles retries anyway; without one, the seconds after the agent's start are retried here.
    seconds = 0 if check or wait else PATIENCE
    more = _rights(host, params, outcome, progress, seconds=seconds, wait=wait)
    return {**_changes(outcome), **outcome.as_dict(), **more, "progress": progress}


def unregister_machine(host: Host, params: Params, *, check: bool) -> Result:
    """Remove the registration that this collection created; others stay, and are reported."""
    progress: list[str] = []
    outcome = unregister(
        host, _access_token(params), local_only=params["local_only"], check=check, progress=progress.append
    )
    return {**_changes(outcome), **outcome.as_dict(), "remains": outcome.remains, "progress": progress}


def inspect_machine(host: Host, params: Params) -> Result:
    """The registration of this machine. What can't be queried is reported in `progress`, it is no failure."""
    progress: list[str] = []
    outcome = query(host)
    try:
        more = _rights(host, params, outcome, progress, seconds=0, wait=0)
    except FlexNodeError as error:
        more = {}
        progress.append(f"{error.what}: {error.why}")
    return {"changed": False, **outcome.as_dict(), **more, "progress": progress}


def retried(ask: Callable[[], T], clock: Clock, seconds: float, progress: list[str]) -> T:
    """Retry transient failures: an agent that was just started, a lost connection."""
    deadline = clock.monotonic() + seconds
    while True:
        try:
            return ask()
        except (ArmUnusable, TokenSourceUnreachable) as failure:
            if getattr(failure.__cause__, "final", False) or clock.monotonic() >= deadline:
                raise
            progress.append(f"{failure.what}: {failure.why}")
            clock.sleep(PAUSE)


def request_of(params: Params) -> RegistrationRequest:
    """The registration that the options request."""
    name = str(params["machine_name"] or socket.gethostname())
    return RegistrationRequest(
        registration=Registration(str(params["subscription_id"]), str(params["resource_group"]), name),
        tenant_id=str(params["tenant_id"]),
        location=str(params["location"]),
        cloud=str(params["cloud"]),
        tags={str(key): str(value) for key, value in params["tags"].items()},
    )


def package_of(params: Params, host: Host) -> Package | None:
    """The package of the agent, if there is one to install."""
    if not params["package_url"]:
        return None
    client = HttpClient(ca_pem=str(params["ca_cert"] or ""), proxies=_proxies(params), clock=host.clock)
    return Package(str(params["package_url"]), str(params["package_sha256"]).lower(), client)


def _rights(
    host: Host, params: Params, outcome: Outcome, progress: list[str], *, seconds: float, wait: int
) -> Result:
    """The identity of a connected machine, and the roles that it lacks at its cluster."""
    if not outcome.status.connected:
        return {}
    arm = params["resource_manager_endpoint"] or CLOUDS[params["cloud"]][0]
    outcome.principal_id = retried(partial(own_principal, host, arm), host.clock, seconds, progress)
    if not params["cluster_id"]:
        return {}
    ask = partial(_missing, params, host, arm, progress, wait)
    return {"missing_roles": [one.as_dict() for one in retried(ask, host.clock, seconds, progress)]}


def _missing(params: Params, host: Host, arm: str, progress: list[str], wait: int) -> list[Missing]:
    """The roles that are missing now; with `wait` it returns when none is, or raises when the time is up."""
    identity = own_identity(host)
    grants = Grants(identity, arm, HttpClient(proxies=_proxies(params), clock=host.clock))
    pool, cluster = str(params["pool"] or ""), str(params["cluster_id"])
    scope = pool_id(cluster, pool) if pool else cluster
    roles = params["roles"] if params["roles"] is not None else needed(params["profile"], pool=bool(pool))

    def query_missing() -> list[Missing]:
        missing = missing_roles(grants, identity, scope, roles)
        # Azure's role comes first: it takes effect in the cluster through Azure.
        if any(one.role_id == ROLES["rbac-cluster-admin"].id for one in missing):
            return missing
        return [*missing, *_missing_in_cluster(params, host, identity, arm, waiting=wait > 0)]

    if wait:
        wait_for_roles(query_missing, host.clock, wait, progress.append)
        return []
    return query_missing()


def _missing_in_cluster(
    params: Params, host: Host, identity: Identity, arm: str, *, waiting: bool
) -> list[Missing]:
    if not params["server_url"]:
        return []
    name, profile = str(params["node_name"] or socket.gethostname()).lower(), str(params["profile"])
    certificate = f"{params['kubelet_dir']}/{CERTIFICATE}"
    try:
        ca_pem = base64.b64decode(str(params["ca_cert_data"]), validate=True).decode()
        # Three attempts: one lost connection must not count as a missing right.
        connect = partial(KubeClient, str(params["server_url"]), ca_pem, clock=host.clock, attempts=3)
        certified = profile == "certificate" and host.exists(certificate)
        if certified and not refused(connect(certificate=host.path(certificate)), name):
            return []  # the kubelet has its certificate, so the right to obtain one is not needed
        client = connect(token=identity.token(AKS).value.reveal())
    except (ValueError, CaMismatch, Forbidden):  # preflight reports these, with the field to correct
        return []
    return missing_bindings(client, identity, f"{arm.rstrip('/')}/", profile, name, waiting=waiting)


def _changes(outcome: Outcome) -> Result:
    after = "".join(f"{action}\n" for action in outcome.actions)
    return {
        "changed": outcome.changed,
        "actions": outcome.actions,
        "diff": {"before": "", "after": after},
    }


def _access_token(params: Params) -> Secret | None:
    return Secret(params["access_token"]) if params["access_token"] else None


def _proxies(params: Params) -> Proxies:
    proxy = str(params["proxy"] or "")
    return Proxies(proxy, proxy)
