#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refresh the catalogue of wheels: ansible-core and what it needs, for the Python of each platform.

  python -m scripts.wheels                          the newest patch of what each Python can run
  python -m scripts.wheels /opt/py/bin/python3.12   with these interpreters; others are searched in PATH

pip resolves them for each Python and architecture, without installing anything; file names and digests are
what the package index says, and nodes use nothing else. Each Python runs its own pip, because pip evaluates
conditions on the Python version for itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

DATA = Path(__file__).resolve().parents[1] / "plugins/module_utils/node/catalogue/wheel_data.py"
# The last ansible-core that each Python can run; the platforms are Ubuntu 22.04 (3.10), Debian 12 (3.11),
# Ubuntu 24.04 (3.12) and Debian 13 (3.13).
ANSIBLE = {"3.10": "==2.17.*", "3.11": "==2.19.*", "3.12": "", "3.13": ""}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC = (35, 34, 28, 17)  # of the oldest platform (2.35), and what wheels are usually built for
HEADER = '''\
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wheels of ansible-core: name version file sha256 targets (Python-architecture). By scripts/wheels.py."""

# ruff: noqa: E501

from __future__ import annotations

# Text, as in data.py.
'''

Rows = dict[tuple[str, str, str, str], set[str]]


def resolve(interpreter: str, python: str, arch: str) -> list[tuple[str, str, str, str]]:
    """Return name, version, file and sha256 of everything that one target needs."""
    platforms = [f"manylinux_2_{minor}_{MACHINES[arch]}" for minor in GLIBC]
    platforms.append(f"manylinux2014_{MACHINES[arch]}")
    argv = [interpreter, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    argv += ["--report", "-", "--only-binary=:all:", "--target", "unused", "--python-version", python]
    argv += ["--implementation", "cp", *(word for name in platforms for word in ("--platform", name))]
    argv += [f"ansible-core{ANSIBLE[python]}"]
    report = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    found = []
    for item in report["install"]:
        name = item["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
        file = unquote(urlsplit(item["download_info"]["url"]).path.rpartition("/")[2])
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        found.append((name, item["metadata"]["version"], file, digest))
    return found


def write_table(rows: Rows) -> str:
    """Return the text of wheel_data.py: sorted, two lines per file, so that a diff reads well."""
    lines = (
        f"{name} {version} {file}\n  {digest} {','.join(sorted(targets))}\n"
        for (name, version, file, digest), targets in sorted(rows.items())
    )
    return f'{HEADER}TABLE = """\n{"".join(lines)}"""\n'


def main(interpreters: list[str]) -> int:
    """Resolve every target, then write the table."""
    named = {Path(path).name.removeprefix("python"): path for path in interpreters}
    rows: Rows = {}
    for python in ANSIBLE:
        for arch in MACHINES:
            for wheel in resolve(named.get(python, f"python{python}"), python, arch):
                rows.setdefault(wheel, set()).add(f"{python}-{arch}")
            print(f"Python {python} {arch}: resolved")
    DATA.write_text(write_table(rows), encoding="utf-8")
    print(f"{len(rows)} wheels written to {DATA.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
