# SPDX-License-Identifier: GPL-3.0-or-later
"""The mirror as tests use it: its URL, its digests, what it served, and files put on it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from testbed.artifacts import store
from testbed.artifacts.recipes import artifact
from testbed.basics import files, paths
from testbed.layout.site import Site
from testbed.mirror.faults import Fault
from testbed.services.service import Service

PORT = 443
INSIDE = "/srv/mirror"
CACHE_INSIDE = "/srv/artifacts"
PUBLISHED = "published"
PACKAGE = Path(__file__).resolve().parent.parent


class Mirror:
    """A TLS server of upstream's files at {url}/{upstream host}/{upstream path}."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._directory = site.directory / "mirror"

    @property
    def url(self) -> str:
        """The base URL."""
        return f"https://{self._site.plan.service('mirror')}"

    @property
    def catalogue(self) -> dict[str, dict[str, dict[str, str]]]:
        """name -> version -> arch -> sha256 of what nodes can download, without what is broken on purpose.

        For every architecture that the cache has something for.
        """
        return store.catalogue(
            item for item in store.stored() if artifact(item.name).node and item.origin != "broken"
        )

    def artifact_url(self, name: str, version: str, arch: str | None = None) -> str:
        """Where one artifact is served."""
        return f"{self.url}/{artifact(name).path(version, arch or paths.arch())}"

    def log(self) -> list[dict[str, Any]]:
        """Every request served so far: time, client, method, path, status, bytes, seconds."""
        try:
            text = (self._directory / "requests.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def requests(self) -> list[str]:
        """The paths requested so far, in order."""
        return [str(entry["path"]) for entry in self.log()]

    def fail(self, *faults: Fault) -> None:
        """Show these faults from now on, instead of any earlier ones."""
        files.write(self._directory / "faults.json", json.dumps([fault.as_dict() for fault in faults]))

    def heal(self) -> None:
        """Show no faults."""
        (self._directory / "faults.json").unlink(missing_ok=True)

    def publish(self, name: str, data: bytes) -> str:
        """Serve a small file; return its URL."""
        files.write(self._directory / PUBLISHED / name, data)
        self.refresh()
        return f"{self.url}/{PUBLISHED}/{quote(name)}"

    def unpublish(self, name: str) -> None:
        """Serve it no more."""
        (self._directory / PUBLISHED / name).unlink(missing_ok=True)
        self.refresh()

    def refresh(self) -> None:
        """Write the index of what is served: node artifacts of the cache and published files."""
        with files.lock(self._directory / "index.lock"):
            files.write(self._directory / "index.json", json.dumps(self._index(store.stored()), indent=1))

    def _index(self, stored: Iterable[store.Stored]) -> dict[str, dict[str, str]]:
        cached = paths.cache() / "artifacts"
        index = {
            f"/{artifact(item.name).path(item.version, item.arch)}": {
                "file": f"{CACHE_INSIDE}/{item.file.relative_to(cached)}",
                "sha256": item.sha256,
            }
            for item in stored
        }
        root = self._directory / PUBLISHED
        for file in sorted(
            path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")
        ):
            name = file.relative_to(root)
            index[f"/{PUBLISHED}/{name}"] = {
                "file": f"{INSIDE}/{PUBLISHED}/{name}",
                "sha256": files.sha256(file),
            }
        return index

    def service(self) -> Service:
        """The container that serves it."""
        address = self._site.plan.service("mirror")
        pair = self._site.authority.issue("mirror", "mirror", names=[address])
        files.write(self._directory / "tls.crt", pair.cert.read_bytes())
        files.write(self._directory / "tls.key", pair.key.read_bytes(), 0o600)
        self.refresh()
        return Service(
            name="mirror",
            argv=("/usr/bin/python3", "-m", "testbed.mirror.server", INSIDE, str(PORT)),
            port=PORT,
            mounts=(
                (self._directory, INSIDE, True),
                (paths.cache() / "artifacts", CACHE_INSIDE, False),
                (PACKAGE / "mirror" / "server.py", "/opt/testbed/mirror/server.py", False),
                (PACKAGE / "mirror" / "faults.py", "/opt/testbed/mirror/faults.py", False),
            ),
            environment=(("PYTHONPATH", "/opt"), ("PYTHONDONTWRITEBYTECODE", "1")),
            revision=files.sha256(PACKAGE / "mirror" / "server.py")[:12],
        )
