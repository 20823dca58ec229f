# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service principal, with a secret or a certificate."""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Callable
from typing import Protocol

from ..dataclass import dataclass
from ..machine.host import Host
from ..net.answer import HttpFailure
from ..net.http_client import HttpClient
from ..secret import Secret
from .errors import CredentialUnusable, IdentityRefused, TokenSourceUnreachable
from .imds import error_text
from .token import Issued, read_answer

ROTATE = (
    "set the new secret in azure.servicePrincipal, then run playbook aks.flexnode.bootstrap or "
    "aks.flexnode.update, or `aks-flex-node join` again"
)
# The remedies for Entra's most frequent errors.
REMEDIES = {
    "AADSTS7000215": f"the secret is wrong (its value is needed, not its id): {ROTATE}",
    "AADSTS7000222": f"the secret has expired; renew it: az ad app credential reset --id CLIENT_ID; {ROTATE}",
    "AADSTS700016": "the application is not in this tenant: check clientId and clientTenant",
    "AADSTS90002": "there is no such tenant: check azure.servicePrincipal.clientTenant",
    "AADSTS900021": "there is no such tenant: check azure.servicePrincipal.clientTenant",
    "AADSTS700027": "the certificate is not one of the application's (az ad app credential list --cert --id "
    "CLIENT_ID): upload it, or correct clientCertificateFile",
    "AADSTS700024": "this machine's clock is wrong: see `timedatectl`",
    "AADSTS7000112": "the application is disabled: enable it in Entra ID",
    "AADSTS53003": "a conditional-access policy blocks this sign-in: allow this machine's IP address there",
    "AADSTS500011": "the audience is unknown here: check azure.cloud and azure.resourceManagerEndpoint",
}


class Proof(Protocol):
    """The credential of a service principal."""

    def key(self) -> str:
        """Identifies the credential."""

    def fields(self, client_id: str, endpoint: str) -> dict[str, str]:
        """The fields of the token request; used nowhere else."""


@dataclass(frozen=True)
class SecretText:
    """A secret of the configuration."""

    secret: Secret

    def key(self) -> str:
        """Its digest."""
        return hashlib.sha256(self.secret.reveal().encode()).hexdigest()

    def fields(self, client_id: str, endpoint: str) -> dict[str, str]:
        """The secret itself."""
        return {"client_secret": self.secret.reveal()}


@dataclass(frozen=True)
class SecretFile:
    """A secret in a file on the machine; read each time, so that it can be replaced."""

    host: Host
    path: str

    def key(self) -> str:
        """The digest of its present content."""
        return SecretText(self._read()).key()

    def fields(self, client_id: str, endpoint: str) -> dict[str, str]:
        """The secret itself."""
        return SecretText(self._read()).fields(client_id, endpoint)

    def _read(self) -> Secret:
        try:
            text = self.host.text(self.path).strip()
            why = "it is empty or missing"
        except OSError as error:
            text, why = "", error.strerror or str(error)
        if not text:
            raise CredentialUnusable(
                "the service principal's secret can't be read",
                where=self.path,
                why=why,
                fix="write the secret to it (mode 0600, owner root), or correct "
                "azure.servicePrincipal.clientSecretFile",
            )
        return Secret(text)


class ServicePrincipal:
    """Client credentials at Entra ID."""

    def __init__(
        self,
        client_id: str,
        tenant: str,
        proof: Proof,
        sign_in: str,
        host: Host,
        connect: Callable[[bool], HttpClient],
    ) -> None:
        self._client_id = client_id
        self._proof = proof
        self._endpoint = f"{sign_in.rstrip('/')}/{urllib.parse.quote(tenant, safe='')}/oauth2/v2.0/token"
        self._host = host
        self._connect = connect  # a client loads the system's CAs: only if it is needed

    @property
    def name(self) -> str:
        """The identity in words."""
        return f"service principal {self._client_id}"

    @property
    def key(self) -> str:
        """Includes the credential: a new secret is used at once, not when the old token expires."""
        return "\0".join(("servicePrincipal", self._endpoint, self._client_id, self._proof.key()))

    def issue(self, audience: str, *, hurry: bool) -> Issued:
        """A new token; the HTTP client handles time-outs and retries."""
        form = {
            "grant_type": "client_credentials",
            "client_id": self._client_id,
            "scope": f"{audience.rstrip('/')}/.default",
            **self._proof.fields(self._client_id, self._endpoint),
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        body = urllib.parse.urlencode(form).encode()
        try:
            answer = self._connect(hurry).request("POST", self._endpoint, body=body, headers=headers)
        except HttpFailure as failure:
            raise self._explained(failure) from failure
        return read_answer(answer.body, answer.headers, self._host.clock, self._endpoint)

    def _explained(self, failure: HttpFailure) -> IdentityRefused | TokenSourceUnreachable:
        if failure.status in (400, 401, 403):
            why = error_text(failure.body)
            code = (re.findall(r"AADSTS\d+", why) or [""])[0]
            return IdentityRefused(
                f"Entra ID refuses the {self.name}",
                where=self._endpoint,
                why=why if why != "no reason stated" else failure.reason,
                fix=REMEDIES.get(
                    code, f"check azure.servicePrincipal: clientId, clientTenant and secret. {ROTATE}"
                ),
            )
        return TokenSourceUnreachable(
            "Entra ID can't be reached",
            where=failure.url,
            why=failure.reason,
            fix=failure.advice
            or (
                "if the site's proxy intercepts TLS, add its CA to the system store (update-ca-certificates)"
                if failure.tls
                else "check DNS, firewall and `proxy`, or azure.activeDirectoryEndpoint"
            ),
        )
