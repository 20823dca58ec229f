# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proxies, and what is reached without them."""

from __future__ import annotations

from ..dataclass import dataclass


@dataclass(frozen=True)
class Proxies:
    """Proxy URLs; `no` lists hosts, domains and networks that are reached directly."""

    http: str = ""
    https: str = ""
    no: tuple[str, ...] = ()


def bypassed(host: str, no: tuple[str, ...], port: int = 0) -> bool:
    """Whether `host` is reached without the proxy: names, domains (.example, *.example), networks.

    As NO_PROXY is read by Go, which containerd gets the same list for: in any case, an entry may have a port.
    """
    return any(_names(entry.strip().lower(), host.lower(), port) for entry in no)


def _names(entry: str, host: str, port: int) -> bool:
    """Whether an entry of the list names a host."""
    import ipaddress

    name, only = _split(entry)
    if not name or only not in (0, port):
        return False
    domain = name.removeprefix("*.").lstrip(".")
    if name == "*" or host == domain or host.endswith(f".{domain}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def _split(entry: str) -> tuple[str, int]:
    """HOST:PORT or [IPv6]:PORT; 0: every port. More colons without brackets are an IPv6 address."""
    name, colon, port = entry.rpartition(":")
    alone = ":" not in name or (name.startswith("[") and name.endswith("]"))
    if colon and alone and port.isdecimal():
        return name.strip("[]"), int(port)
    return entry.strip("[]"), 0
