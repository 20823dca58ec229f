# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls of a pool that a machine makes at Azure Resource Manager, and how long it waits for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ...config.model import NodeConfig
from ...dataclass import dataclass
from ...engine.restarts import Progress, silent
from ...errors import ConfigUnreachable
from ...identity.choice import audience_for, identity_for
from ...identity.token import claims
from ...machine.clock import Clock
from ...machine.host import Host
from ...net.answer import HttpFailure
from ...net.http_client import HttpClient
from ...net.proxy import proxies
from ...net.retries import spread
from ...secret import Secret
from ...sources.arm_answers import Missing, another_operation, missing, named_kind
from ...sources.errors import BootstrapDataUnusable, MachineUnusable, PoolForbidden
from ...sources.flexnode_config import Reply, url_of
from ...sources.machines import ROLE, api_version, cluster_and_pool, pool_id, role_line

TIMEOUT = 60.0  # seconds of one attempt
ATTEMPTS = 5  # at a server that does not answer, or answers 5xx
PAUSE, LONGEST_PAUSE = 5.0, 60.0
THROTTLED_SECONDS = 1800.0  # in all, while Azure says that there are too many requests
BUSY_SECONDS = 300.0  # in all, while another operation runs on the pool (an upgrade takes longer: an error)
ROLE_SECONDS = 900.0  # in all, while a new role assignment is not effective yet
REPORT_EVERY = 60.0
TRANSIENT = (0, 408, 500, 502, 503, 504)


