# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A person's kubeconfig, on the controller: which server, and who we are there."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from .node.errors import ConfigMissing
from .node.kube import KubeClient


@contextlib.contextmanager
def client_from(kubeconfig: Mapping[str, Any], directory: str, context: str = "") -> Iterator[KubeClient]:
    """A client for one context of a kubeconfig; keys given inline live in a private file meanwhile.

    Files that it names are sought from its own directory, as kubectl does.
    """
    chosen = context or str(kubeconfig.get("current-context", ""))
    pair = _named(kubeconfig, "contexts", chosen).get("context", {})
    cluster = _named(kubeconfig, "clusters", pair.get("cluster", "")).get("cluster", {})
    user = _named(kubeconfig, "users", pair.get("user", "")).get("user", {})
    if "exec" in user or "auth-provider" in user:
        raise _unusable(chosen, "it signs in by a plugin", "use a context with a certificate or a token")
    if "server" not in cluster:
        raise _unusable(chosen, "it names no server", "see `kubectl config view`")
    ca_pem = _text(cluster, "certificate-authority", directory)
    certificate, key = _text(user, "client-certificate", directory), _text(user, "client-key", directory)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_private(certificate + "\n" + key)) if certificate else ""
        yield KubeClient(cluster["server"], ca_pem, certificate=file, token=user.get("token", ""))


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
