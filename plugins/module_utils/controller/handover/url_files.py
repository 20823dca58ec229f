# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration URLs for machines that join by themselves: one file per node, for its owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ..inventory.errors import InventoryInvalid
from ..inventory.machines import Machine, alike, of_sources
from ..private_file import replace_private
from .documents import Answers, urls_of


class UrlFiles:
    """Where the URLs of a run are written, and of which machines; checked before Azure is asked for any."""

    def __init__(self, machines: Iterable[Machine], *, check: bool) -> None:
        wanted = [one for one in of_sources(machines, "rp", "blob", "url") if one.url_directory]
        found = alike(wanted, lambda one: os.path.abspath(os.path.expanduser(one.url_directory)))
        for members in found.values():
            names = [one.node or one.host for one in members]
            if len(names) != len(set(names)):
                raise InventoryInvalid(
                    "machines of several clusters have the same Node name, and would share one URL file",
                    fix="set a flexnode_url_directory of its own for the machines of each cluster",
                )
        self._members = {} if check else found
        for directory in self._members:
            _prepare(directory)

    def write(self, key: str, source: str, answers: Answers) -> None:
        """Write the URLs in answers about machines of a source: those of others may have the same names."""
        for directory, members in self._members.items():
            _write(directory, urls_of(of_sources(members, source), answers, key))


def _prepare(directory: str) -> None:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise InventoryInvalid(
            "flexnode_url_directory can't be created",
            where=directory,
            why=str(error),
            fix="choose another directory",
        ) from error
    if not os.access(directory, os.W_OK):
        raise InventoryInvalid(
            "flexnode_url_directory can't be written", where=directory, fix="choose another directory"
        )


def _write(directory: str, urls: Mapping[str, str]) -> None:
    """Write NODE.url for each node; a URL is a secret, and Azure tells it only once."""
    for name, url in urls.items():
        replace_private(os.path.join(directory, f"{name}.url"), f"{url}\n")
