# SPDX-License-Identifier: GPL-3.0-or-later
"""Bootstrap tokens: real Secrets that the API server accepts as a login."""

from __future__ import annotations

import datetime
import secrets
import string
from typing import Any

ALPHABET = string.ascii_lowercase + string.digits


def random_token() -> str:
    """A new token in Kubernetes' form."""
    characters = [secrets.choice(ALPHABET) for _ in range(22)]
    return "".join(characters[:6]) + "." + "".join(characters[6:])


def secret(
    token: str, expires: datetime.datetime, groups: tuple[str, ...] = (), description: str = "testbed"
) -> dict[str, Any]:
    """The Secret that makes a token valid until it expires; the token cleaner then removes it.

    groups: more groups of its bearer, besides system:bootstrappers.
    """
    identifier, password = token.split(".")
    extra = {"auth-extra-groups": ",".join(groups)} if groups else {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{identifier}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "description": description,
            "token-id": identifier,
            "token-secret": password,
            "expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            **extra,
        },
    }
