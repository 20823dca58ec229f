# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose tokens the API server accepts besides its own certificates: Entra's, by structured authentication."""

from __future__ import annotations

from typing import Any

from testbed.layout import versions
from testbed.layout.identifiers import AKS_SERVER

STABLE = (1, 34)
"""The first line that knows the stable form; older ones know the same fields as a beta."""


def document(
    origin: str, tenant_id: str, ca_pem: str, kubernetes: str = versions.KUBERNETES
) -> dict[str, Any]:
    """The API server's configuration, in a form that this version of it reads."""
    form = "v1" if versions.line(kubernetes) >= STABLE else "v1beta1"
    return {
        "apiVersion": f"apiserver.config.k8s.io/{form}",
        "kind": "AuthenticationConfiguration",
        "jwt": _entra(origin, tenant_id, ca_pem),
    }


def _entra(origin: str, tenant_id: str, ca_pem: str) -> list[dict[str, Any]]:
    base = f"{origin}/{tenant_id}"
    # Version 1 tokens name an issuer without a discovery endpoint, version 2 tokens the authority host.
    issuers = (
        {
            "url": f"https://sts.windows.net/{tenant_id}/",
            "discoveryURL": f"{base}/.well-known/openid-configuration",
        },
        {"url": f"{base}/v2.0"},
    )
    return [
        {
            "issuer": {**issuer, "audiences": [AKS_SERVER], "certificateAuthority": ca_pem},
            "claimMappings": {"username": {"claim": "oid", "prefix": ""}},
            "claimValidationRules": [{"claim": "tid", "requiredValue": tenant_id}],
        }
        for issuer in issuers
    ]
