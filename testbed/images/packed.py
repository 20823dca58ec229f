# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that take seconds to pack: packed once, kept in the cache by a digest of their parts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.progress import step
from testbed.images.oci import Image

CONFIG, LAYER, MANIFEST = "config.json", "layer.tar.gz", "manifest.json"


@dataclass(frozen=True)
class Packed:
    """An image in the cache: its manifest is read each time, its layer only when a registry lacks it."""

    repository: str
    tag: str
    arch: str
    directory: Path

    def manifest(self) -> bytes:
        """The manifest that names config and layer."""
        return (self.directory / MANIFEST).read_bytes()

    def blobs(self) -> Iterator[bytes]:
        """What the manifest names."""
        for name in (CONFIG, LAYER):
            yield (self.directory / name).read_bytes()


def packed(repository: str, tag: str, arch: str, made_of: Sequence[str], make: Callable[[], Image]) -> Packed:
    """An image from the cache; packed if its parts were never packed."""
    text = json.dumps([repository, tag, *made_of, arch])
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    directory = paths.cache() / "images" / f"{repository}-{key}"
    if not directory.is_dir():
        with files.lock(paths.cache() / "locks" / f"image-{repository}-{arch}"):
            if not directory.is_dir():
                with step(f"image {repository}:{tag} ({arch})"):
                    _store(make(), directory)
    return Packed(repository, tag, arch, directory)


def _store(image: Image, directory: Path) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(dir=directory.parent, prefix=".new-"))
    try:
        config, layer = image.blobs()
        for name, data in ((CONFIG, config), (LAYER, layer), (MANIFEST, image.manifest())):
            files.write(whole / name, data)
        os.replace(whole, directory)  # appears whole or not at all
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)
        raise
