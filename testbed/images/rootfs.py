# SPDX-License-Identifier: GPL-3.0-or-later
"""Root file systems built from Debian packages and imported into podman, cached by their recipe."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from testbed.artifacts.archive import Entry, tar_bytes
from testbed.basics import files, paths
from testbed.basics.errors import CommandFailed, OutOfReach, TestbedError
from testbed.basics.podman import podman
from testbed.basics.process import run
from testbed.basics.progress import step
from testbed.host import foreign

REPOSITORY = "localhost/aks-flexnode-testbed"
BUILD_SECONDS = 1200
FOREIGN_SECONDS = 3600  # its programs are emulated
PROBE_SECONDS = 60
RETRIES = 5  # of each file: one that did not come is no reason to begin again
UBUNTU_KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
LEAVE_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class Recipe:
    """What a root file system consists of."""

    name: str
    suite: str
    packages: tuple[str, ...]
    overlay: Mapping[str, Entry] = field(default_factory=dict)
    hooks: tuple[str, ...] = ()
    """mmdebstrap's customize hooks; it gives each the directory as $1."""
    variant: str = "minbase"
    """minbase is a system; extract only the files of the packages and of what they need."""
    keys: Recipe | None = None
    """For a suite of Ubuntu: where the keys of its archive come from."""
    arch: str = ""
    """Empty: this machine's own."""

    def digest(self) -> str:
        """Changes whenever the result would."""
        overlay = hashlib.sha256(tar_bytes(self.overlay)).hexdigest()
        words = [self.suite, self.packages, self.hooks, overlay, self.arch or paths.arch()]
        if self.variant != "minbase":
            words.append(self.variant)
        text = json.dumps(words)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def of(self, arch: str) -> Recipe:
        """The same for machines of an architecture."""
        return replace(self, arch=arch)

    @property
    def image(self) -> str:
        """The name in podman's storage."""
        return f"{REPOSITORY}/{self.name}:{self.digest()}"

    @property
    def tar(self) -> Path:
        """The cached root file system."""
        return paths.cache() / "images" / f"{self.name}-{self.digest()}.tar"


def is_there(recipe: Recipe) -> bool:
    """Whether podman's storage has the image."""
    return podman("image", "exists", recipe.image, check=False).returncode == 0


def ensure(recipe: Recipe) -> str:
    """Import the image into podman's storage if needed; return its name."""
    if is_there(recipe):
        return recipe.image
    with files.lock(paths.cache() / "locks" / f"image-{recipe.name}", f"image {recipe.name}"):
        if not is_there(recipe):
            ensure_tar(recipe)
            with step(f"import image {recipe.name}"):
                podman("import", recipe.tar, recipe.image, timeout=600)
    return recipe.image


def ensure_tar(recipe: Recipe) -> None:
    """Build the root file system in the cache if needed."""
    if recipe.tar.is_file():
        return
    recipe.tar.parent.mkdir(parents=True, exist_ok=True)
    if recipe.arch and recipe.variant != "extract":
        foreign.ensure(recipe.arch)
    with tempfile.TemporaryDirectory(dir=recipe.tar.parent, prefix=".new-") as name:
        overlay = Path(name) / "overlay.tar"
        overlay.write_bytes(tar_bytes(recipe.overlay))
        rootfs = Path(name) / "rootfs.tar"
        hooks = [f"tar-in {overlay} /", *recipe.hooks]
        archive = ubuntu_archive(recipe, Path(name)) if recipe.keys else []
        what = " ".join(filter(None, (recipe.suite, recipe.arch)))
        with step(f"root file system {recipe.name} ({what})"):
            run(
                [
                    "mmdebstrap",
                    "--quiet",
                    f"--variant={recipe.variant}",
                    *architecture(recipe),
                    *archive,
                    f'--aptopt=Acquire::Retries "{RETRIES}"',
                    f"--include={','.join(recipe.packages)}",
                    *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEAVE_OUT),
                    *(f"--customize-hook={hook}" for hook in hooks),
                    recipe.suite,
                    rootfs,
                ],
                timeout=BUILD_SECONDS if recipe.arch in ("", paths.arch()) else FOREIGN_SECONDS,
            )
        os.replace(rootfs, recipe.tar)


def architecture(recipe: Recipe) -> list[str]:
    """mmdebstrap's options for packages of another architecture; files are extracted without running any."""
    if recipe.arch in ("", paths.arch()):
        return []
    skip = ["--skip=check/qemu"] if recipe.variant == "extract" else []
    return [f"--architectures={recipe.arch}", *skip]


def ubuntu_archive(recipe: Recipe, directory: Path) -> list[str]:
    """mmdebstrap's options for Ubuntu's archive, which it knows itself; OutOfReach if it does not answer."""
    keyring = directory / "keyring.gpg"
    if recipe.keys:
        keyring.write_bytes(member(recipe.keys, UBUNTU_KEYRING))
    # apt's own user could not read the keyring in a private directory.
    options = [f"--keyring={keyring}", '--aptopt=APT::Sandbox::User "root"']
    limits = ['--aptopt=Acquire::http::Timeout "10"', '--aptopt=Acquire::Retries "0"']
    probe = [
        "mmdebstrap",
        "--simulate",
        "--variant=custom",
        *architecture(recipe),
        *options,
        *limits,
        recipe.suite,
        "/dev/null",
    ]
    try:
        run(probe, timeout=PROBE_SECONDS)
    except CommandFailed as error:
        unreached = re.search(r"^E: Failed to fetch (\S+)  (.+)", error.output, re.MULTILINE)
        if unreached is None:
            raise  # a wrong signature, say: that is no matter of reach
        raise OutOfReach(f"Ubuntu {recipe.suite} is not reached: {unreached[1]}: {unreached[2]}") from error
    return [*options, "--components=main,universe"]


def member(recipe: Recipe, *candidates: str) -> bytes:
    """One file out of a root file system."""
    ensure_tar(recipe)
    with tarfile.open(recipe.tar) as archive:
        for entry in archive:
            if entry.isfile() and entry.name.removeprefix("./") in candidates:
                stream = archive.extractfile(entry)
                if stream is not None:
                    return stream.read()
    raise TestbedError(f"{recipe.tar} holds none of {', '.join(candidates)}: remove the file and run again")