@dataclass()
class PoolClient:
    """One pool at Azure Resource Manager, as one identity."""

    pool: str  # its id
    endpoint: str
    version: str  # of the API
    http: HttpClient  # one attempt, without redirects: the token is sent nowhere else
    token: Callable[[], Secret]
    clock: Clock
    say: Progress = silent
    role_seconds: float = ROLE_SECONDS
    patient: bool = True  # False: an answer that asks to wait is a failure; the caller tries again later

    @classmethod
    def of(cls, config: NodeConfig, host: Host, say: Progress = silent) -> PoolClient:
        """The pool of a configuration, with the Azure identity of the node."""
        identity, audience = identity_for(config, host, "azure"), audience_for(config, "azure")
        return cls(
            pool_id(str(config.cluster_id), config.azure.target_agent_pool_name or ""),
            config.azure.resource_manager,
            api_version(config),
            HttpClient(
                proxies=proxies(config), clock=host.clock, timeout=TIMEOUT, attempts=1, redirects=False
            ),
            lambda: identity.token(audience).value,
            host.clock,
            say,
        )

    def bootstrap_data(self) -> Mapping[str, Any]:
        """POST listBootstrapData: fresh data with each call, with a token that is valid for an hour."""
        try:
            reply = self.call("POST", "/listBootstrapData", {})
        except HttpFailure as failure:
            raise self._refused(failure) from failure
        found = reply.document
        if not found:
            raise ConfigUnreachable(
                "the answer is not the bootstrap data of a pool",
                where=self.endpoint,
                why="another server may answer in its place (a proxy or a portal)",
            )
        return found

    def machine(self, name: str) -> Reply:
        """GET one machine; a Reply with status 404 if Azure says of this machine that it does not exist."""
        try:
            return self.call("GET", f"/machines/{name}")
        except HttpFailure as failure:
            reply = Reply(failure.status, failure.body)
            if missing(reply.error, f"{self.pool}/machines/{name}") is Missing.ITSELF:
                return reply
            raise self._not_usable(failure, name) from failure

    def put_machine(self, name: str, body: Mapping[str, Any], condition: Mapping[str, str]) -> Reply | None:
        """PUT one machine under a condition; None: someone else changed it meanwhile."""
        try:
            return self.call("PUT", f"/machines/{name}", body, condition)
        except HttpFailure as failure:
            if failure.status == 412:
                return None
            raise self._not_usable(failure, name) from failure

    def call(
        self,
        method: str,
        action: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One answer. Waits while requests are throttled, while a role spreads, and for a busy server."""
        url = url_of(self.endpoint, self.pool, self.version, action)
        content = None if body is None else json.dumps(body).encode()
        began = self.clock.monotonic()
        failures, pause, reported, reported_at = 0, PAUSE, 0, began
        while True:
            try:
                answer = self.http.request(method, url, body=content, headers=self._headers(headers))
                return Reply(answer.status, answer.body)
            except HttpFailure as failure:
                now = self.clock.monotonic()
                failures += failure.status in TRANSIENT
                limit = self._limit(failure) if self.patient else 0.0
                if failure.final and not limit:
                    raise
                late = (limit and now - began >= limit) or failure.retry_after > THROTTLED_SECONDS
                if late or failures >= ATTEMPTS:
                    raise
                if not limit and failure.status not in TRANSIENT:
                    raise
                if failure.status != reported or now - reported_at >= REPORT_EVERY:
                    self._report(failure, now - began, limit)
                    reported, reported_at = failure.status, now
                # As told, and a little more: all machines of a site are told the same.
                wait = failure.retry_after * (1 + spread() / 10) if failure.retry_after else pause * spread()
                self.clock.sleep(min(wait, THROTTLED_SECONDS))
                pause = min(pause * 1.5, LONGEST_PAUSE)

    def _limit(self, failure: HttpFailure) -> float:
        """How long an answer is waited for that passes by itself; 0: waiting does not help."""
        if failure.status == 409:  # a policy forbids with it as well
            return BUSY_SECONDS if another_operation(Reply(409, failure.body).error) else 0.0
        return {429: THROTTLED_SECONDS, 403: self.role_seconds}.get(failure.status, 0.0)

    def _headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        bearer = f"Bearer {self.token().reveal()}"
        return {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Authorization": bearer,
            **(more or {}),
        }

    def _report(self, failure: HttpFailure, spent: float, limit: float) -> None:
        if failure.status == 403:
            self.say(
                f"waiting for role {ROLE} at the pool ({spent:.0f} of {limit:g} s); if it is not assigned:"
            )
            self.say(self._role_line())
        elif failure.status == 429:
            self.say(f"Azure asks to wait: too many requests ({spent:.0f} of {limit:g} s)")
        elif failure.status == 409:
            self.say(f"waiting for another operation on the pool ({spent:.0f} of {limit:g} s)")
        else:
            self.say(f"{failure.url}: {failure.reason}; trying again")

    def _role_line(self) -> str:
        return role_line(str(claims(self.token()).get("oid") or "PRINCIPAL_ID"), self.pool)

    def _refused(self, failure: HttpFailure) -> Exception:
        """What a failed listBootstrapData means."""
        error = Reply(failure.status, failure.body).error
        if failure.status in (400, 404, 409):
            group, cluster, pool = self._names
            create = (
                f"az aks nodepool add --resource-group {group} --cluster-name {cluster} --name {pool} "
                "--vm-set-type FlexNodes --mode User"
            )
            return BootstrapDataUnusable(
                "Azure returns no bootstrap data of this pool",
                where=self.pool,
                why=self._said(failure),
                fix=f"check cluster and pool; create the pool if it does not exist: {create}",
            )
        return self._failed(failure, "the bootstrap data of the pool can't be fetched", error.message)

    def _not_usable(self, failure: HttpFailure, name: str) -> Exception:
        error, machine = Reply(failure.status, failure.body).error, f"{self.pool}/machines/{name}"
        if missing(error, machine) is Missing.ABOVE:
            parents = {"agentpools": "pool", "managedclusters": "cluster"}
            parent = parents.get(named_kind(error), "group or cluster")
            return MachineUnusable(
                f"the {parent} of this machine was not found in Azure",
                where=self.pool,
                why=self._said(failure),
                fix="check cluster and pool: az aks nodepool list --resource-group GROUP --cluster-name "
                "CLUSTER",
            )
        if failure.status in (400, 404, 409):
            return MachineUnusable("Azure refuses this machine", where=machine, why=self._said(failure))
        return self._failed(failure, "the machine of this node can't be read or written", error.message)

    def _said(self, failure: HttpFailure) -> str:
        """What Azure answered, in its words."""
        error = Reply(failure.status, failure.body).error
        return f"{failure.reason}: {error.code}: {error.message}" if error.code else failure.reason

    def _failed(self, failure: HttpFailure, what: str, message: str) -> Exception:
        if failure.status == 403:
            return PoolForbidden(
                "the identity of this machine may not use the pool",
                where=self.pool,
                why=message or failure.reason,
                fix=f"assign the role, wait some minutes, run this again: {self._role_line()}",
            )
        return ConfigUnreachable(
            what,
            where=failure.url,
            why=f"{failure.reason}: {message}" if message else failure.reason,
            fix=failure.advice,
        )

    @property
    def _names(self) -> tuple[str, str, str]:
        cluster, pool = cluster_and_pool(self.pool)
        parts = cluster.split("/")
        return parts[4], parts[-1], pool
