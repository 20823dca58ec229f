# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Blob Storage: a real Azurite over TLS, from npm."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from testbed.basics import files, paths, podman
from testbed.basics.process import run
from testbed.basics.progress import step
from testbed.images import recipes
from testbed.layout.site import Site
from testbed.services.service import Service

PORT = 10000
INSIDE = "/srv/azurite"
PROGRAM = "/opt/azurite/node_modules/azurite/dist/src/blob/main.js"
BUILD = Path(__file__).resolve().parents[1] / "builds" / "azurite"
ACCOUNT = "flexnodeblobs"
PROVIDER_ACCOUNT = "aksconfigs"
"""The resource provider's own, apart from what users write."""
INSTALL_SECONDS = 600
LOGGED = re.compile(r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) ([^ ?"]+)\??(\S*) [^"]*" (\d+)')
PRIVATE = re.compile(r"(sig=)[^&]+")


@dataclass(frozen=True)
class Account:
    """A storage account."""

    url: str
    name: str
    key: str = field(repr=False)

    @property
    def connection_string(self) -> str:
        """All of it in one line, as the portal shows it."""
        parts = {
            "DefaultEndpointsProtocol": "https",
            "AccountName": self.name,
            "AccountKey": self.key,
            "BlobEndpoint": self.url,
        }
        return "".join(f"{name}={value};" for name, value in parts.items())


@dataclass(frozen=True)
class BlobRequest:
    """One request, and how it ended."""

    time: float
    """In whole seconds since 1970."""
    client: str
    method: str
    path: str
    query: str
    """Without the signature."""
    status: int


class Blob:
    """Azurite at a fixed address, with one account for users and one for the resource provider."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._directory = site.directory / "azurite"

    @property
    def account(self) -> Account:
        """The users' account."""
        return self._account(ACCOUNT)

    @property
    def provider_account(self) -> Account:
        """The resource provider's account."""
        return self._account(PROVIDER_ACCOUNT)

    @property
    def account_url(self) -> str:
        """Where the users' account is."""
        return self.account.url

    @property
    def account_name(self) -> str:
        """The users' account."""
        return self.account.name

    @property
    def account_key(self) -> str:
        """Its key."""
        return self.account.key

    @property
    def connection_string(self) -> str:
        """All of it in one line."""
        return self.account.connection_string

    def requests(self) -> list[BlobRequest]:
        """Every request to a blob or container so far, in order, of whichever account."""
        log = podman.podman("logs", self._site.container("azurite")).stdout
        return [request for line in log.splitlines() if (request := parse(line))]

    def service(self) -> Service:
        """The container that serves it."""
        address = self._site.plan.service("azurite")
        pair = self._site.authority.issue("azurite", "azurite", names=[address])
        files.write(self._directory / "tls.crt", pair.cert.read_bytes())
        files.write(self._directory / "tls.key", pair.key.read_bytes(), 0o600)
        accounts = (self.account, self.provider_account)
        return Service(
            name="azurite",
            argv=(
                *("/usr/bin/node", PROGRAM),
                *("--blobHost", "0.0.0.0", "--blobPort", str(PORT)),  # noqa: S104
                *("--location", f"{INSIDE}/data"),
                *("--cert", f"{INSIDE}/tls.crt", "--key", f"{INSIDE}/tls.key"),
                "--skipApiVersionCheck",  # the newest SDK is newer than any Azurite
                "--disableTelemetry",
            ),
            port=PORT,
            mounts=((self._directory, INSIDE, True), (ensure(), "/opt/azurite", False)),
            environment=(("AZURITE_ACCOUNTS", ";".join(f"{one.name}:{one.key}" for one in accounts)),),
            recipe=recipes.BLOB,
        )

    def _account(self, name: str) -> Account:
        path = self._directory / "keys.json"
        key = json.loads(files.once(path, _keys))[name]
        return Account(f"https://{self._site.plan.service('azurite')}:{PORT}/{name}", name, key)


def _keys() -> str:
    keys = {one: base64.b64encode(secrets.token_bytes(64)).decode() for one in (ACCOUNT, PROVIDER_ACCOUNT)}
    return json.dumps(keys, indent=1) + "\n"


def parse(line: str) -> BlobRequest | None:
    """A line of the access log."""
    found = LOGGED.match(line)
    if not found:
        return None
    client, moment, method, path, query, status = found.groups()
    then = datetime.datetime.strptime(moment, "%d/%b/%Y:%H:%M:%S %z")
    return BlobRequest(then.timestamp(), client, method, path, PRIVATE.sub(r"\1...", query), int(status))


def directory() -> Path:
    """Where the program of the present lock is."""
    lock = hashlib.sha256((BUILD / "package-lock.json").read_bytes()).hexdigest()
    return paths.cache() / "npm" / f"azurite-{lock[:12]}"


def is_there() -> bool:
    """Whether Azurite is installed."""
    return directory().is_dir()


def ensure() -> Path:
    """Install Azurite with its dependencies if needed; return its directory."""
    wanted = directory()
    if wanted.is_dir():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(paths.cache() / "locks" / "azurite"):
        if not wanted.is_dir():
            with step("install Azurite from npm"):
                _install(wanted)
    return wanted


def _install(wanted: Path) -> None:
    whole = Path(tempfile.mkdtemp(dir=wanted.parent, prefix=".new-"))
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(BUILD / name, whole / name)
        # The lock pins every package by its digest; no script of any of them is run.
        run(
            ["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=whole,
            timeout=INSTALL_SECONDS,
        )
        whole.chmod(0o755)
        os.replace(whole, wanted)  # appears whole or not at all
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)
        raise
