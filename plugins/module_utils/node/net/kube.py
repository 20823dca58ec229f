# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP client for the few Kubernetes API calls that a node needs."""

from __future__ import annotations

import json
import re
import ssl
import urllib.parse
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import ApiUnreachable, CaMismatch, FlexNodeError, Forbidden
from ..machine.clock import Clock, SystemClock
from .answer import HttpFailure, Response
from .short_request import short_get
from .tls import tls_context

if TYPE_CHECKING:
    from .kept_connection import KeptConnection

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"  # conditions are merged by their type
# 429: a budget does not allow it now. 500: the pod has several budgets, which an eviction does not support.
NOT_EVICTED = (429, 500)
_BUDGET = re.compile(r"disruption budget (\S+)")


class KubeClient:
    """The API server, as one identity: a client certificate (file with certificate and key) or a token."""

    def __init__(
        self,
        server: str,
        ca_pem: str,
        *,
        certificate: str = "",
        key: str = "",
        token: str = "",
        clock: Clock | None = None,
        attempts: int = 3,
        timeout: float = 10,
    ) -> None:
        self._server = server.rstrip("/")
        try:
            context = tls_context(cadata=ca_pem)
        except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
            raise CaMismatch(
                "the API server's CA can't be used",
                where="node.kubelet.caCertData",
                why=str(error),
                fix="copy it from the cluster's kubeconfig (az aks get-credentials)",
            ) from error
        if certificate:
            try:
                context.load_cert_chain(certificate, key or None)
            except (OSError, ssl.SSLError) as error:
                raise Forbidden(
                    "the client certificate for the API server can't be used",
                    where=certificate,
                    why=error.strerror or str(error),
                    fix="if this persists, remove it and join again with a new token",
                ) from error
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._context, self._clock, self._timeout, self._attempts = context, clock, timeout, attempts
        self.clock = clock or SystemClock()
        self._date = ""

    @cached_property
    def _http(self) -> KeptConnection:
        """The connection. Not through a proxy: the kubelet uses none, so success here means success there."""
        from .kept_connection import KeptConnection  # slow to import

        return KeptConnection(
            context=self._context, clock=self._clock, timeout=self._timeout, attempts=self._attempts
        )

    def node(self, name: str, *, once: bool = False) -> Json | None:
        """The Node; None: it does not exist. once: by someone who asks nothing else, and does not retry."""
        return self._call("GET", f"/api/v1/nodes/{_quoted(name)}", once=once)

    def lease(self, node: str) -> Json | None:
        """The Lease that the kubelet of a Node renews; None: it does not exist."""
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        return self._call("GET", f"{path}/{_quoted(node)}")

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Json | None:
        """Patch the Node."""
        return self._call("PATCH", f"/api/v1/nodes/{_quoted(name)}", patch, MERGE)

    def patch_node_status(self, name: str, patch: Mapping[str, Any]) -> Json | None:
        """Patch annotations and conditions of the Node. Conditions of others stay."""
        return self._call("PATCH", f"/api/v1/nodes/{_quoted(name)}/status", patch, STRATEGIC)

    def delete_node(self, name: str) -> bool:
        """Delete the Node; False: it did not exist."""
        return self._call("DELETE", f"/api/v1/nodes/{_quoted(name)}") is not None

    def pods_on(self, node: str) -> list[Json]:
        """The pods that are bound to a node."""
        query = urllib.parse.urlencode({"fieldSelector": f"spec.nodeName={node}"})
        answer = self._call("GET", f"/api/v1/pods?{query}") or {}
        return list(answer.get("items", ()))

    def pod(self, namespace: str, name: str) -> Json | None:
        """One pod; None: it does not exist."""
        return self._call("GET", f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(name)}")

    def evict(self, namespace: str, name: str) -> str:
        """Evict a pod; returns why the API server does not allow it now, empty: the pod is leaving.

        One attempt only: a drain asks again by itself, within its own time limit.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        path = f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(name)}/eviction"
        try:
            self._call("POST", path, body, attempts=1, unexplained=NOT_EVICTED)
        except HttpFailure as failure:
            return eviction_refusal(failure.body) or failure.reason
        return ""

    def may(self, verb: str, resource: str, group: str = "", namespace: str = "") -> bool:
        """Whether this identity may do something, everywhere or in a namespace (SelfSubjectAccessReview)."""
        kind, _slash, part = resource.partition("/")
        place = {"namespace": namespace} if namespace else {}
        attributes = {"verb": verb, "resource": kind, "subresource": part, "group": group, **place}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body) or {}
        status = answer.get("status") or {}
        if not status.get("allowed") and status.get("evaluationError"):
            raise ApiUnreachable(
                "the API server can't evaluate the rights of this identity",
                where=self._server,
                why=str(status["evaluationError"]),
            )
        return bool(status.get("allowed"))

    def config_map(self, namespace: str, name: str) -> Json | None:
        """A ConfigMap; None: it does not exist."""
        return self._call("GET", _config_map(namespace, name))

    def replace_config_map(self, namespace: str, name: str, body: Mapping[str, Any]) -> Json | None:
        """Replace a ConfigMap; None: it does not exist. HttpFailure 409: it was changed meanwhile."""
        return self._call("PUT", _config_map(namespace, name), body, unexplained=(409,))

    @property
    def time(self) -> float:
        """The API server's clock when it last answered; this machine's own if the answer had no date."""
        from email.utils import parsedate_to_datetime  # slow to import

        try:
            return parsedate_to_datetime(self._date).timestamp()
        except (TypeError, ValueError):
            return self.clock.now()

    def version(self) -> str:
        """The API server's version, e.g. 1.34.4."""
        answer = self._call("GET", "/version") or {}
        return str(answer.get("gitVersion", "")).lstrip("v")

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
        *,
        attempts: int = 0,
        once: bool = False,
        unexplained: tuple[int, ...] = (),
    ) -> Json | None:
        """One answer; None: no such object. `unexplained`: statuses that the caller handles."""
        headers = {**self._headers, "Accept": "application/json", "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        try:
            if once:
                answer = self._get_once(self._server + path, headers)
            else:
                answer = self._http.request(
                    method, self._server + path, body=data, headers=headers, attempts=attempts
                )
        except HttpFailure as failure:
            if failure.status == 404:
                return None
            if failure.status in unexplained:
                raise
            raise self._explained(failure, f"{method} {path.partition('?')[0]}") from failure
        self._date = str(answer.headers.get("Date", ""))
        try:
            document: Json = json.loads(answer.body)
        except ValueError as error:
            raise ApiUnreachable(
                "the server that answers is not an API server",
                where=self._server,
                why="its answer is not JSON",
                fix="check node.kubelet.serverURL; a captive portal or a proxy may answer in its place",
            ) from error
        return document

    def _get_once(self, url: str, headers: Mapping[str, str]) -> Response:
        """One GET, without all that a connection that is kept needs."""
        answer = short_get(url, headers, context=self._context, timeout=self._timeout)
        if answer is None:
            raise HttpFailure(url, "redirects, which is not followed", final=True)
        return answer

    def _explained(self, failure: HttpFailure, request: str) -> FlexNodeError:
        if failure.status in (401, 403):
            return Forbidden(
                "the API server refuses this request",
                where=f"{request} at {self._server}",
                why=_message(failure),
                fix="check the identity's bindings; docs/permissions.md lists what each method needs",
            )
        if failure.tls and not failure.out_of_time:
            return CaMismatch(
                "the API server's certificate is not trusted",
                where=self._server,
                why=failure.reason,
                fix=failure.advice,
            )
        return ApiUnreachable(
            "the API server does not return a usable answer",
            where=f"{request} at {self._server}",
            why=failure.reason,
            fix=failure.advice,  # of a clock that is wrong, which says nothing about the CA
        )


def eviction_refusal(body: bytes | str) -> str:
    """Why a pod was not evicted, from the API server's answer: the budget's name, else its own message."""
    try:
        status = json.loads(body)
        causes = (status.get("details") or {}).get("causes") or ()
        for cause in causes:
            if cause.get("reason") == "DisruptionBudget" and (found := _BUDGET.search(cause["message"])):
                return f"PodDisruptionBudget {found[1]}"
        return str(status.get("message") or "")
    except (ValueError, AttributeError, KeyError, TypeError):
        return ""


def _config_map(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{_quoted(namespace)}/configmaps/{_quoted(name)}"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _message(failure: HttpFailure) -> str:
    try:
        return str(json.loads(failure.body)["message"])
    except (ValueError, KeyError, TypeError):
        return failure.reason
