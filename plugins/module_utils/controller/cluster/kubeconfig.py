# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a kubeconfig: which API server, and how its user signs in. Nothing is run here."""

from __future__ import annotations

import base64
import binascii
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...node.secret import Secret
from .errors import KubeconfigUnusable

YAML_ERROR = ""
try:
    import yaml
except ImportError:
    YAML_ERROR = traceback.format_exc()

NOTHING = Secret("")
SECTIONS = ("contexts", "clusters", "users")
# The directory of the file that an entry came from: relative paths in it start there.
FOLDER = "\0folder"


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints credentials, as a kubeconfig names it (kubelogin is one)."""

    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive: str = ""  # Never, IfAvailable or Always
    cluster_info: bool = False
    directory: str = ""

    @property
    def shown(self) -> str:
        """The command as an error names it: without arguments, which may hold a secret."""
        return self.command


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a kubeconfig: the API server, its CA, and one way to sign in."""

    server: str
    ca_pem: str
    certificate: str = ""
    key: Secret = field(default=NOTHING)
    token: Secret = field(default=NOTHING)
    plugin: ExecPlugin | None = None
    tls_server_name: str = ""
    proxy: str = ""

    def with_token(self, token: str) -> Access:
        """The same server, with an access token instead of the user's own way to sign in."""
        return replace(self, certificate="", key=NOTHING, token=Secret(token), plugin=None)


def access_of(kubeconfig: Mapping[str, Any], directory: str, context: str = "", where: str = "") -> Access:
    """Read one context. Relative paths start at the kubeconfig's own directory, as with kubectl."""
    chosen = context or str(kubeconfig.get("current-context") or "")
    if not chosen:
        raise _unusable(where, "it has no current context", "name one with the option context")
    pair = _named(kubeconfig, "contexts", chosen, where).get("context") or {}
    entry = _named(kubeconfig, "clusters", pair.get("cluster", ""), where)
    cluster, at = entry.get("cluster") or {}, entry.get(FOLDER, directory)
    # A context without a user is one that does not sign in: the API server then decides.
    person = _named(kubeconfig, "users", pair["user"], where) if pair.get("user") else {}
    user, home = person.get("user") or {}, person.get(FOLDER, directory)
    if not cluster.get("server"):
        raise _unusable(where, f"the cluster of context {chosen} has no server", "kubectl config view")
    if cluster.get("insecure-skip-tls-verify"):
        raise _unusable(
            where,
            f"the cluster of context {chosen} has insecure-skip-tls-verify, and TLS is always verified here",
            "set certificate-authority instead: az aks get-credentials writes it",
        )
    if "auth-provider" in user:
        raise _unusable(
            where,
            f"the user of context {chosen} has an auth-provider, which Kubernetes removed in 1.26",
            "convert it: kubelogin convert-kubeconfig -l azurecli",
        )
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        ca_pem=_text(cluster, "certificate-authority", at, where),
        certificate=_text(user, "client-certificate", home, where),
        key=Secret(_text(user, "client-key", home, where)),
        token=Secret(_token(user, home, where)),
        plugin=plugin_of(user["exec"], home, where) if user.get("exec") else None,
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
    )


def plugin_of(entry: Mapping[str, Any], directory: str, where: str = "") -> ExecPlugin:
    """Read the `exec` part of a user."""
    if not entry.get("command"):
        raise _unusable(
            where, "its exec plugin has no command", "az aks get-credentials writes a complete one"
        )
    return ExecPlugin(
        command=str(entry["command"]),
        api_version=str(entry.get("apiVersion") or "client.authentication.k8s.io/v1"),
        arguments=tuple(str(one) for one in entry.get("args") or ()),
        environment=tuple((str(one["name"]), str(one.get("value", ""))) for one in entry.get("env") or ()),
        install_hint=str(entry.get("installHint") or "").strip(),
        interactive=str(entry.get("interactiveMode") or ""),
        cluster_info=bool(entry.get("provideClusterInfo")),
        directory=directory,
    )


def read_kubeconfig(paths: Sequence[str], context: str = "") -> Access:
    """One context of one or more files. Of two entries with one name the first counts, as with kubectl."""
    where = os.pathsep.join(paths)
    merged: dict[str, Any] = {section: [] for section in SECTIONS}
    found = 0
    for path in paths:
        if len(paths) > 1 and not os.path.exists(path):
            continue  # KUBECONFIG may list files that are not there
        document = _load(path)
        found += 1
        folder = os.path.dirname(os.path.abspath(path))
        merged["current-context"] = merged.get("current-context") or document.get("current-context")
        for section in SECTIONS:
            merged[section] += [{**one, FOLDER: folder} for one in document.get(section) or ()]
    if not found:
        raise _unusable(where, "none of these files exists", "check the option kubeconfig, or KUBECONFIG")
    return access_of(merged, "", context, where)


def _load(path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error), "check the option kubeconfig") from error
    except (ValueError, yaml.YAMLError) as error:
        first = str(error).partition("\n")[0]
        raise _unusable(path, f"it is not YAML: {first}", "kubectl config view") from error
    if not isinstance(document, dict):
        raise _unusable(path, "it is empty, or not a kubeconfig", "kubectl config view")
    return document


def _named(kubeconfig: Mapping[str, Any], section: str, name: str, where: str) -> Mapping[str, Any]:
    entries = kubeconfig.get(section) or ()
    for entry in entries:
        if entry.get("name") == name:
            return dict(entry)
    known = ", ".join(sorted(str(entry.get("name")) for entry in entries)) or "none"
    why = f"it has no {section[:-1]} {name!r} (it has: {known})"
    raise _unusable(where, why, "list them: kubectl config get-contexts")


def _text(entry: Mapping[str, Any], key: str, directory: str, where: str) -> str:
    """A PEM field, inline or as a file."""
    if data := entry.get(f"{key}-data"):
        try:
            return base64.b64decode("".join(str(data).split()), validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise _unusable(where, f"{key}-data is not base64 of PEM text", "kubectl config view") from error
    return _file(str(entry[key]), directory, where, key) if entry.get(key) else ""


def _token(user: Mapping[str, Any], directory: str, where: str) -> str:
    if user.get("token"):
        return str(user["token"])
    return (
        _file(str(user["tokenFile"]), directory, where, "tokenFile").strip() if user.get("tokenFile") else ""
    )


def _file(path: str, directory: str, where: str, key: str) -> str:
    place = os.path.join(directory, os.path.expanduser(path))
    try:
        with open(place, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = f"its {key} {place} can't be read: {getattr(error, 'strerror', None) or error}"
        raise _unusable(where, why, "check the path in the kubeconfig") from error


def _unusable(where: str, why: str, fix: str) -> KubeconfigUnusable:
    return KubeconfigUnusable("the kubeconfig can't be used", where=where, why=why, fix=fix)
