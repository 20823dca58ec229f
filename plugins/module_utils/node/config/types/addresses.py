# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kinds of addresses: IP, CIDR, URLs with and without credentials, CA certificates."""

from __future__ import annotations

import re
from base64 import b64decode
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Union
from urllib.parse import SplitResult, urlsplit

from ...secret import REDACTED
from .kinds import parsed, secret
from .values import Certificates

# Not `A | B`: ansible-test checks aliases as if for a Python that could not evaluate it.
Address = Union[IPv4Address, IPv6Address]  # noqa: UP007
Network = Union[IPv4Network, IPv6Network]  # noqa: UP007


def _network(raw: str) -> Network:
    if "/" not in raw:
        raise ValueError("it has no prefix length, such as /16")
    try:
        return ip_network(raw)
    except ValueError as error:
        raise ValueError(str(error).replace(f"{raw!r}", "it")) from None


address = parsed("an IP address", ip_address)
network = parsed("a CIDR such as 10.0.0.0/16", _network)


def _node_ip(raw: str) -> tuple[Address, ...]:
    found = tuple(ip_address(part.strip()) for part in raw.split(","))
    if len(found) > 2 or len({item.version for item in found}) != len(found):
        raise ValueError("two addresses must be one IPv4 and one IPv6")
    return found


node_ip = parsed("an IP address, or an IPv4 and an IPv6 address with a comma between", _node_ip)


def _endpoint(raw: str) -> str:
    host, _colon, port = raw.rpartition(":")
    bracketed = re.fullmatch(r"\[(.*)\]", host)
    if (ip_address(bracketed[1] if bracketed else host).version == 6) != bool(bracketed):
        raise ValueError("an IPv6 address, and no other, is written in brackets, such as [::1]:10257")
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError("the port must be 1 to 65535")
    return raw


listen_address = parsed("IP:PORT such as 127.0.0.1:10257", _endpoint)


def _is_host(name: str) -> bool:
    """Whether a name can be looked up: parts of 1 to 63 characters, 253 in all. Not whether it exists."""
    if ":" in name:  # an IPv6 address
        return True
    try:
        plain = name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return False
    parts = plain.removesuffix(".").split(".")
    return len(plain.removesuffix(".")) <= 253 and all(1 <= len(part) <= 63 for part in parts)


