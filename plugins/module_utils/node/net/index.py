# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page of a Python package index (PEP 503): which link leads to a file."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import unquote, urljoin

from ..errors import ArtifactUnreachable
from .answer import HttpFailure, shown
from .http_client import HttpClient


class Links(HTMLParser):
    """The targets of all links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def file_url(client: HttpClient, url: str) -> str:
    """The URL of a file: `PAGE#FILE` is looked up on that page, any other URL is the file's own.

    An index may serve its files from anywhere; the digest says whether it is the right one.
    """
    page, _hash, file = url.partition("#")
    if not file:
        return url
    try:
        answer = client.request("GET", page, headers={"Accept": "text/html"})
    except HttpFailure as failure:
        raise ArtifactUnreachable(
            f"the page of {file} can't be read",
            where=failure.url,
            why=failure.reason,
            fix=failure.advice or "check pull.index or pull.wheels, the network and `proxy`, then retry",
        ) from failure
    links = Links()
    links.feed(answer.body.decode(errors="replace"))
    for link in links.found:
        target = link.partition("#")[0]
        if unquote(target.rpartition("/")[2]) == file:
            return urljoin(page, target)
    raise ArtifactUnreachable(
        f"{file} is not in this package index",
        where=shown(page),
        why="its page has no link to that file",
        fix="use an index that has it (pull.index), or a directory with the wheels (pull.wheels)",
    )
