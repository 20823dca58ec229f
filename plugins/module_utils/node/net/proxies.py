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


def bypassed(host: str, no: tuple[str, ...]) -> bool:
    """Whether `host` is reached without the proxy: exact names, domains (.example), networks."""
    import ipaddress

    for entry in no:
        if entry == "*" or host == entry.lstrip(".") or host.endswith("." + entry.lstrip(".")):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False
