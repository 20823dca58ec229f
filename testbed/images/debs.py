# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages for machines that reach no archive: a flat repository with what a node lacks, for its own apt."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.process import run
from testbed.basics.progress import step
from testbed.images import recipes
from testbed.images.rootfs import Recipe, ensure_tar

PACKAGES = ("git", "gpg")
INSIDE = "/srv/debs"


def download(packages: tuple[str, ...]) -> tuple[str, ...]:
    """What the archive of the platform has for packages beyond what a node image contains already."""
    return (
        'rm -f "$1"/var/cache/apt/archives/*.deb',
        'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get --quiet --yes --no-install-recommends --download-only '
        f"install {' '.join(packages)}",
        f'mkdir -p "$1"{INSIDE} && mv "$1"/var/cache/apt/archives/*.deb "$1"{INSIDE}/',
    )


def recipe(platform: str, packages: tuple[str, ...] = PACKAGES) -> Recipe:
    """A root file system like that of a node, with the packages beside it."""
    node = recipes.node(platform)
    return Recipe(
        name=f"debs-{platform}" if packages == PACKAGES else f"debs-{platform}-{'-'.join(packages)}",
        suite=node.suite,
        packages=node.packages,
        hooks=download(packages),
        keys=node.keys,
    )


def repository(platform: str, packages: tuple[str, ...] = PACKAGES) -> Path:
    """The directory with the packages and their index, in the cache."""
    source = recipe(platform, packages)
    place = paths.cache() / "debs" / f"{platform}-{source.digest()}"
    with files.lock(paths.cache() / "locks" / f"debs-{platform}"):
        if not (place / "Packages").is_file():
            ensure_tar(source)
            with step(f"packages for {platform}"):
                unpack(source, place)
    return place


def unpack(source: Recipe, place: Path) -> None:
    """Take the packages out of the root file system, and write what apt wants to know of them."""
    place.mkdir(parents=True, exist_ok=True)
    entries = []
    with tarfile.open(source.tar) as archive:
        for member in archive:
            name = member.name.removeprefix(".").lstrip("/")
            stream = archive.extractfile(member) if f"/{name}".startswith(f"{INSIDE}/") else None
            if stream is None:
                continue
            content = stream.read()
            file = place / Path(name).name.replace("%3a", "_")  # an epoch, which a URL would decode
            file.write_bytes(content)
            control = run(["dpkg-deb", "--field", file]).stdout.strip()
            digest = hashlib.sha256(content).hexdigest()
            entries.append(f"{control}\nFilename: ./{file.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    files.write(place / "Packages", "\n".join(entries))