def _split(raw: str, *schemes: str) -> SplitResult:
    """Split a URL that must have a scheme and a host; no message quotes it, it may hold a password."""
    try:
        url = urlsplit(raw)
        port = url.port
    except ValueError:
        raise ValueError("it is not a URL, or its port is not a number") from None
    if url.scheme not in schemes:
        raise ValueError(f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    if not url.hostname or re.search(r"[\s\x00-\x1f\x7f\"'<>\\^`|]", raw):
        raise ValueError("it has no host, or characters a URL can't have")
    if not _is_host(url.hostname):
        raise ValueError("a host name has 1 to 63 characters between its dots, and 253 at most")
    if port == 0:
        raise ValueError("port 0 is not a port")
    return url


def _plain(url: SplitResult) -> SplitResult:
    if url.username is not None or url.query or url.fragment:
        raise ValueError("user, password, query and fragment are not accepted here")
    return url


def _origin(raw: str) -> str:
    url = _plain(_split(raw, "https"))
    if url.path not in ("", "/"):
        raise ValueError("a path is not accepted here")
    return f"https://{url.netloc}"


def _https(raw: str) -> str:
    return _plain(_split(raw, "https")).geturl().rstrip("/")


def _source(raw: str) -> str:
    url = _plain(_split(raw, "https", "http"))
    if url.scheme == "http" and not _is_local(url.hostname or ""):
        raise ValueError("http:// is only for a server on the machine itself, such as http://127.0.0.1:8080")
    return url.geturl().rstrip("/")


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _template(raw: str) -> str:
    unknown = set(re.findall(r"\{([^}]*)\}", raw)) - {"version", "arch"}
    if unknown or raw.count("%s") > 2 or re.search(r"%(?!s|[0-9A-Fa-f]{2})", raw):
        raise ValueError(
            "placeholders are {version} and {arch}, or %s for the version and a second %s for the arch"
        )
    _source(raw.replace("{", "").replace("}", "").replace("%s", "0"))
    return raw.rstrip("/")


https_origin = parsed("https://HOST[:PORT]", _origin)
https_url = parsed("an https:// URL", _https)
source_url = parsed("an https:// URL without credentials", _source)
url_template = parsed("an https:// URL; {version}, {arch} or %s, %s are filled in", _template)


def _proxy(raw: str) -> str:
    url = _split(raw, "http", "https")
    if url.scheme == "https":
        # urllib never speaks TLS to a proxy: it would send the password in clear text.
        raise ValueError(
            "the proxy is spoken to over http://, also for https:// URLs; their TLS goes through"
        )
    return url.geturl().rstrip("/")


_SSH = r"ssh://[\w.-]+@[^@]+|[\w.-]+@[\w.-]+:[\w./~-]+"  # the user of an ssh URL is not secret


def _repository(raw: str) -> str:
    if not re.fullmatch(_SSH, raw):
        parts = _split(raw, "https", "ssh")
        if parts.scheme == "ssh" and parts.password is not None:
            # ssh takes none, and the whole URL is in its arguments, which every user of the machine can read.
            raise ValueError("ssh takes no password from a URL; use pull.sshKey")
        if parts.scheme == "https" and parts.query:
            # git keeps it in the URL of the copy, and shows that in its messages.
            raise ValueError("a query is not accepted here; write a token as https://TOKEN@HOST/PATH")
    return raw


def credentials_in(raw: object) -> tuple[str, ...]:
    """Return what is secret in a URL: nothing, or the whole of it, its password and its query."""
    if not isinstance(raw, str) or raw == REDACTED or not re.search("[@?]", raw) or re.fullmatch(_SSH, raw):
        return ()
    user_info = raw.split("://", 1)[-1].rpartition("@")[0]
    password, query = user_info.partition(":")[2] or user_info, raw.partition("?")[2]
    return tuple(part for part in (raw, password, query) if part)


proxy_url = secret(parsed("http://[USER:PASSWORD@]HOST[:PORT]", _proxy), credentials_in)
repository = secret(parsed("a git URL: https://, ssh:// or git@HOST:PATH", _repository), credentials_in)


_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def _bodies(text: str) -> list[str]:
    """What is inside of each PEM block."""
    return re.findall(rf"{_BEGIN}\s+([A-Za-z0-9+/=\s]+?)\s*{_END}", text)


def only_certificates(text: str) -> str:
    """A bundle without comments, byte order mark and CRs; as it is if it has no certificate.

    Python refuses a bundle with a comment that is not ASCII; OpenSSL and Go do not read comments.
    """
    blocks = ("\n".join((_BEGIN, *body.split(), _END, "")) for body in _bodies(text))
    return "".join(blocks) or text


def _certificates(raw: str) -> Certificates:
    """Check that every PEM block is one DER sequence: as far as possible without a parser."""
    if "PRIVATE KEY" in raw:
        raise ValueError("this contains a private key; use certificates only")
    bodies = _bodies(raw)
    if not bodies or raw.count("-----BEGIN") != len(bodies):
        raise ValueError("it has no complete -----BEGIN CERTIFICATE----- block")
    for body in bodies:
        der = b64decode("".join(body.split()), validate=True)
        long_form = der[1] & 0x7F if len(der) > 1 and der[1] & 0x80 else 0
        length = (
            int.from_bytes(der[2 : 2 + long_form], "big") if long_form else der[1] if len(der) > 1 else -1
        )
        if der[:1] != b"\x30" or len(der) != 2 + long_form + length:
            raise ValueError("a certificate in it is truncated or damaged")
    return Certificates(only_certificates(raw))


def _encoded_certificates(raw: str) -> Certificates:
    if raw.startswith("-----BEGIN"):
        raise ValueError("this is PEM; encode it as base64, as in a kubeconfig")
    try:
        decoded = b64decode("".join(raw.split()), validate=True)
    except ValueError:
        raise ValueError("it is not base64") from None
    return _certificates(decoded.decode("ascii", "replace"))  # certificates are ASCII, comments may not be


pem = parsed("certificates in PEM", _certificates)
pem_base64 = parsed("base64 of certificates in PEM", _encoded_certificates)
