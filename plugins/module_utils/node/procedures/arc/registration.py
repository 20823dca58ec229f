# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Register a machine with Azure Arc, query it, unregister it. Each step is recorded before it is done."""

from __future__ import annotations

import urllib.parse
from typing import Any

from ...dataclass import dataclass, field
from ...engine.records.state import Store, store_of
from ...engine.restarts import Progress, silent
from ...errors import FlexNodeError
from ...identity.cache import Cached, forget_tokens
from ...identity.himds import ArcMetadata
from ...machine.host import Host
from ...net.answer import shown
from ...net.http_client import HttpClient
from ...resources.units import RUNNING
from ...secret import REDACTED, Secret
from . import agent, package
from .agent import RegistrationRequest, Status
from .errors import ArcElsewhere, ArcFailed, ArcMissing, ArcPackageFailed, ArcUnhealthy
from .phases import ArcPhase, forget_phase
from .record import Record
from .roles import principal_of

CHECK_EVERY = 1.0


@dataclass()
class Outcome:
    """What was done, or would be done, and the present registration of this machine."""

    status: Status
    services: dict[str, str] = field(default_factory=dict)
    principal_id: str = ""
    actions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    ours: bool = False  # registered by this collection

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, changed."""
        return bool(self.actions)

    def as_dict(self) -> dict[str, Any]:
        """For modules and --json."""
        seen = self.status
        return {
            "installed": seen.installed,
            "connected": seen.connected,
            "agent_status": seen.state,
            "resource_id": seen.registration.resource_id if seen.registration else "",
            "vm_id": seen.vm_id,
            "tenant_id": seen.tenant_id,
            "location": seen.location,
            "agent_version": seen.version,
            "agent_error": seen.error,
            "principal_id": self.principal_id,
            "services": self.services,
            "registered_by_us": self.ours,
        }


@dataclass(frozen=True)
class Package:
    """URL and digest of the agent's package."""

    url: str
    sha256: str
    client: HttpClient


def query(host: Host) -> Outcome:
    """The present state of this machine in Azure Arc."""
    seen = agent.status(host)
    outcome = Outcome(seen, ours=Record(host).created(seen))
    if seen.installed:
        outcome.services = agent.services(host)
    return outcome


def register(
    host: Host,
    store: Store,
    request: RegistrationRequest,
    token: Secret | None,
    *,
    package_: Package | None = None,
    proxy: str | None = None,
    services_seconds: float = 120,
    check: bool = False,
    progress: Progress = silent,
) -> Outcome:
    """Install the agent, register it as requested, wait until it works. Another registration is an error."""
    phase = ArcPhase(store)
    try:
        outcome = _register(
            host,
            store,
            request,
            token,
            package_=package_,
            proxy=proxy,
            services_seconds=services_seconds,
            phase=None if check else phase,
            progress=progress,
        )
    except FlexNodeError as error:
        if not check:
            phase.failed(error)
        raise
    if not check:
        phase.done()
    return outcome


def _register(
    host: Host,
    store: Store,
    request: RegistrationRequest,
    token: Secret | None,
    *,
    package_: Package | None,
    proxy: str | None,
    services_seconds: float,
    phase: ArcPhase | None,
    progress: Progress,
) -> Outcome:
    """The same; the caller records the end. phase: None in check mode."""
    check = phase is None
    # A redacted proxy URL has a user and password: those are what was redacted.
    if proxy and (REDACTED in proxy or urllib.parse.urlsplit(proxy).username):
        raise ArcFailed(
            "the Arc agent can't use this proxy",
            where="proxy",
            why="it does not support proxies with user and password",
            fix="allow this machine by its IP address in the proxy, and remove user and password",
        )
    record, outcome = Record(host), query(host)
    known = outcome.status.registration
    if known and not known.same(request.registration):
        raise ArcElsewhere(
            f"this machine is registered as {known.resource_id}",
            where=f"wanted: {request.registration.resource_id}",
            why="a machine has one registration"
            + (", and this collection created this one" if outcome.ours else ""),
            fix=f"if it is this machine, set {known.settings(request.registration)}; {agent.CLONED}; else "
            "remove that registration: azcmagent disconnect",
        )
    if not outcome.status.installed:
        if package_ is None:
            raise ArcMissing("azcmagent is not installed on this machine")
        _do(outcome, progress, f"install the Arc agent from {shown(package_.url)}")
    if known is None:
        _do(outcome, progress, f"register this machine as {request.registration.resource_id}")
        if token is None and not check:
            raise ArcFailed(
                "an access token is needed to register this machine",
                where=request.registration.resource_id,
                fix="pass access_token: az account get-access-token --query accessToken",
            )
    if phase is None:
        return outcome
    if outcome.actions:
        phase.begin()
    if package_ and not outcome.status.installed:
        file = package.fetch(host, package_.client, package_.url, package_.sha256, store.cache)
        record.note(package=package_.sha256)
        try:
            package.install(host, file, progress)
        except ArcPackageFailed:
            if not there(host):  # a package installed later is not ours
                record.note(package=None)
            raise
        host.remove(file)
    if proxy is not None and (
        known is None or outcome.ours
    ):  # otherwise it belongs to the existing registration
        _set_proxy(host, record, proxy, outcome, progress)
    if known is None and token is not None:
        record.note(registration=request.registration.resource_id, vm_id=None)
        forget_tokens(host)  # of the previous identity
        try:
            agent.connect(host, request, token)
        except FlexNodeError:
            if agent.status(host).registration is None:
                record.note(registration=None)
            raise
        record.note(vm_id=agent.status(host).vm_id or None)
    done = healthy(host, services_seconds, progress)
    done.actions = outcome.actions
    return done


