# SPDX-License-Identifier: GPL-3.0-or-later
"""Build dist/aks-flex-node-VERSION.pyz: the command as one file, for machines without Ansible.

The file runs as it is (`python3 aks-flex-node-0.1.0.pyz join ...`); a join installs the command unpacked
under /opt/aks-flex-node. The same sources always give the same bytes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import (  # noqa: E402
    COMMAND,
    PACKAGE,
    VERSION,
    sources,
)

IMPORTER = ROOT / "plugins/module_utils/zip_importer.py"
START = f"""import sys

from {IMPORTER.stem} import use_zip_importer

use_zip_importer()
sys.path_importer_cache.clear()  # this file is in it, with Python's own importer
from {PACKAGE}.cli import main

sys.exit(main())
"""


def build(directory: Path) -> Path:
    """Write the file and return its path."""
    directory.mkdir(exist_ok=True)
    target = directory / f"{COMMAND}-{VERSION}.pyz"
    files = {name: content for name, content in sources().items() if name != COMMAND}
    files["__main__.py"] = START.encode()
    files[IMPORTER.name] = IMPORTER.read_bytes()
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files):
                archive.writestr(
                    zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), files[name], zipfile.ZIP_DEFLATED
                )
    target.chmod(0o755)
    return target


if __name__ == "__main__":
    print(build(ROOT / "dist").relative_to(ROOT))
