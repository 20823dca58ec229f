# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks of virtual machines: one per platform and architecture in the cache, an overlay of it per machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.basics.process import run
from testbed.basics.progress import step
from testbed.images.rootfs import Recipe, ensure_tar

SIZE = "16G"
"""Of the file system; the file is sparse."""
SECONDS = 600
KERNEL, INITRD, ROOT = "vmlinuz", "initrd.img", "root.img"


@dataclass(frozen=True)
class Base:
    """What all machines of a recipe start from; read only."""

    directory: Path

    @property
    def kernel(self) -> Path:
        """The distribution's own kernel."""
        return self.directory / KERNEL

    @property
    def initrd(self) -> Path:
        """Its initial RAM disk."""
        return self.directory / INITRD

    @property
    def root(self) -> Path:
        """The root file system, without a partition table."""
        return self.directory / ROOT


def base(recipe: Recipe) -> Base:
    """Where the base of a recipe is, or will be."""
    return Base(paths.cache() / "disks" / f"{recipe.name}-{recipe.digest()}")


def ensure_base(recipe: Recipe) -> Base:
    """Make the base of a recipe if needed."""
    made = base(recipe)
    with files.lock(paths.cache() / "locks" / f"disk-{recipe.name}", f"disk {recipe.name}"):
        if not made.directory.is_dir():
            ensure_tar(recipe)
            with step(f"disk {recipe.name}"):
                _make(recipe, made.directory)
    return made


def _make(recipe: Recipe, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(dir=target.parent, prefix=".new-"))
    try:
        tree = whole / "tree"
        tree.mkdir()
        unpack = ["tar", "--extract", "--numeric-owner", "--xattrs", "--xattrs-include=*"]
        run([*unpack, "--directory", tree, "--file", recipe.tar], timeout=SECONDS)
        for pattern, name in (("vmlinuz-*", KERNEL), ("initrd.img-*", INITRD)):
            found = sorted((tree / "boot").glob(pattern))
            if len(found) != 1:
                raise TestbedError(f"{recipe.tar} has {len(found)} files boot/{pattern}: remove it")
            shutil.copyfile(found[0], whole / name)
        run(["mkfs.ext4", "-q", "-L", "root", "-d", tree, whole / ROOT, SIZE], timeout=SECONDS)
        shutil.rmtree(tree)
        os.replace(whole, target)  # appears whole or not at all
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)
        raise


def overlay(backing: Path, target: Path) -> None:
    """A disk that differs from another in nothing yet."""
    form = "raw" if backing.suffix == ".img" else "qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", backing, "-F", form, target])


def empty(target: Path, size: str) -> None:
    """A disk with nothing on it."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", target, size])
