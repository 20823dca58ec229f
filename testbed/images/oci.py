# SPDX-License-Identifier: GPL-3.0-or-later
"""One-layer OCI images, for one architecture each, and how they get into a registry under one tag."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import requests

from testbed.basics import paths
from testbed.basics.errors import TestbedError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
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

    @property
    def arch(self) -> str: ...

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
    arch: str = field(default_factory=paths.arch)

    def config(self) -> bytes:
        """The image configuration."""
        run = {
            "Env": ["PATH=/bin:/usr/bin:/sbin:/usr/sbin"],
            "Entrypoint": list(self.entrypoint) or None,
            "Cmd": list(self.command) or None,
            "User": self.user,
        }
        document = {
            "architecture": self.arch,
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


def index(images: Iterable[Pushable]) -> bytes:
    """What a tag names where it has an image for each of several architectures: a machine takes its own."""
    manifests = [
        {
            "mediaType": MANIFEST,
            "digest": digest(manifest := image.manifest()),
            "size": len(manifest),
            "platform": {"architecture": image.arch, "os": "linux"},
        }
        for image in sorted(images, key=lambda image: image.arch)
    ]
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    return json.dumps(document, sort_keys=True).encode()


def push(images: Sequence[Pushable], host: str, ca_file: Path) -> bool:
    """Push what a tag needs, one image for each architecture; return whether anything was missing."""
    repository, tag = images[0].repository, images[0].tag
    base = f"https://{host}/v2/{repository}"
    with requests.Session() as session:
        session.verify = str(ca_file)
        session.trust_env = False  # the machine's own CA bundle does not have the testbed's CA
        if len(images) == 1:
            return _push_image(session, base, images[0], tag)
        named = index(images)
        if _has(session, base, tag, named):
            return False
        for image in images:
            _push_image(session, base, image, digest(image.manifest()))
        _put(session, base, tag, named, INDEX)
    return True


def _push_image(session: requests.Session, base: str, image: Pushable, reference: str) -> bool:
    manifest = image.manifest()
    if _has(session, base, reference, manifest):
        return False
    for blob in image.blobs():
        _push_blob(session, base, blob)
    _put(session, base, reference, manifest, MANIFEST)
    return True


def _has(session: requests.Session, base: str, reference: str, manifest: bytes) -> bool:
    accepted = {"Accept": f"{MANIFEST}, {INDEX}"}
    known = session.head(f"{base}/manifests/{reference}", headers=accepted, timeout=SECONDS)
    return known.headers.get("Docker-Content-Digest") == digest(manifest)


def _put(session: requests.Session, base: str, reference: str, manifest: bytes, kind: str) -> None:
    headers = {"Content-Type": kind}
    _check(session.put(f"{base}/manifests/{reference}", data=manifest, headers=headers, timeout=SECONDS))


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
