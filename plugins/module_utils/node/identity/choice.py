# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which identity this machine uses for which purpose. Kubelet and node are independent choices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from ..config.auth import azure_method, kubelet_method
from ..config.model import AZURE_METHODS, NodeConfig
from ..machine.host import Host
from ..net.proxy import proxies
from .cache import Cached
from .errors import CredentialUnusable, IdentityMissing
from .token import Source

if TYPE_CHECKING:
    from ..net.http_client import HttpClient
    from .service_principal import Proof

Purpose = Literal["kubernetes", "azure"]
PURPOSES: tuple[Purpose, ...] = ("kubernetes", "azure")
AKS = "6dae42f8-4368-4678-94ff-3960e28e3630"  # AKS's server application, the same in every tenant
ENDPOINT_VARIABLE = "IDENTITY_ENDPOINT"  # set by the Arc agent's packages
TIMEOUT, HURRY = 10.0, 5.0
ATTEMPTS = 4


def method_for(config: NodeConfig, purpose: Purpose) -> str | None:
    """The Azure method for a purpose; None: no Azure identity."""
    method = kubelet_method(config) if purpose == "kubernetes" else azure_method(config)
    return method if method in AZURE_METHODS else None


def audience_for(config: NodeConfig, purpose: Purpose) -> str:
    """The audience of tokens for a purpose."""
    return AKS if purpose == "kubernetes" else f"{config.azure.resource_manager.rstrip('/')}/"


def identity_for(
    config: NodeConfig,
    host: Host,
    purpose: Purpose,
    environment: Mapping[str, str] | None = None,
    *,
    hurry: bool = False,
) -> Cached:
    """The configured identity for a purpose. hurry: one short attempt to get a token."""
    method = method_for(config, purpose)
    if method is None:
        joins = purpose == "kubernetes" and kubelet_method(config) == "bootstrapToken"
        uses = "a bootstrap token" if joins else "no Azure identity"
        raise IdentityMissing(
            f"the configuration has no Azure identity for {purpose}",
            where="kubernetesAuth.method" if purpose == "kubernetes" else "azureAuth.method",
            why=f"it uses {uses}",
            fix="set azure.servicePrincipal, azure.managedIdentity or azure.arc.enabled",
        )
    return identity_of(method, config, host, environment, hurry=hurry)


def kubernetes_token(config: NodeConfig, host: Host) -> str:
    """The kubelet's present token for the API server."""
    return identity_for(config, host, "kubernetes").token(AKS).value.reveal()


def identity_of(
    method: str,
    config: NodeConfig,
    host: Host,
    environment: Mapping[str, str] | None = None,
    *,
    hurry: bool = False,
) -> Cached:
    """The identity of one method, with cached tokens."""
    source = source_of(method, config, host, os.environ if environment is None else environment)
    return Cached(source, host, hurry=hurry)


def source_of(method: str, config: NodeConfig, host: Host, environment: Mapping[str, str]) -> Source:
    """The token source of a method; only that one is imported."""
    if method == "arc":
        from .himds import ENDPOINT as HIMDS
        from .himds import ArcMetadata

        return ArcMetadata(host, endpoint=environment.get(ENDPOINT_VARIABLE) or HIMDS)
    if method == "managedIdentity":
        from .imds import InstanceMetadata

        managed = config.azure.managed_identity
        return InstanceMetadata(managed.client_id if managed else None, host.clock)
    principal = config.azure.service_principal
    if principal is None:
        raise IdentityMissing(
            "no service principal is configured",
            where="azure.servicePrincipal",
            fix="set azure.servicePrincipal, or choose another method",
        )
    from ..net.http_client import HttpClient  # slow to import
    from .service_principal import ServicePrincipal

    def connect(hurry: bool) -> HttpClient:
        timeout, attempts = (HURRY, 1) if hurry else (TIMEOUT, ATTEMPTS)
        return HttpClient(proxies=proxies(config), clock=host.clock, timeout=timeout, attempts=attempts)

    return ServicePrincipal(
        principal.client_id,
        principal.client_tenant,
        proof_of(config, host),
        config.azure.sign_in,
        host,
        connect,
    )


def proof_of(config: NodeConfig, host: Host) -> Proof:
    """The credential of the configured service principal."""
    from .service_principal import SecretFile, SecretText

    principal = config.azure.service_principal
    certificate = getattr(principal, "client_certificate_file", None)
    if certificate:
        from .assertion import CertificateFile

        return CertificateFile(host, str(certificate))
    if principal and principal.client_secret and not principal.client_secret.redacted:
        return SecretText(principal.client_secret)
    if principal and principal.client_secret_file:
        return SecretFile(host, principal.client_secret_file)
    raise CredentialUnusable(
        "the service principal has no credential",
        where="azure.servicePrincipal",
        why="neither clientSecret, clientSecretFile nor clientCertificateFile is set",
        fix="set one of them",
    )
