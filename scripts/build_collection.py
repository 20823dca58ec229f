# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's tarball into dist/ from the files that git knows, and nothing else."""

from __future__ import annotations

import subprocess
import sys

from scripts import checkout


def main() -> int:
    source = checkout.BUILD / "collection"
    checkout.copy(checkout.shipped_files(), source)
    command = ["ansible-galaxy", "collection", "build", str(source), "--force"]
    command += ["--output-path", str(checkout.ROOT / "dist")]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
