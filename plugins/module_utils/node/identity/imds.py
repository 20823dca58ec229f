# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The managed identity of an Azure VM: the Instance Metadata Service (IMDS)."""

from __future__ import annotations

import json
import urllib.parse

from ..machine.clock import Clock
from .errors import IdentityMissing, IdentityRefused, TokenSourceUnreachable
from .local_http import NoAnswer, Reply, ask
from .token import Issued, read_answer

ENDPOINT = "http://169.254.169.254/metadata/identity/oauth2/token"
API_VERSION = "2018-02-01"
HEADERS = {"Metadata": "true"}  # IMDS refuses requests that a web page could cause
TIMEOUT = 5.0
# Azure: retry 404, 410, 429 and 5xx with growing pauses, and 410 (an update of IMDS) for 70 s at least.
FIRST_PAUSE = 0.8
ATTEMPTS = 6
UPDATE_PAUSE = 3.0
SILENT_ATTEMPTS = 3  # outside Azure nothing answers
NOT_IN_AZURE = (
    "azure.managedIdentity is for Azure VMs; elsewhere use azure.arc.enabled or azure.servicePrincipal"
)


class InstanceMetadata:
    """The system-assigned identity, or the user-assigned one of `client_id`."""

    def __init__(self, client_id: str | None, clock: Clock, *, endpoint: str = ENDPOINT) -> None:
        self._client_id = client_id
        self._clock = clock
        self._endpoint = endpoint

    @property
    def name(self) -> str:
        """The identity in words."""
        return (
            f"managed identity {self._client_id}" if self._client_id else "system-assigned managed identity"
        )

    @property
    def key(self) -> str:
        """Method and client."""
        return f"managedIdentity\0{self._endpoint}\0{self._client_id or ''}"

    def issue(self, audience: str, *, hurry: bool) -> Issued:
        """A new token; IMDS has its own cache."""
        query = {"api-version": API_VERSION, "resource": audience}
        if self._client_id:
            query["client_id"] = self._client_id
        url = f"{self._endpoint}?{urllib.parse.urlencode(query)}"
        reply = self._patiently(url, 1 if hurry else ATTEMPTS)
        if reply.status == 200:
            return read_answer(reply.body, reply.headers, self._clock, self._endpoint)
        raise self._refused(reply)

    def _patiently(self, url: str, attempts: int) -> Reply:
        attempt = 0
        while True:
            attempt += 1
            try:
                reply = ask(url, HEADERS, TIMEOUT)
            except NoAnswer as error:
                if attempt >= min(attempts, SILENT_ATTEMPTS):
                    raise TokenSourceUnreachable(
                        "the metadata service of this VM does not answer",
                        where=self._endpoint,
                        why=str(error),
                        fix=f"{NOT_IN_AZURE}. On an Azure VM, check its routes and firewall",
                    ) from error
                first = FIRST_PAUSE
            else:
                if not passing(reply.status) or attempt >= attempts:
                    return reply
                first = UPDATE_PAUSE if reply.status == 410 else FIRST_PAUSE
            self._clock.sleep(first * 2 ** (attempt - 1))

    def _refused(self, reply: Reply) -> IdentityMissing | IdentityRefused | TokenSourceUnreachable:
        why = f"HTTP {reply.status}: {error_text(reply.body)}"
        if reply.status in (400, 404):
            return IdentityMissing(
                f"the {self.name} is not on this VM",
                where=self._endpoint,
                why=why,
                fix="assign it: az vm identity assign --resource-group GROUP --name VM"
                + (" --identities RESOURCE_ID" if self._client_id else "")
                + "; or correct azure.managedIdentity.clientId",
            )
        if passing(reply.status):
            return TokenSourceUnreachable(
                "the metadata service issues no token now",
                where=self._endpoint,
                why=why,
                fix="run this again in a few minutes",
            )
        return IdentityRefused(
            f"no token for the {self.name}", where=self._endpoint, why=why, fix=NOT_IN_AZURE
        )


def passing(status: int) -> bool:
    """An error that Azure documents as transient."""
    return status in (404, 410, 429) or status >= 500


def error_text(body: bytes) -> str:
    """The two error fields of an answer, in one short line."""
    try:
        error = json.loads(body)
        text = f"{error.get('error', '')} {error.get('error_description', '')}".strip()
    except (ValueError, AttributeError):
        text = ""
    return " ".join(text.split())[:300] or "no reason stated"
