# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Real HTTP and HTTPS servers on 127.0.0.1, and the certificates they need."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pki:
    """A CA, a server's certificate for 127.0.0.1 and localhost, a client's."""

    ca_pem: str
    server: Path  # certificate and key in one file, as the kubelet keeps its own
    client: Path

    @classmethod
    def make(cls, directory: Path, *, server_days: int = 3650, client_days: int = 3650) -> Pki:
        """New keys in a directory. server_days, client_days: that a certificate is valid from now on."""
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _certificate("test-ca", ca_key, "test-ca", ca_key, ca=True)
        made = []
        for name in ("server", "client"):
            key = ec.generate_private_key(ec.SECP256R1())
            days = server_days if name == "server" else client_days
            certificate = _certificate(name, key, "test-ca", ca_key, days=days)
            made.append(directory / f"{name}.pem")
            made[-1].write_bytes(_pem(certificate) + _pem_key(key))
        return cls(_pem(ca).decode(), *made)

    def server_context(self, *, client_needed: bool = False) -> ssl.SSLContext:
        """TLS for a server; with `client_needed` it wants a certificate of our CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        if client_needed:
            context.load_verify_locations(cadata=self.ca_pem)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    ca: bool = False,
    days: int = 3650,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=3650))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What it gets. `cut` closes the connection after so many bytes of the body."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


def answer_json(document: Any, status: int = 200, **headers: str) -> Answer:
    """A document as JSON."""
    return Answer(json.dumps(document).encode(), status, headers)


def one_at_a_time(answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """For a fake that remembers: every connection has a thread, and two answers must not mix."""
    lock = threading.Lock()

    def alone(request: Request) -> Answer:
        with lock:
            return answer(request)

    return alone


@dataclass
class Server:
    """A running server: its address and what it was asked."""

    url: str
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def asked(self) -> list[str]:
        """Method and path of every request."""
        return [f"{request.method} {request.path}" for request in self.requests]


@contextmanager
def serving(
    answer: Callable[[Request], Answer], context: ssl.SSLContext | None = None, *, keep_alive: bool = False
) -> Iterator[Server]:
    """A server that lives as long as the block; with `keep_alive` one connection serves many requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"
        # One packet per answer: on a kept connection the second one would wait 40 ms for an acknowledgement.
        disable_nagle_algorithm, wbufsize = True, -1

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(self.command, self.path, dict(self.headers), self.rfile.read(length))
            server.requests.append(request)
            given = answer(request)
            # A test that has a clock of its own answers with its time.
            (self.send_response_only if "Date" in given.headers else self.send_response)(given.status)
            for name, value in given.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(given.body)))
            if not keep_alive:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(given.body if given.cut is None else given.body[: given.cut])
            self.close_connection = not keep_alive or given.cut is not None

        do_GET = do_HEAD = do_POST = do_PATCH = do_DELETE = do_PUT = do_CONNECT = handle_one

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A refused handshake is what some tests are about."""

        def get_request(self) -> Any:
            connection, address = super().get_request()
            server.connections += 1
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            return connection, address

    listener = Quiet(("127.0.0.1", 0), Handler)
    scheme = "https" if context else "http"
    server = Server(f"{scheme}://127.0.0.1:{listener.server_address[1]}")
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@contextmanager
def hanging_up() -> Iterator[str]:
    """The address of a server that closes every connection in the middle of the TLS handshake."""

    class Hello(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hello) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()
        thread.join()
