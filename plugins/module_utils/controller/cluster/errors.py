# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the Kubernetes client on the controller, and how an answer of the API server becomes one."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import Any

from ...node.errors import ApiUnreachable, CaMismatch, FlexNodeError, Forbidden

# --- 19xx: Kubernetes, from the controller ----------------------------------------------------------------


class KubeconfigUnusable(FlexNodeError):
    code, title = "FLEX-1901", "The kubeconfig can't be used"
    remedy = "check it: kubectl config view"


class ExecPluginFailed(FlexNodeError):
    code, title = "FLEX-1902", "The exec plugin of the kubeconfig fails"
    remedy = "run the command by hand and fix what it reports"


class CredentialsRefused(FlexNodeError):
    code, title = "FLEX-1903", "The API server does not accept the credentials"
    remedy = "get new ones: az aks get-credentials --name NAME --resource-group GROUP --overwrite-existing"


class OtherCluster(FlexNodeError):
    code, title = "FLEX-1904", "The kubeconfig is of another cluster than the machine"
    remedy = "use a kubeconfig whose current context is the cluster of the machine"


# --- from an answer to an error ---------------------------------------------------------------------------

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class MissingRight:
    """What the API server says is missing: who may not do what, where."""

    user: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""

    @property
    def fix(self) -> str:
        """The commands that grant it."""
        resource = f"{self.resource.partition('/')[0]}{f'.{self.group}' if self.group else ''}"
        part = self.resource.partition("/")[2]
        resource += f"/{part}" if part else ""
        kind, where = ("role", f" --namespace {self.namespace}") if self.namespace else ("clusterrole", "")
        name = "flexnode-operator"
        return (
            f"kubectl create {kind} {name} --verb={self.verb} --resource={resource}{where} && "
            f"kubectl create {kind}binding {name} --{kind}={name} --user='{self.user}'{where}; "
            'or, with Azure RBAC: az role assignment create --role "Azure Kubernetes Service RBAC Cluster '
            'Admin" --assignee OBJECT_ID --scope CLUSTER_ID'
        )


def missing_right(message: str) -> MissingRight | None:
    """Read the API server's own sentence; None where it says something else."""
    found = _FORBIDDEN.search(message)
    if not found:
        return None
    return MissingRight(
        found["user"], found["verb"], found["resource"], found["group"], found["namespace"] or ""
    )


def refused(status: int, message: str, server: str, request: str = "") -> FlexNodeError:
    """The error for an answer with an HTTP status of 400 or more."""
    where = f"{request} at {server}" if request else server
    if status == 401:
        return CredentialsRefused(
            "the API server does not accept the credentials", where=where, why=message or "HTTP 401"
        )
    if status == 403:
        right = missing_right(message)
        if right is None:
            return Forbidden(
                "the API server refuses this request",
                where=where,
                why=message,
                fix="check the identity's role bindings; docs/permissions.md lists what each method needs",
            )
        scope = f"in namespace {right.namespace}" if right.namespace else "in the cluster"
        act = f"{right.user} may not {right.verb} {right.resource} {scope}"
        return Forbidden(
            f"the API server refuses this request: {act}",
            where=where,
            why=message,
            fix=right.fix,
        )
    return ApiUnreachable(
        f"the API server does not return a usable answer (HTTP {status})",
        where=where,
        why=message,
        fix="run this again; if it fails again, check the API server: kubectl get --raw /readyz?verbose"
        if status >= 500
        else "",
    )


def unreachable(error: BaseException, server: str) -> FlexNodeError:
    """The error for a connection that failed: TLS, or anything else."""
    text = _inner(error)
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify failed" in text:
        why = text.partition("certificate verify failed: ")[2].partition(" (_ssl.c")[0]
        return CaMismatch(
            "the API server's certificate is not trusted",
            where=server,
            why=why or text,
            fix="compare certificate-authority-data of the kubeconfig (or ca_cert) with the cluster's CA; "
            "az aks get-credentials writes the right one",
        )
    if "hostname" in text.lower() and "match" in text.lower():
        return CaMismatch("the API server's certificate is for another name", where=server, why=text)
    return ApiUnreachable("the API server can't be reached", where=server, why=text)


def message_of(error: Any) -> str:
    """The API server's own words; those of a refused websocket are at the end of the library's reason."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    text = body or str(error.reason)
    start, end = text.find('{"kind":"Status"'), text.rfind("}")
    if start < 0:
        start = text.find("{")
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(text[start : end + 1]).get("message") or text)
    return str(text)


def _inner(error: BaseException) -> str:
    """What failed, without the names of Python objects that urllib3 puts around it."""
    reason = getattr(error, "reason", None)
    text = str(reason or error)
    text = re.sub(r"<[^>]*>:? ?", "", text)
    text = re.sub(r"^\w+\(host=[^)]*\): ", "", text)
    return " ".join(text.split())[:_SHOWN] or type(error).__name__
