# SPDX-License-Identifier: GPL-3.0-or-later
"""The OpenVPN server as the gateway that the emulated Azure provisions: it is there while Azure has one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from testbed.vpn.gateway import Gateway
from testbed.vpn.settings import Settings

INTERVAL = 0.5
DONE = "Succeeded"


class Azure(Protocol):
    """What is needed of the emulated Azure."""

    def vpn(self) -> dict[str, Any]:
        """The point-to-site settings of its gateway."""


class Follower:
    """Brings a server to what Azure says, whenever that has changed."""

    def __init__(self, gateway: Gateway, azure: Azure) -> None:
        self._gateway, self._azure = gateway, azure
        self._applied: Settings | None = None

    def look(self) -> None:
        """Once. A change counts when its operation has ended, as in Azure."""
        document = self._azure.vpn()
        if document["gateway"] and document["provisioningState"] != DONE:
            return
        wanted = Settings.of(document) if document["gateway"] else None
        if wanted == self._applied:
            return
        if wanted is None:
            self._gateway.stop()
        else:
            self._gateway.apply(wanted)
        self._applied = wanted


@contextmanager
def following(gateway: Gateway, azure: Azure) -> Iterator[None]:
    """While this lasts, the server is the gateway of this Azure. The end raises what went wrong meanwhile."""
    gateway.stop()
    follower, ended, errors = Follower(gateway, azure), threading.Event(), list[Exception]()

    def follow() -> None:
        try:
            while not ended.wait(INTERVAL):
                follower.look()
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the gateway
            errors.append(error)

    thread = threading.Thread(target=follow, name="vpn-gateway")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        gateway.stop()
    if errors:
        raise errors[0]
