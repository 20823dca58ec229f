# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of this machine's Node without the configuration: as it joined, else its host name."""

from __future__ import annotations

from ...errors import FlexNodeError
from ...machine.facts import LOST, joined_hostname
from ...machine.host import Host
from .state import store_of


def own_name(host: Host, directory: str | None = None) -> str:
    """The name; directory: the data directory, if the caller knows it.

    A state that can't be read is not reported here: whoever acts on it reads it, too.
    """
    try:
        store = store_of(host, directory)
        stored = store.state().get("facts") or (LOST if store.applied_if_intact() else None)
    except FlexNodeError:
        stored = LOST
    return joined_hostname(host, stored)


def kubelet_name(host: Host) -> str:
    """The name of the Node as the kubelet runs with it; without its flags the host name."""
    return joined_hostname(host, LOST)
