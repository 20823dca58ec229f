# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The source of a configuration that the command line names."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..config.types.addresses import only_certificates, proxy_url
from ..config.types.setting import Refused
from ..errors import ConfigInvalid, FileUnusable
from ..machine.host import Host
from ..net.proxies import Proxies
from ..node_object.advice import FILE, POOL, URL
from ..sources.source import Inline, Source, Url
from .yaml_file import read_document


def has_source(options: argparse.Namespace) -> bool:
    """Whether the command line names a configuration."""
    return bool(options.config or options.config_url or getattr(options, "pool", None))


def origin_of(options: argparse.Namespace) -> str:
    """The option that names the configuration; empty: it is the stored one."""
    if getattr(options, "pool", None):
        return POOL
    return URL if options.config_url else FILE if options.config else ""


def named_source(options: argparse.Namespace, host: Host) -> Source:
    """The source that the command line names."""
    if options.config_url:
        from ..net.http_client import HttpClient  # slow to import

        url = sys.stdin.readline().strip() if options.config_url == "-" else options.config_url
        ca = only_certificates(open_text(options.ca_cert, errors="replace")) if options.ca_cert else ""
        return Url(url, HttpClient(ca_pem=ca, clock=host.clock, proxies=named_proxy(options.proxy)), ca)
    return Inline(named_document(options))


def named_document(options: argparse.Namespace) -> dict[str, Any]:
    """The document in the file that the command line names."""
    text = sys.stdin.read() if options.config == "-" else open_text(options.config)
    return read_document(text, options.config)


def named_proxy(url: str | None) -> Proxies | None:
    """The proxy that the command line names; its URL may contain a password, and is never shown."""
    if url is None:
        return None
    try:
        proxy = proxy_url.read(sys.stdin.readline().strip() if url == "-" else url).reveal()
    except Refused as refused:
        raise ConfigInvalid(list(refused.under("--proxy"))) from None
    return Proxies(http=proxy, https=proxy)


def open_text(path: str, errors: str = "strict") -> str:
    """The content of a file that the user names; a missing file is an error with a code."""
    try:
        with open(path, encoding="utf-8", errors=errors) as file:
            return file.read()
    except OSError as error:
        raise FileUnusable(
            "the file can't be read",
            where=path,
            why=os.strerror(error.errno or 0),
            fix="check the path and its mode",
        ) from error
