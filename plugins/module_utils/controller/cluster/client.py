# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes client of the controller: the `kubernetes` package, signed in, with our errors.

`connected` builds a client from an `Access`, which comes from a kubeconfig (cluster/options.py) or from an
AKS cluster through the Azure login (azure/aks/cluster.py). TLS is always verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import ssl
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...node.config.types.addresses import only_certificates
from ...node.errors import ApiUnreachable, FlexNodeError
from ...node.machine.clock import Clock, SystemClock
from ...node.net.tls import tls_context
from ...node.secret import Secret
from .errors import KubeconfigUnusable, message_of, refused, unreachable
from .exec_plugin import Credentials, run_plugin
from .kubeconfig import Access, ExecPlugin

KUBERNETES_ERROR = ""
try:
    from kubernetes import client
    from urllib3.exceptions import HTTPError
except ImportError:
    KUBERNETES_ERROR = traceback.format_exc()

Json = dict[str, Any]
AnyClient = TypeVar("AnyClient", bound="Client")
CONNECT_SECONDS, SECONDS = 5, 30
ATTEMPTS, PAUSE, LONGEST_PAUSE = 3, 0.5, 10.0
RETRIED = frozenset((408, 425, 429, 500, 502, 503, 504))
RENEW_BEFORE = 120
PAGE = 500
PROTOCOLS = ("http/1.1",)
MERGE = "application/merge-patch+json"


@dataclass(slots=True)
class Session:
    """A signed-in configuration of the `kubernetes` package; each client of it has its own connections."""

    configuration: Any
    server: str
    clock: Clock = field(default_factory=SystemClock)

    def client(self, kind: type[AnyClient]) -> AnyClient:
        """A client. Threads that run commands in pods need one each."""
        return kind(self)


class Client:
    """API calls, JSON in and JSON out. Subclasses add the calls of their subject."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._api: Any = _api_client(session.configuration)
        self._certificate = session.configuration.cert_file
        # The generated methods have the same names in all releases of the package; their types differ.
        self._core: Any = client.CoreV1Api(self._api)
        self._rbac: Any = client.RbacAuthorizationV1Api(self._api)
        self._server = session.server

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._server

    def _patching(self) -> Any:
        """The core API with merge patches: how that is said per call differs between releases."""
        api = _api_client(self._session.configuration)
        api.set_default_header("Content-Type", MERGE)
        return client.CoreV1Api(api)

    def _call(
        self,
        method: Callable[..., Any],
        *args: Any,
        accepted: tuple[int, ...] = (),
        attempts: int = ATTEMPTS,
        **options: Any,
    ) -> Json | None:
        """One answer, after retries; None where the status is one of `accepted`."""
        limits = (CONNECT_SECONDS, SECONDS)
        for attempt in range(1, attempts + 1):
            self._use_renewed_certificate()
            try:
                answer = method(*args, _preload_content=False, _request_timeout=limits, **options)
                return self._json(answer.data)
            except client.ApiException as error:
                if error.status in accepted:
                    return None
                if not error.status:  # how the package reports a failed TLS handshake
                    raise unreachable(error, self._server) from error
                if error.status not in RETRIED or attempt == attempts:
                    raise self._refused(error, method) from error
                self._session.clock.sleep(_pause(attempt, error.headers))
            except (HTTPError, OSError) as error:
                failure = unreachable(error, self._server)
                if not isinstance(failure, ApiUnreachable) or attempt == attempts:
                    raise failure from error
                self._session.clock.sleep(_pause(attempt, None))
        raise AssertionError("the last attempt returns or raises")

    def _use_renewed_certificate(self) -> None:
        """Ask an exec plugin for a new one where the last one is about to expire."""
        configuration = self._session.configuration
        if configuration.refresh_api_key_hook:
            configuration.refresh_api_key_hook(configuration)
        if self._certificate != configuration.cert_file:
            self._certificate = configuration.cert_file
            _use_tls(self._api, configuration)

    def _object(self, method: Callable[..., Any], *args: Any, **options: Any) -> Json:
        """An answer that must be there."""
        found = self._call(method, *args, **options)
        return {} if found is None else found

    def _found(self, method: Callable[..., Any], *args: Any, **options: Any) -> Json | None:
        """An object, None where there is none."""
        return self._call(method, *args, accepted=(404,), **options)

    def _items(self, method: Callable[..., Any], *args: Any, **options: Any) -> list[Json]:
        """All of a list, a page at a time: the list of a big cluster is more than one answer may hold."""
        found: list[Json] = []
        following: dict[str, str] = {}
        while True:
            answer = self._object(method, *args, limit=PAGE, **options, **following)
            found += answer.get("items") or ()
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return found
            following = {"_continue": str(token)}

    def _refused(self, error: Any, method: Callable[..., Any]) -> FlexNodeError:
        return refused(int(error.status or 0), message_of(error), self._server, request_of(method))

    def _json(self, data: bytes | str) -> Json:
        try:
            document = json.loads(data)
        except ValueError as error:
            raise ApiUnreachable(
                "the server that answers is not an API server",
                where=self._server,
                why="its answer is not JSON",
                fix="check the server of the kubeconfig; a captive portal or a proxy may answer in its place",
            ) from error
        return document if isinstance(document, dict) else {"value": document}


def request_of(method: Callable[..., Any]) -> str:
    """What a generated method asks for, in words: `list_namespaced_pod` is `list pod`."""
    words = getattr(method, "__name__", "").split("_")
    return " ".join(word for word in words if word and word != "namespaced")


@contextlib.contextmanager
def signed_in(
    access: Access, run: Callable[[ExecPlugin, Access], Credentials] = run_plugin
) -> Iterator[Session]:
    """Sign in. Keys are in files of a private directory for the time of the block, as TLS wants files."""
    with tempfile.TemporaryDirectory(prefix="flexnode-") as name:
        folder = Path(name)
        configuration: Any = client.Configuration()
        configuration.host = access.server
        configuration.verify_ssl = True
        configuration.retries = False  # retries are ours: urllib3's would hide what failed
        if access.ca_pem:
            configuration.ssl_ca_cert = _trusted(folder, access)
        if access.tls_server_name:
            configuration.tls_server_name = access.tls_server_name
        if access.proxy:
            configuration.proxy = access.proxy
        if access.plugin:
            _Plugin(access, access.plugin, folder, run).install(configuration)
        else:
            _use(configuration, Credentials(access.token, access.certificate, access.key), folder, access)
        yield Session(configuration, access.server)


@contextlib.contextmanager
def connected(access: Access, kind: type[AnyClient]) -> Iterator[AnyClient]:
    """A client for the time of the block."""
    with signed_in(access) as session:
        yield session.client(kind)


@dataclass(slots=True)
class _Plugin:
    """Credentials of an exec plugin, renewed shortly before they expire."""

    access: Access
    plugin: ExecPlugin
    folder: Path
    run: Callable[[ExecPlugin, Access], Credentials]
    expires: float = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def install(self, configuration: Any) -> None:
        self._obtain(configuration)
        configuration.refresh_api_key_hook = self._renew

    def _renew(self, configuration: Any) -> None:
        with self.lock:
            if self.expires and self.expires - RENEW_BEFORE < time.time():
                self._obtain(configuration)

    def _obtain(self, configuration: Any) -> None:
        credentials = self.run(self.plugin, self.access)
        self.expires = credentials.expires
        _use(configuration, credentials, self.folder, self.access)


def _use(configuration: Any, credentials: Credentials, folder: Path, access: Access) -> None:
    if credentials.token:
        configuration.api_key["authorization"] = f"Bearer {credentials.token.reveal()}"
    if credentials.certificate:
        content = f"{credentials.certificate}\n{credentials.key.reveal()}"
        # A renewed certificate gets a file of its own: connections that are being made read the old one.
        name = hashlib.sha256(credentials.certificate.encode()).hexdigest()[:16]
        pem = _private(folder / f"client-{name}.pem", content)
        try:
            ssl.create_default_context().load_cert_chain(pem)
        except (OSError, ssl.SSLError) as error:
            raise KubeconfigUnusable(
                "the client certificate and its key can't be used",
                where=access.server,
                why=str(error),
                fix="get new ones: az aks get-credentials --overwrite-existing",
            ) from error
        configuration.cert_file = configuration.key_file = pem


def _api_client(configuration: Any) -> Any:
    """Connections that trust what kubectl trusts: urllib3's own context is strict from Python 3.13 on."""
    api: Any = client.ApiClient(configuration)
    _use_tls(api, configuration)
    return api


