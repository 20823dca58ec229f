# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe the network: API server, downloads, proxy. Never with the bootstrap token."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from functools import partial

from ...catalogue.artifacts import Artifact
from ...config.model import NodeConfig
from ...config.types.values import ApiServer
from ...machine.clock import Clock
from ...net.answer import AGENT, HttpFailure, shown
from ...net.http_client import HttpClient
from ...net.proxy import download_client, proxies
from ...net.tls import INSTALL_CAS, OUT_OF_TIME, lacks_system_cas, tls_context
from ...secret import Secret
from ..seen import ApiAnswer, Source

PATIENCE = 5.0  # seconds for each step of a connection
MOST = 64 << 10
CLOCK_ADVICE = (
    "check this machine's clock (timedatectl); if it is right, the server's certificate has expired"
)


def ask_api(server: ApiServer, clock: Clock, seconds: float = PATIENCE) -> ApiAnswer:
    """DNS, TCP, TLS with the configured CA, HTTP: anonymously, and directly, as the kubelet connects."""
    parts = urllib.parse.urlsplit(server.url)
    name, port = parts.hostname or "", parts.port or 443
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a DNS label that is empty or too long
        return ApiAnswer("dns", cause(error))
    addresses = tuple(dict.fromkeys(str(item[4][0]) for item in found))
    try:
        connection = connect(addresses, port, seconds)
    except OSError as error:
        return ApiAnswer("tcp", cause(error), addresses=addresses)
    with connection:
        try:
            context = tls_context(cadata=server.ca.pem)
            secured = context.wrap_socket(connection, server_hostname=name)
        except (OSError, ValueError) as error:
            late = isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in OUT_OF_TIME
            return ApiAnswer("tls", cause(error), CLOCK_ADVICE if late else "", addresses)
        with secured:
            try:
                status, headers, body = get(secured, name, port, "/version")
            except (OSError, http.client.HTTPException) as error:
                return ApiAnswer("http", cause(error), addresses=addresses)
    document = object_in(body)
    version = str(document.get("gitVersion", ""))
    return ApiAnswer(
        addresses=addresses,
        status=status,
        version=version,
        is_kubernetes=bool(version) or document.get("kind") == "Status",
        skew=skew_of(headers, clock),
    )


def connect(addresses: Iterable[str], port: int, seconds: float) -> socket.socket:
    """A connection to the first address that accepts one, within `seconds` for all of them."""
    failure, tried = OSError("it has no IP address"), list(addresses)[:3]
    for address in tried:
        try:
            connection = socket.create_connection((address, port), seconds / len(tried))
        except OSError as error:
            failure = error
        else:
            connection.settimeout(seconds)
            return connection
    raise failure


def get(
    connection: socket.socket, name: str, port: int, path: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """One request over an open connection."""
    # With the port: http.client would take the end of an IPv6 address for one.
    client = http.client.HTTPConnection(name, port)
    client.sock = connection
    client.request("GET", path, headers={"User-Agent": AGENT, "Accept": "application/json"})
    answer = client.getresponse()
    return answer.status, answer.headers, answer.read(MOST)


def ask_artifacts(
    artifacts: Iterable[Artifact], config: NodeConfig, clock: Clock, seconds: float = PATIENCE
) -> dict[str, Callable[[], Source]]:
    """A probe for every file that will be downloaded, through the same proxy."""
    names: dict[str, list[str]] = {}
    for artifact in artifacts:
        names.setdefault(artifact.url, []).append(artifact.name)
    client = download_client(config, clock, timeout=seconds, attempts=1)
    return {url: partial(ask_file, client, url, tuple(of), clock) for url, of in names.items()}


def ask_file(client: HttpClient, url: str, names: tuple[str, ...], clock: Clock) -> Source:
    """The first byte of a file. A GET, as the download will be: some servers refuse HEAD."""
    try:
        with client.open("GET", url, headers={"Range": "bytes=0-0"}) as answer:
            return Source(names, shown(url), skew=skew_of(answer.headers, clock))
    except HttpFailure as failure:
        return Source(
            names,
            failure.url,
            failure.reason,
            failure.advice,
            failure.tls,
            missing=400 <= failure.status < 500 and failure.status != 407,
        )


def ask_registries(
    config: NodeConfig, clock: Clock, seconds: float = PATIENCE
) -> dict[str, Callable[[], Source]]:
    """A probe for every image registry that the first pod needs."""
    registry = config.containerd.pause_image.partition("/")[0]
    mirror = config.registry_mirrors.get(registry) or config.registry_mirrors.get("_default")
    endpoints = mirror.endpoints if mirror else (f"https://{registry}",)
    ca = mirror.ca_cert.pem if mirror and mirror.ca_cert else ""
    advice = INSTALL_CAS if not mirror and lacks_system_cas() else ""  # containerd reads the same file
    client = HttpClient(
        ca_pem=ca, proxies=proxies(config), clock=clock, timeout=seconds, attempts=1, untrusted=advice
    )
    image = config.containerd.pause_image
    return {f"{at}/v2/": partial(ask_registry, client, f"{at}/v2/", image) for at in endpoints}


def ask_registry(client: HttpClient, url: str, image: str) -> Source:
    """Whether a registry answers; a request for a login is an answer too."""
    try:
        with client.open("GET", url):
            return Source((image,), shown(url))
    except HttpFailure as failure:
        refused = 400 <= failure.status < 500 and failure.status != 407
        return Source((image,), failure.url, "" if refused else failure.reason, failure.advice, failure.tls)


def ask_proxies(config: NodeConfig, seconds: float = PATIENCE) -> dict[str, Callable[[], Source]]:
    """A probe for each proxy that is configured."""
    configured = {"proxy.http": config.proxy.http, "proxy.https": config.proxy.https}
    return {name: partial(ask_proxy, name, url, seconds) for name, url in configured.items() if url}


def ask_proxy(name: str, address: Secret, seconds: float) -> Source:
    """Whether the proxy accepts a connection."""
    url = shown(address.reveal())
    parts = urllib.parse.urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), seconds):
            return Source((name,), url)
    except (OSError, UnicodeError) as error:
        return Source((name,), url, cause(error))


def skew_of(headers: object, clock: Clock) -> float | None:
    """Seconds by which this machine's clock is ahead of a server's; None: its answer has no date."""
    read = getattr(headers, "get", lambda _name: None)
    if read("Age"):  # from a cache: its date is that of the original answer
        return None
    try:
        return clock.now() - parsedate_to_datetime(str(read("Date"))).timestamp()
    except (TypeError, ValueError):
        return None


def object_in(body: bytes) -> dict[str, object]:
    """A JSON object; empty if it is something else."""
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def cause(error: Exception) -> str:
    """The cause, in short."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, UnicodeError):
        return "it is not the name of a host"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