def there(host: Host) -> bool:
    """Whether an agent is installed, working or not."""
    try:
        return agent.status(host).installed
    except ArcFailed:
        return True


def _shown(proxy: str) -> str:
    """A proxy URL without user and password."""
    user, at, _address = urllib.parse.urlsplit(proxy).netloc.rpartition("@")
    return proxy.replace(f"{user}{at}", "", 1) or "none" if at else proxy or "none"


def _set_proxy(host: Host, record: Record, proxy: str, outcome: Outcome, progress: Progress) -> None:
    """Set the agent's proxy; the previous one is recorded first."""
    now = agent.proxy_of(host)
    if now == proxy:
        return
    recorded = record.read()
    before = recorded.get("proxy_before", now) if recorded.get("proxy") == now else now
    record.note(proxy=proxy, proxy_before=before)
    agent.set_proxy(host, proxy)
    _do(outcome, progress, f"set the Arc agent's proxy: {_shown(proxy)}")


def healthy(host: Host, seconds: float, progress: Progress = silent) -> Outcome:
    """Wait until the agent is connected and its services run."""
    deadline = host.clock.monotonic() + seconds
    reported = False
    while True:
        outcome = query(host)
        idle = [name for name, state in outcome.services.items() if state not in RUNNING]
        if outcome.status.connected and not idle:
            return outcome
        why = (
            f"{', '.join(idle)} not running" if idle else f"its status is {outcome.status.state or 'unknown'}"
        )
        if host.clock.monotonic() >= deadline:
            agent_error = f"; {outcome.status.error}" if outcome.status.error else ""
            raise ArcUnhealthy(
                "the Arc agent does not work",
                where=outcome.status.registration.resource_id if outcome.status.registration else "azcmagent",
                why=why + agent_error,
                fix=f"systemctl restart {' '.join(idle)}; see journalctl -u {idle[0]}"
                if idle
                else "see `azcmagent show` and `azcmagent check`",
            )
        if not reported:
            progress(f"waiting for the Arc agent: {why}")
            reported = True
        host.clock.sleep(CHECK_EVERY)


def unregister(
    host: Host,
    token: Secret | None,
    *,
    local_only: bool = False,
    check: bool = False,
    progress: Progress = silent,
) -> Outcome:
    """Undo the recorded changes only: the registration, the proxy, the package."""
    record, outcome = Record(host), query(host)
    recorded, known = record.read(), outcome.status.registration
    if known and not outcome.ours:
        outcome.remains.append(f"{known.resource_id}: registered by someone else")
    if known and outcome.ours:
        if token is None and not local_only:
            raise ArcFailed(
                "an access token is needed to remove the registration",
                where=known.resource_id,
                fix="pass access_token (az account get-access-token --query accessToken), or local_only: "
                "then the resource stays in Azure",
            )
        _do(outcome, progress, f"remove the registration {known.resource_id}")
        if token is None:
            outcome.remains.append(
                f"{known.resource_id}: removed on this machine only; delete the resource in Azure"
            )
        if not check:
            agent.disconnect(host, token)
            forget_tokens(host)
    # A newer registration by someone else still needs the agent.
    if outcome.status.installed and (outcome.ours or known is None) and "proxy" in recorded:
        before = str(recorded.get("proxy_before", ""))
        if not recorded.get("package") and before != recorded["proxy"] == agent.proxy_of(host):
            _do(outcome, progress, f"restore the Arc agent's proxy: {_shown(before)}")
            if not check:
                agent.set_proxy(host, before)
    removes_package = (
        bool(recorded.get("package")) and outcome.status.installed and (outcome.ours or known is None)
    )
    if removes_package:
        _do(outcome, progress, "remove the Arc agent")
        if not check:
            package.purge(host, progress)
    if not check:
        record.note(
            registration=None,
            vm_id=None,
            proxy=None,
            proxy_before=None,
            **({"package": None} if removes_package or not outcome.status.installed else {}),
        )
        forget_phase(store_of(host))
        seen = query(host)
        outcome.status, outcome.services, outcome.ours = seen.status, seen.services, seen.ours
    return outcome


def own_identity(host: Host) -> Cached:
    """The Arc identity of this machine."""
    return Cached(ArcMetadata(host), host)


def own_principal(host: Host, resource_manager: str) -> str:
    """The object id of this machine's identity, from its token."""
    return principal_of(own_identity(host), f"{resource_manager.rstrip('/')}/")


def _do(outcome: Outcome, progress: Progress, sentence: str) -> None:
    outcome.actions.append(sentence)
    progress(sentence)