def _use_tls(api: Any, configuration: Any) -> None:
    """Give the connections a TLS context in which the CA and the client's certificate are loaded already.

    urllib3 must not change the shared context at each connection, neither by loading the files nor by
    naming the protocol: OpenSSL crashes, hangs or sends garbage if one thread does that while another
    one shakes hands.
    """
    context = tls_context(cafile=configuration.ssl_ca_cert or None)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file)
    context.set_alpn_protocols(PROTOCOLS)
    context.set_alpn_protocols = _is_set_already  # type: ignore[method-assign]
    options = api.rest_client.pool_manager.connection_pool_kw
    options.update(ssl_context=context, ca_certs=None, cert_file=None, key_file=None)


def _is_set_already(alpn_protocols: Iterable[str]) -> None:
    """Instead of urllib3's call at each connection: the context has the protocols."""


def _trusted(folder: Path, access: Access) -> str:
    certificates = only_certificates(access.ca_pem)
    try:
        ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
        raise KubeconfigUnusable(
            "the CA certificates of the API server can't be used",
            where=access.server,
            why=str(error),
            fix="use PEM certificates: az aks get-credentials writes them into the kubeconfig",
        ) from error
    return _private(folder / "ca.pem", certificates)


def _private(path: Path, content: str) -> str:
    """Write a file that only we can read, from its first byte."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    return str(path)


def _pause(attempt: int, headers: Any) -> float:
    """Seconds before the next attempt: what the API server asks for, else longer each time."""
    asked = (headers or {}).get("Retry-After", "") if hasattr(headers or {}, "get") else ""
    try:
        return min(float(asked), LONGEST_PAUSE)
    except (TypeError, ValueError):
        return PAUSE * attempt


def bearer(secret: str) -> Secret:
    """A token option, with or without the word that kubernetes.core allows before it."""
    return Secret(secret.removeprefix("Bearer ").strip())
