# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig, on the controller: which server, and who we are there."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...node.errors import ConfigMissing
from ...node.net.kube import KubeClient
from ...node.secret import Secret

Client = TypeVar("Client", bound=KubeClient)
NOTHING = Secret("")


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a kubeconfig. `plugin`: its user signs in by a program, which we don't run."""

    server: str
    ca_pem: str
    certificate: str = ""
    key: Secret = field(default=NOTHING)
    token: Secret = field(default=NOTHING)
    plugin: bool = False

    def with_token(self, token: str) -> Access:
        """The same server, with a token of ours."""
        return replace(self, certificate="", key=NOTHING, token=Secret(token), plugin=False)


def access_of(kubeconfig: Mapping[str, Any], directory: str, context: str = "") -> Access:
    """Read one context. Files that it names are sought from its own directory, as kubectl does."""
    chosen = context or str(kubeconfig.get("current-context", ""))
    pair = _named(kubeconfig, "contexts", chosen).get("context", {})
    cluster = _named(kubeconfig, "clusters", pair.get("cluster", "")).get("cluster", {})
    user = _named(kubeconfig, "users", pair.get("user", "")).get("user", {})
    if "server" not in cluster:
        raise _unusable(chosen, "it names no server", "see `kubectl config view`")
    return Access(
        server=cluster["server"],
        ca_pem=_text(cluster, "certificate-authority", directory),
        certificate=_text(user, "client-certificate", directory),
        key=Secret(_text(user, "client-key", directory)),
        token=Secret(str(user.get("token") or "")),
        plugin="exec" in user or "auth-provider" in user,
    )


@contextlib.contextmanager
def connected(access: Access, kind: type[Client]) -> Iterator[Client]:
    """A client; a key lives in a private file meanwhile, because TLS takes no other form."""
    with contextlib.ExitStack() as stack:
        pem = f"{access.certificate}\n{access.key.reveal()}"
        file = stack.enter_context(_private(pem)) if access.certificate else ""
        yield kind(access.server, access.ca_pem, certificate=file, token=access.token.reveal())


@contextlib.contextmanager
def client_from(kubeconfig: Mapping[str, Any], directory: str, context: str = "") -> Iterator[KubeClient]:
    """A client for one context of a person's kubeconfig."""
    with connected(usable(access_of(kubeconfig, directory, context), context), KubeClient) as client:
        yield client


def usable(access: Access, context: str = "") -> Access:
    """The same, if it can be used without running a program."""
    if access.plugin:
        fix = "use a context with a certificate or a token"
        raise _unusable(context or access.server, "it signs in by a plugin", fix)
    return access


def _named(kubeconfig: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    for entry in kubeconfig.get(section) or ():
        if entry.get("name") == name:
            return dict(entry)
    raise _unusable(name, f"it has no {section[:-1]} of this name", "see `kubectl config view`")


def _text(entry: Mapping[str, Any], field: str, directory: str) -> str:
    """A PEM field, inline or as a file."""
    if data := entry.get(f"{field}-data"):
        return base64.b64decode(data).decode()
    if path := entry.get(field):
        with open(os.path.join(directory, path), encoding="ascii") as file:
            return file.read()
    return ""


def _unusable(name: str, why: str, fix: str) -> ConfigMissing:
    return ConfigMissing("the kubeconfig can't be used", where=name, why=why, fix=fix)


@contextlib.contextmanager
def _private(content: str) -> Iterator[str]:
    """A file that only we can read, for as long as it is needed."""
    descriptor, path = tempfile.mkstemp(prefix="flexnode-")
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(content)
        yield path
    finally:
        os.unlink(path)
