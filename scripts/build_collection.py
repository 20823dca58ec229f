# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's tarball into dist/ from the files that git knows, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts import checkout


def build(directory: Path) -> Path:
    """Write the tarball and return its path."""
    source = checkout.BUILD / "collection"
    checkout.copy(checkout.shipped_files(), source)
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    command = [galaxy, "collection", "build", str(source), "--force", "--output-path", str(directory)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return max(directory.glob("aks-flexnode-*.tar.gz"), key=lambda tarball: tarball.stat().st_mtime)


if __name__ == "__main__":
    print(build(checkout.ROOT / "dist").relative_to(checkout.ROOT))
