# SPDX-License-Identifier: GPL-3.0-or-later
"""himdsd: the metadata service of the Arc agent, with its challenge files."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import threading
import uuid
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from . import metadata, settings
from .azure_http import token
from .metadata import Answer

USER = GROUP = "himds"
REMEMBERED = 100


class Challenges:
    """Files of the agent's user, for its group to read; who proves to have read one gets a token, once."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._lock = threading.Lock()

    def new(self) -> str:
        """Make a file; its path."""
        directory = settings.tokens()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{uuid.uuid4()}.key"
        content = base64.b64encode(secrets.token_bytes(128)).decode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o440)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(content)
        try:
            shutil.chown(path, USER, GROUP)
        except LookupError:
            path.chmod(0o400)
        with self._lock:
            self._open[content] = str(path)
            while len(self._open) > REMEMBERED:
                self._forget(next(iter(self._open)))
        return str(path)

    def spend(self, content: str) -> bool:
        """Whether this is the content of an open challenge; it is closed then."""
        with self._lock:
            return self._forget(content)

    def _forget(self, content: str) -> bool:
        path = self._open.pop(content, None)
        if path:
            Path(path).unlink(missing_ok=True)
        return path is not None


def give(challenges: Challenges, resource: str, headers: dict[str, str]) -> dict[str, Any]:
    """A token for the caller that answers the challenge."""
    fault = settings.faults("himds")
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    if scheme != "Basic" or not challenges.spend(shown) or fault.get("wrong_challenge"):
        # `realm`: what an impostor on this port would name.
        path = fault.get("realm") or challenges.new()
        raise Answer(401, "unauthorized", "Unauthorized", Www_Authenticate=f"Basic realm={path}")
    config, azure = settings.read(settings.agent_config()), settings.azure()
    mine = settings.read(settings.credential())
    if not config.get("resourceName") or not mine:
        raise Answer(404, "not_connected", "The machine is not connected to Azure Arc")
    return token(azure["authority"], mine["tenant_id"], mine["client_id"], mine["client_secret"], resource)


def service(port: int = settings.PORT) -> ThreadingHTTPServer:
    """The service, ready to run."""
    challenges = Challenges()
    for left in settings.tokens().glob("*.key"):  # of a service that was ended
        left.unlink(missing_ok=True)
    return metadata.listener(
        "himds", "127.0.0.1", port, lambda resource, query, headers: give(challenges, resource, headers)
    )


if __name__ == "__main__":
    service().serve_forever()
