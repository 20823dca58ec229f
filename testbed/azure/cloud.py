# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the emulated Azure that everything in it shares."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.azure.authorization.grants import Grants
from testbed.azure.database import Database
from testbed.azure.pools.service import Service
from testbed.azure.provider.provider import Provider
from testbed.azure.serving.place import Place
from testbed.azure.sign_in.directory import Directory
from testbed.azure.sign_in.tokens import Authority


@dataclass(frozen=True)
class Cloud:
    """Azure: one tenant, one subscription, one cluster."""

    place: Place
    database: Database
    directory: Directory
    authority: Authority
    grants: Grants
    provider: Provider
    pools: Service
