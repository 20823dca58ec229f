# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's tarball into dist/ from the files that git knows, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from scripts import checkout


def build(directory: Path) -> Path:
    """Write the tarball and return its path."""
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    metadata = checkout.galaxy()
    # A directory per build: two of them may run at the same time.
    with tempfile.TemporaryDirectory(prefix="flexnode-collection-") as source:
        checkout.copy(checkout.shipped_files(), Path(source))
        command = [galaxy, "collection", "build", source, "--force", "--output-path", str(directory)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory / f"{metadata['namespace']}-{metadata['name']}-{metadata['version']}.tar.gz"


if __name__ == "__main__":
    print(build(checkout.ROOT / "dist").relative_to(checkout.ROOT))
