# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as a proof talks to it, with a person's kubeconfig: plugins that sign in work here too."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from ....node.errors import ApiUnreachable, FlexNodeError, Forbidden, ProofImpossible
from .objects import LABEL, Json
from .verdict import DNS_LABEL, Answer

KUBERNETES_ERROR = ""
try:
    import websocket
    from kubernetes import client, config
    from kubernetes.stream import stream
    from urllib3.exceptions import HTTPError
except ImportError:
    KUBERNETES_ERROR = traceback.format_exc()

SYSTEM = "kube-system"
CONNECT_SECONDS = 5
SECONDS = 30
# The API server itself waits up to 30 s for a kubelet that does not answer: let it say so.
KUBELET_SECONDS = 40


def connector(kubeconfig: str, context: str) -> Callable[[], Cluster]:
    """Sign in once; a client for each thread, as one can't be shared while it runs a command in a pod."""
    websocket.setdefaulttimeout(KUBELET_SECONDS)
    load: Any = config.new_client_from_config
    try:
        configuration = load(
            config_file=kubeconfig, context=context or None, persist_config=False
        ).configuration
    except (config.ConfigException, OSError) as error:
        raise ProofImpossible(
            "the kubeconfig can't be used", where=kubeconfig, why=str(error), fix="see `kubectl config view`"
        ) from error
    return lambda: Cluster(client.ApiClient(configuration))


class Cluster:
    """The few calls of a proof, JSON in and JSON out."""

    def __init__(self, api_client: Any) -> None:
        self._core: Any = client.CoreV1Api(api_client)  # its types differ between releases
        self._server = api_client.configuration.host

    def node(self, name: str) -> Json | None:
        """The Node, None where there is none."""
        return self._found(self._core.read_node, name)

    def namespace(self, name: str) -> Json | None:
        """The namespace, None where there is none."""
        return self._found(self._core.read_namespace, name)

    def create_namespace(self, body: Json) -> None:
        """Make a namespace."""
        self._call(self._core.create_namespace, body)

    def create_service(self, namespace: str, body: Json) -> Json:
        """Make a Service."""
        return self._call(self._core.create_namespaced_service, namespace, body)

    def create_pod(self, namespace: str, body: Json) -> Json:
        """Make a pod."""
        return self._call(self._core.create_namespaced_pod, namespace, body)

    def pods(self, namespace: str, selector: str) -> list[Json]:
        """The pods with a label."""
        return self._items(self._core.list_namespaced_pod, namespace, label_selector=selector)

    def pods_on(self, node: str) -> list[Json]:
        """All pods of a node."""
        return self._items(self._core.list_pod_for_all_namespaces, field_selector=f"spec.nodeName={node}")

    def warnings(self, namespace: str, pod: str) -> list[str]:
        """What the cluster noted about a pod, oldest first."""
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
        """A pod's log, by way of the API server and the kubelet."""
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
        """A command in a pod, by way of the API server and the kubelet."""
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

    def _call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Json:
        limits = (CONNECT_SECONDS, SECONDS)
        with self._explained():
            answer = method(*args, _preload_content=False, _request_timeout=limits, **options)
            found: Json = json.loads(answer.data)
        return found

    def _items(self, method: Callable[..., Any], *args: Any, **options: Any) -> list[Json]:
        return list(self._call(method, *args, **options).get("items") or ())

    def _found(self, method: Callable[..., Any], *args: Any, **options: Any) -> Json | None:
        try:
            return self._call(method, *args, **options)
        except ProofImpossible as error:
            if getattr(error.__cause__, "status", 0) == 404:
                return None
            raise

    def _asked(self, ask: Callable[[], Any]) -> Answer:
        """A request that the kubelet answers: its failure is what a proof is about, not an accident."""
        try:
            answer = ask()
        except client.ApiException as error:
            return Answer(error=message_of(error))
        except (HTTPError, OSError) as error:
            return Answer(error=f"the API server's answer timed out or was cut: {error}")
        return Answer(text=answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except client.ApiException as error:
            raise _error(error, self._server) from error
        except (HTTPError, OSError) as error:
            why = str(error)[:300]
            raise ApiUnreachable("the API server can't be reached", where=self._server, why=why) from error


def _error(error: Any, server: str) -> FlexNodeError:
    message = message_of(error)
    if error.status in (401, 403):
        return Forbidden("the API server refuses this request", where=server, why=message)
    return ProofImpossible("the API server refuses what the proof needs", where=server, why=message)


def message_of(error: Any) -> str:
    """The API server's own words; those of a refused websocket stand at the end of the library's reason."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    text = body or str(error.reason)
    start, end = text.find('{"kind":"Status"'), text.rfind("}")
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(text[start : end + 1]).get("message") or text)
    return str(text)
