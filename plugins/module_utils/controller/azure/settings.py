# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Azure credential the options, the environment and the credential file describe.

Names and order are those of azure.azcollection; the variables of azure-identity are accepted too.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...node.secret import Secret
from .clouds import NAMES, Endpoints, endpoints_of
from .errors import SignInFailed

AUTH_SOURCES = ("auto", "cli", "credential_file", "env", "module", "msi")
# Option -> variables of the environment: azure.azcollection's first, then azure-identity's.
ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "profile": ("AZURE_PROFILE",),
    "subscription_id": ("AZURE_SUBSCRIPTION_ID",),
    "tenant": ("AZURE_TENANT", "AZURE_TENANT_ID"),
    "client_id": ("AZURE_CLIENT_ID",),
    "secret": ("AZURE_SECRET", "AZURE_CLIENT_SECRET"),
    "x509_certificate_path": ("AZURE_X509_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PATH"),
    "thumbprint": ("AZURE_THUMBPRINT",),
    "federated_token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
    "cloud_environment": ("AZURE_CLOUD_ENVIRONMENT",),
    "authority": ("AZURE_AUTHORITY_HOST",),
    "resource_manager_endpoint": ("AZURE_RESOURCE_MANAGER_ENDPOINT",),
    "ca_bundle": ("REQUESTS_CA_BUNDLE",),
}
# What a service principal proves itself with, in this order -> the method of the sign-in.
PROOFS: Mapping[str, str] = {
    "secret": "principal",
    "x509_certificate_path": "certificate",
    "federated_token_file": "federated",
}
FILE, DEFAULT_PROFILE = ".azure/credentials", "default"
Layer = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    """Who signs in where. `method` is one of principal, certificate, federated, cli, msi."""

    method: str
    endpoints: Endpoints
    tenant: str = ""
    client_id: str = ""
    secret: Secret = field(default_factory=lambda: Secret(""))
    certificate_path: str = ""
    thumbprint: str = ""
    federated_token_file: str = ""
    subscription_id: str = ""
    ca_bundle: str = ""
    unused: str = ""  # why auto did not use the credentials that it found


