# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the exec plugin of a kubeconfig (kubelogin, for Entra) and read the credentials that it prints.

The `kubernetes` package runs such commands too, but it only logs their failures and then asks the API server
without credentials: the user would read "Unauthorized" where kubelogin is not installed.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any

from ...node.secret import Secret
from .errors import ExecPluginFailed
from .kubeconfig import NOTHING, Access, ExecPlugin

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
SECONDS = 60
CONVERT = "kubelogin convert-kubeconfig -l azurecli"
INSTALL = "install kubelogin on the controller (az aks install-cli, or https://aka.ms/aks/kubelogin)"
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*")
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a plugin printed: a token, or a client certificate with its key."""

    token: Secret = field(default=NOTHING)
    certificate: str = ""
    key: Secret = field(default=NOTHING)
    expires: float = 0  # 0: not said


def run_plugin(plugin: ExecPlugin, access: Access, seconds: float = SECONDS) -> Credentials:
    """Run the command without a terminal and return what it printed."""
    if plugin.api_version not in VERSIONS:
        raise _failed(
            plugin,
            f"its apiVersion {plugin.api_version} is not supported",
            f"use one of: {', '.join(VERSIONS)}",
        )
    if plugin.interactive == "Always":
        raise _failed(plugin, "it needs a terminal (interactiveMode: Always)", _advice(plugin))
    try:
        done = subprocess.run(
            [_resolved(plugin), *plugin.arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": _info(plugin, access)},
        )
    except subprocess.TimeoutExpired as error:
        said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr
        why = f"it did not finish within {seconds:g} s{_said(said or '')}"
        raise _failed(plugin, why, f"it may be waiting for a person to sign in; {_advice(plugin)}") from error
    except OSError as error:
        why = f"it can't be started: {error.strerror or error}"
        raise _failed(plugin, why, _advice(plugin, missing=True)) from error
    if done.returncode:
        raise _failed(plugin, f"exit code {done.returncode}{_said(done.stderr)}", _advice(plugin))
    return credentials_of(done.stdout, plugin)


def credentials_of(output: str, plugin: ExecPlugin) -> Credentials:
    """Read an ExecCredential. What it holds is a secret, so no error quotes it."""
    try:
        document = json.loads(output)
        kind, version, status = document["kind"], document["apiVersion"], document["status"] or {}
    except (ValueError, LookupError, TypeError) as error:
        raise _failed(plugin, "its output is not an ExecCredential", _advice(plugin)) from error
    if kind != "ExecCredential" or version != plugin.api_version:
        why = f"it printed {kind} of {version}, the kubeconfig wants ExecCredential of {plugin.api_version}"
        raise _failed(plugin, why, f"update the command, or run: {CONVERT}")
    token, certificate = status.get("token"), status.get("clientCertificateData")
    key = status.get("clientKeyData")
    if not token and not (certificate and key):
        raise _failed(plugin, "its ExecCredential has neither a token nor a certificate with its key", "")
    return Credentials(
        token=Secret(str(token or "")),
        certificate=str(certificate or "") if key else "",
        key=Secret(str(key or "")),
        expires=_seconds(status.get("expirationTimestamp")),
    )


def _resolved(plugin: ExecPlugin) -> str:
    """Where the command is: from the kubeconfig's directory if it is a path, else by PATH."""
    command = os.path.expanduser(plugin.command)
    if os.sep in command:
        return os.path.join(plugin.directory, command)
    search = dict(plugin.environment).get("PATH") or os.environ.get("PATH")
    found = shutil.which(command, path=search)
    if not found:
        raise _failed(plugin, "it is not installed, or not in PATH", _advice(plugin, missing=True))
    return found


def _info(plugin: ExecPlugin, access: Access) -> str:
    """What Kubernetes passes to a plugin; the cluster only if the kubeconfig says so."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster_info:
        ca = base64.b64encode(access.ca_pem.encode()).decode()
        spec["cluster"] = {"server": access.server, "certificate-authority-data": ca}
    return json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})


def _advice(plugin: ExecPlugin, *, missing: bool = False) -> str:
    """What to do about a plugin that fails: install it, or let it use the login of the Azure CLI."""
    is_kubelogin = os.path.basename(plugin.command) == "kubelogin"
    if missing and is_kubelogin:
        return f"{INSTALL}; then, to use the login of the Azure CLI: {CONVERT}"
    if missing:
        return plugin.install_hint or f"install {plugin.command} on the controller, or correct the kubeconfig"
    if is_kubelogin:
        return f"sign in without a person, for example with the Azure CLI's login: az login && {CONVERT}"
    return "run the command by hand and fix what it reports"


def _failed(plugin: ExecPlugin, why: str, fix: str) -> ExecPluginFailed:
    what = f"the kubeconfig's exec plugin {plugin.shown} fails"
    return ExecPluginFailed(what, where=plugin.shown, why=why, fix=fix)


def _said(stderr: str) -> str:
    """The end of what a command printed to stderr, without anything that looks like a token."""
    text = _TOKEN.sub("<token>", " ".join(stderr.split()))
    return f": {text[-_SHOWN:]}" if text else ""


def _seconds(timestamp: object) -> float:
    if not timestamp:
        return 0
    try:
        moment = datetime.datetime.fromisoformat(str(timestamp).replace("Z", "+00:00"))
    except ValueError:
        return 0
    return moment.timestamp()
