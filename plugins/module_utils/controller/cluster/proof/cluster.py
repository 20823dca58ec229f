# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API calls of a proof: its pods and Services, their logs, and commands run in them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from ....node.errors import FlexNodeError
from ..client import CONNECT_SECONDS, Client, Session
from ..errors import message_of
from .errors import ProofImpossible
from .objects import LABEL, Json
from .verdict import DNS_LABEL, Answer

STREAM_ERROR = ""
try:
    import websocket
    from kubernetes import client
    from kubernetes.stream import stream
    from urllib3.exceptions import HTTPError
except ImportError:
    STREAM_ERROR = traceback.format_exc()

SYSTEM = "kube-system"
# The API server itself waits up to 30 s for a kubelet that does not answer; wait longer, so that its own
# error arrives.
KUBELET_SECONDS = 40


def connector(session: Session) -> Callable[[], Cluster]:
    """A client per thread: one that runs a command in a pod can't be shared meanwhile."""
    websocket.setdefaulttimeout(KUBELET_SECONDS)
    return lambda: session.client(Cluster)


class Cluster(Client):
    """The API calls of a proof."""

    def node(self, name: str) -> Json | None:
        """The Node, None where there is none."""
        return self._found(self._core.read_node, name)

    def namespace(self, name: str) -> Json | None:
        """The namespace, None where there is none."""
        return self._found(self._core.read_namespace, name)

    def create_namespace(self, body: Json) -> None:
        """Create a namespace."""
        self._object(self._core.create_namespace, body, attempts=1)

    def create_service(self, namespace: str, body: Json) -> Json:
        """Create a Service."""
        return self._object(self._core.create_namespaced_service, namespace, body, attempts=1)

    def create_pod(self, namespace: str, body: Json) -> Json:
        """Create a pod."""
        return self._object(self._core.create_namespaced_pod, namespace, body, attempts=1)

    def pods(self, namespace: str, selector: str) -> list[Json]:
        """The pods with a label."""
        return self._items(self._core.list_namespaced_pod, namespace, label_selector=selector)

    def pods_on(self, node: str) -> list[Json]:
        """All pods of a node."""
        return self._items(self._core.list_pod_for_all_namespaces, field_selector=f"spec.nodeName={node}")

    def warnings(self, namespace: str, pod: str) -> list[str]:
        """Warning events of a pod, oldest first."""
        chosen = f"involvedObject.name={pod},type=Warning"
        events = self._items(self._core.list_namespaced_event, namespace, field_selector=chosen)
        return [str(event.get("message", "")) for event in events]

    def dns_address(self) -> str:
        """The address of the cluster's DNS Service, empty where there is none."""
        services = self._items(self._core.list_namespaced_service, SYSTEM, label_selector=DNS_LABEL)
        addresses = (str(service["spec"].get("clusterIP", "")) for service in services)
        return next((address for address in addresses if address not in ("", "None")), "")

    def dns_pods(self) -> list[Json]:
        """The pods of the cluster's DNS."""
        return self.pods(SYSTEM, DNS_LABEL)

    def log(self, namespace: str, pod: str, container: str) -> Answer:
        """A pod's log, through the API server and the kubelet."""
        return self._asked(
            lambda: (
                self._core.read_namespaced_pod_log(
                    pod,
                    namespace,
                    container=container,
                    _preload_content=False,
                    _request_timeout=(CONNECT_SECONDS, KUBELET_SECONDS),
                ).data
            )
        )

    def run(self, namespace: str, pod: str, container: str, command: list[str]) -> Answer:
        """Run a command in a pod, through the API server and the kubelet."""
        return self._asked(
            lambda: stream(
                self._core.connect_get_namespaced_pod_exec,
                pod,
                namespace,
                container=container,
                command=command,
                stderr=True,
                stdin=False,
                stdout=True,
                tty=False,
                _request_timeout=KUBELET_SECONDS,
            )
        )

    def proofs(self) -> list[Json]:
        """The namespaces of all proofs."""
        return self._items(self._core.list_namespace, label_selector=LABEL)

    def objects(self, namespace: str, selector: str) -> list[tuple[str, Json]]:
        """Pods and Services with a label, as (kind, object)."""
        services = self._items(self._core.list_namespaced_service, namespace, label_selector=selector)
        pods = self.pods(namespace, selector)
        return [*(("Service", service) for service in services), *(("Pod", pod) for pod in pods)]

    def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None:
        """Delete a pod or a Service that may be gone already."""
        if kind == "Service":
            self._found(self._core.delete_namespaced_service, name, namespace)
        elif grace is None:
            self._found(self._core.delete_namespaced_pod, name, namespace)
        else:
            self._found(self._core.delete_namespaced_pod, name, namespace, grace_period_seconds=grace)

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace that may be gone already."""
        self._found(self._core.delete_namespace, name)

    def _asked(self, ask: Callable[[], Any]) -> Answer:
        """A request that the kubelet answers: its failure is a result of the proof, not an error of ours."""
        try:
            answer = ask()
        except client.ApiException as error:
            return Answer(error=message_of(error))
        except (HTTPError, OSError) as error:
            return Answer(error=f"the API server's answer timed out or was cut off: {error}")
        return Answer(text=answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer))

    def _refused(self, error: Any, method: Callable[..., Any]) -> FlexNodeError:
        """Refused rights and credentials have errors of their own; the rest keeps a proof from being made."""
        failure = super()._refused(error, method)
        if error.status in (401, 403) or error.status >= 500:
            return failure
        return ProofImpossible(
            "the API server refuses what the proof needs", where=self._server, why=message_of(error)
        )
