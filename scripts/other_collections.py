# SPDX-License-Identifier: GPL-3.0-or-later
"""Collections of others that tests read, from the hash-pinned PyPI package `ansible`, unpacked into build/.

The package is not installed: it would bring an ansible-core of its own, and 200 MB of collections.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scripts.checkout import BUILD, ROOT

LOCK = ROOT / "requirements" / "collections.txt"
PARTS = (
    "ansible_collections/awx/awx/meta/",
    "ansible_collections/awx/awx/plugins/",
    "ansible_collections/azure/azcollection/plugins/doc_fragments/",
    "ansible_collections/azure/azcollection/plugins/inventory/",
)


def directory() -> Path:
    """Where the collections are, for ANSIBLE_COLLECTIONS_PATH; the first call downloads them."""
    # The name holds what decides the content, so that a new lock is a new directory.
    wanted = hashlib.sha256("\n".join([LOCK.read_text(), *PARTS]).encode()).hexdigest()[:12]
    place = BUILD / f"other-collections-{wanted}"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".other-collections.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not place.is_dir():
            _download(place)
    return place


def _download(place: Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
    # Nothing of it is run by this Python, so that its version does not matter.
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--ignore-requires-python"]
    with tempfile.TemporaryDirectory(dir=BUILD) as work:
        subprocess.run([*command, *options, f"--dest={work}", f"--requirement={LOCK}"], check=True)
        (wheel,) = Path(work).glob("ansible-*.whl")
        unpacked = Path(work) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(PARTS)])
        os.replace(unpacked, place)


if __name__ == "__main__":
    print(directory().relative_to(ROOT))