def settings_of(options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Decide which credential is used, and where it signs in. Endpoints and CAs ignore auth_source."""
    source = str(options.get("auth_source") or "auto")
    module = {name: str(options[name]) for name in ENVIRONMENT if options.get(name)}
    env = {name: value for name in ENVIRONMENT if (value := _variable(environ, name))}
    layers = _layers(source, module, env, _home(environ))
    method = {"cli": "cli", "msi": "msi"}.get(source) or _method(layers)
    unused = ""
    if method == "" and source == "auto":
        method, unused = "cli", _unused(layers)
    elif method in ("", *PROOFS.values()):
        _require_principal(source, layers)
    return Settings(
        method=method,
        endpoints=_endpoints((module, *layers, env)),
        tenant=_first(layers, "tenant"),
        client_id=_first(layers, "client_id"),
        secret=Secret(_first(layers, "secret")),
        certificate_path=os.path.expanduser(_first(layers, "x509_certificate_path")),
        thumbprint=_first(layers, "thumbprint"),
        federated_token_file=_first(layers, "federated_token_file"),
        subscription_id=_first(layers, "subscription_id"),
        ca_bundle=_first((module, env), "ca_bundle"),
        unused=unused,
    )


def _layers(source: str, module: Layer, env: Layer, home: str) -> Sequence[Layer]:
    """Where credentials may come from, by auth_source; what comes first wins."""
    path = os.path.join(home, FILE)
    if source == "module":
        return (module,)
    if source == "env":
        return (read_profile(path, env["profile"]),) if env.get("profile") else (env,)
    if source == "credential_file":
        return (read_profile(path, module.get("profile") or env.get("profile") or DEFAULT_PROFILE),)
    if source != "auto":
        return (module, env)
    if module.get("profile"):
        return (module, read_profile(path, module["profile"]))
    if env.get("profile") and not _method((module,)):
        return (module, read_profile(path, env["profile"]))
    if _method((module, env)) or DEFAULT_PROFILE not in _profiles(path):
        return (module, env)
    found = read_profile(path, DEFAULT_PROFILE)
    return (module, found) if _method((found,)) else (module, env, found)


def _method(layers: Sequence[Layer]) -> str:
    """How a service principal of these layers signs in; empty: they contain no credential."""
    for layer in layers:
        for name, method in PROOFS.items():
            if layer.get(name):
                return method
    return ""


def _require_principal(source: str, layers: Sequence[Layer]) -> None:
    """Refuse what is incomplete, and name the option and the variable of each part that is missing."""
    names = ["tenant", "client_id"]
    missing = [f"{name} ({ENVIRONMENT[name][0]})" for name in names if not _first(layers, name)]
    if not _method(layers):
        proofs = [f"{name} ({ENVIRONMENT[name][0]})" for name in ("secret", "x509_certificate_path")]
        missing.append(f"{' or '.join(proofs)} or AZURE_FEDERATED_TOKEN_FILE")
    if missing:
        what = "incomplete credentials" if len(missing) < 3 else "no credentials"
        raise SignInFailed(what, where=f"auth_source {source}", why=f"missing: {', '.join(missing)}")


def _unused(layers: Sequence[Layer]) -> str:
    """Which part of a service principal is missing, if client_id is set; otherwise empty."""
    if not _first(layers, "client_id"):
        return ""
    return (
        f"client_id {_first(layers, 'client_id')} is not used, because secret (AZURE_SECRET), "
        "x509_certificate_path (AZURE_X509_CERTIFICATE_PATH) and AZURE_FEDERATED_TOKEN_FILE are missing"
    )


def _endpoints(layers: Sequence[Layer]) -> Endpoints:
    cloud = _first(layers, "cloud_environment") or "AzureCloud"
    if cloud not in NAMES:
        raise SignInFailed(f"there is no cloud {cloud!r}", where="cloud_environment", fix=" | ".join(NAMES))
    return endpoints_of(cloud, _first(layers, "authority"), _first(layers, "resource_manager_endpoint"))


def _first(layers: Sequence[Layer], name: str) -> str:
    return next((layer[name] for layer in layers if layer.get(name)), "")


def _variable(environ: Mapping[str, str], name: str) -> str:
    return next((environ[key] for key in ENVIRONMENT[name] if environ.get(key)), "")


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


# --- the credential file ----------------------------------------------------------------------------------


def read_profile(path: str, profile: str) -> Layer:
    """One section of the credential file."""
    parser = _parsed(path)
    if not os.path.exists(path):
        raise SignInFailed(
            "there is no credential file",
            where=path,
            why=f"profile {profile!r} is read from it",
            fix=f"create it: a [{profile}] section with tenant, client_id and secret; mode 0600",
        )
    if not parser.has_section(profile):
        known = ", ".join(parser.sections()) or "none"
        raise SignInFailed(f"there is no profile {profile!r}", where=path, why=f"it has: {known}")
    found = {name: value for name, value in parser.items(profile) if value}
    if "ad_user" in found:
        raise SignInFailed(
            "sign-in with a user name and password is not supported",
            where=f"{path} [{profile}]",
            why="Microsoft has deprecated it, and it fails where multi-factor authentication is required",
            fix="use a service principal (client_id with secret or x509_certificate_path), or: az login",
        )
    return {name: found[name] for name in ENVIRONMENT if name in found}


def _profiles(path: str) -> list[str]:
    return _parsed(path).sections()


def _parsed(path: str) -> configparser.ConfigParser:
    # Neither "%" in a secret nor a section [DEFAULT] has a special meaning here.
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, ValueError) as error:
        raise SignInFailed(
            "the credential file can't be read",
            where=path,
            why=type(error).__name__,  # its text may quote a secret
            fix="it is an INI file: [profile] and lines such as client_id = ...",
        ) from error
    return parser
