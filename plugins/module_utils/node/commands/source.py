# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that name a configuration, and the source that they name."""

from __future__ import annotations

import argparse
import os
import sys

from ..config.document import loads
from ..config.types.addresses import proxy_url
from ..config.types.setting import Refused
from ..errors import ConfigInvalid, FileUnusable
from ..machine.host import Host
from ..net.http_client import HttpClient, Proxies
from ..sources.source import Inline, Source, Url


def add_source(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name a configuration."""
    source = command.add_mutually_exclusive_group(required=required)
    source.add_argument(
        "--config", metavar="FILE", help="a configuration file (JSON); - reads standard input"
    )
    source.add_argument(
        "--config-url",
        metavar="URL",
        help="a configuration URL; - reads it from standard input, where other users can't see it",
    )
    command.add_argument("--ca-cert", metavar="FILE", help="CA of the URL's server, if it is a private one")
    command.add_argument(
        "--proxy",
        metavar="URL",
        help="proxy to fetch the configuration through; - reads it from standard input, after a URL that is "
        "read from there. All else uses the proxy of the configuration",
    )
    command.add_argument(
        "--durable",
        action="store_true",
        help="the URL stays valid and can be polled; required by continuousMonitoring",
    )


def add_retry(command: argparse.ArgumentParser) -> None:
    """Add the option that lifts a block."""
    command.add_argument(
        "--retry", action="store_true", help="also apply a configuration that was rolled back before"
    )


def has_source(options: argparse.Namespace) -> bool:
    """Whether the command line names a configuration."""
    return bool(options.config or options.config_url)


def named_source(options: argparse.Namespace, host: Host) -> Source:
    """The source that the command line names."""
    if options.config_url:
        url = sys.stdin.readline().strip() if options.config_url == "-" else options.config_url
        ca = open_text(options.ca_cert) if options.ca_cert else ""
        return Url(url, HttpClient(ca_pem=ca, clock=host.clock, proxies=named_proxy(options.proxy)), ca)
    text = sys.stdin.read() if options.config == "-" else open_text(options.config)
    return Inline(loads(text, where=options.config))


def named_proxy(url: str | None) -> Proxies | None:
    """The proxy that the command line names; its URL may contain a password, and is never shown."""
    if url is None:
        return None
    try:
        proxy = proxy_url.read(sys.stdin.readline().strip() if url == "-" else url).reveal()
    except Refused as refused:
        raise ConfigInvalid(list(refused.under("--proxy"))) from None
    return Proxies(http=proxy, https=proxy)


def open_text(path: str) -> str:
    """The content of a file that the user names; a missing file is an error with a code."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise FileUnusable(
            "the file can't be read",
            where=path,
            why=os.strerror(error.errno or 0),
            fix="check the path and its mode",
        ) from error
