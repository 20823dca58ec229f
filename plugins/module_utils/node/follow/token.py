# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token with which this node polls its resource, kept between polls where a poll finds it cheaply.

The cache of the identities needs the whole configuration to find a token; reading that costs more than all
the rest of a poll. So the token is kept once more, beside the others: in memory, for root only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json

from ..dataclass import dataclass
from ..engine.records.state import Store
from ..errors import ConfigMissing, FlexNodeError
from ..identity.cache import DIRECTORY, Cached, private_file
from ..machine.host import Host
from ..machine.layout import RUN_DIR
from ..secret import Secret

FILE = f"{DIRECTORY}/poll"


@dataclass(frozen=True)
class PollingToken:
    """A token for Azure Resource Manager."""

    value: Secret
    refused: bool = False  # its source refuses this node's credential: there will be no next one


def polling_token(host: Host, store: Store) -> PollingToken:
    """The kept token while it is valid, else a new one."""
    document = hashlib.sha256(host.read(f"{store.directory}/current-config.json") or b"").hexdigest()
    try:
        kept = json.loads(private_file(host, FILE) or b"null")
        now = host.clock.monotonic()
        if kept["document"] == document and kept["since"] <= now < kept["until"]:
            return PollingToken(Secret(kept["token"]))
    except (ValueError, TypeError, KeyError):
        pass
    identity, audience = polling_identity(host, store)
    issued = identity.token(audience)
    now, seconds = host.clock.monotonic(), issued.refresh_on - host.clock.now()
    if identity.refusal is None:
        content = {
            "document": document,
            "token": issued.value.reveal(),
            "since": now,
            "until": now + seconds,
        }
        with contextlib.suppress(FlexNodeError):  # a full /run only costs the next poll some time
            host.make_directories(RUN_DIR, 0o700)
            host.make_directory(DIRECTORY, 0o700)
            host.write(FILE, json.dumps(content).encode(), 0o600, durable=False)
    return PollingToken(issued.value, refused=identity.refusal is not None)


def forget_token(host: Host, store: Store) -> None:
    """Azure does not accept the token: the next one is a new one."""
    host.remove(FILE)
    identity, audience = polling_identity(host, store)
    identity.forget(audience)


def polling_identity(host: Host, store: Store) -> tuple[Cached, str]:
    """The Azure identity of this node, and the audience of its tokens; one short attempt to get one."""
    from ..config.parse import parse  # rarely needed, and slow
    from ..identity.choice import audience_for, identity_for

    document, _intact = store.remembered()
    if document is None:
        raise ConfigMissing("no configuration is stored on this machine", where=store.directory)
    config = parse(document, pollable=True)
    return identity_for(config, host, "azure", hurry=True), audience_for(config, "azure")
