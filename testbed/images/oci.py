# SPDX-License-Identifier: GPL-3.0-or-later
"""One-layer OCI images and how they get into a registry."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import requests

from testbed.basics import paths
from testbed.basics.errors import TestbedError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
SECONDS = 30


def digest(data: bytes) -> str:
    """A digest as registries write it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Pushable(Protocol):
    """What a registry needs of an image."""

    @property
    def repository(self) -> str: ...

    @property
    def tag(self) -> str: ...

    def manifest(self) -> bytes: ...

    def blobs(self) -> Iterable[bytes]: ...


@dataclass(frozen=True)
class Image:
    """An image with one layer."""

    repository: str
    tag: str
    layer: bytes
    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    user: str = ""

    def config(self) -> bytes:
        """The image configuration."""
        run = {
            "Env": ["PATH=/bin:/usr/bin:/sbin:/usr/sbin"],
            "Entrypoint": list(self.entrypoint) or None,
            "Cmd": list(self.command) or None,
            "User": self.user,
        }
        document = {
            "architecture": paths.arch(),
            "os": "linux",
            "config": {key: value for key, value in run.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [digest(self.layer)]},
        }
        return json.dumps(document, sort_keys=True).encode()

    def packed_layer(self) -> bytes:
        """The layer as it travels; the same bytes each time."""
        return self._packed

    @cached_property
    def _packed(self) -> bytes:
        return gzip.compress(self.layer, 6, mtime=0)

    def blobs(self) -> tuple[bytes, bytes]:
        """What the manifest names."""
        return self.config(), self.packed_layer()

    def manifest(self) -> bytes:
        """The manifest that names config and layer."""
        config, layer = self.blobs()
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": LAYER, "digest": digest(layer), "size": len(layer)}],
        }
        return json.dumps(document, sort_keys=True).encode()


def push(image: Pushable, host: str, ca_file: Path) -> bool:
    """Push an image if needed; return whether it was missing."""
    base = f"https://{host}/v2/{image.repository}"
    with requests.Session() as session:
        session.verify = str(ca_file)
        session.trust_env = False  # the machine's own CA bundle does not have the testbed's CA
        manifest = image.manifest()
        known = session.head(f"{base}/manifests/{image.tag}", headers={"Accept": MANIFEST}, timeout=SECONDS)
        if known.headers.get("Docker-Content-Digest") == digest(manifest):
            return False
        for blob in image.blobs():
            _push_blob(session, base, blob)
        answer = session.put(
            f"{base}/manifests/{image.tag}",
            data=manifest,
            headers={"Content-Type": MANIFEST},
            timeout=SECONDS,
        )
        _check(answer)
    return True


def _push_blob(session: requests.Session, base: str, blob: bytes) -> None:
    begun = session.post(f"{base}/blobs/uploads/", timeout=SECONDS)
    _check(begun)
    place = begun.headers["Location"]
    separator = "&" if "?" in place else "?"
    headers = {"Content-Type": "application/octet-stream"}
    _check(
        session.put(f"{place}{separator}digest={digest(blob)}", data=blob, headers=headers, timeout=SECONDS)
    )


def _check(answer: requests.Response) -> None:
    if not answer.ok:
        raise TestbedError(
            f"registry answered {answer.status_code} to {answer.request.method} {answer.url}: "
            f"{answer.text[:300]}"
        )
