# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the generated parts of the documentation from the code they describe; --check only compares.

Whole files: roles/*/README.md. Blocks between `<!-- generated: NAME -->` and `<!-- end -->`: in any *.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.checkout import ROOT
from scripts.docs.awx import secrets
from scripts.docs.document import fields
from scripts.docs.errors import errors
from scripts.docs.machine import files
from scripts.docs.preflight import checks
from scripts.docs.proof import proof
from scripts.docs.roles import role_readme, roles, variables
from scripts.docs.tables import Stale
from scripts.docs.tried import tried, tried_cases, tried_cuts
from scripts.docs.versions import versions

BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

BLOCKS: Mapping[str, Callable[[], str]] = {
    "proof": proof,
    "tried": tried,
    "tried-cuts": tried_cuts,
    "tried-cases": tried_cases,
    "fields": fields,
    "errors": errors,
    "checks": checks,
    "files": files,
    "variables": variables,
    "secrets": secrets,
    "versions": versions,
}


def with_blocks(text: str) -> str:
    """A page with its generated blocks filled in again."""

    def fill(match: re.Match[str]) -> str:
        if match["name"] not in BLOCKS:
            raise Stale(f"there is no generated block {match['name']}: {', '.join(BLOCKS)} are")
        return f"{match[1]}\n{BLOCKS[match['name']]()}\n{match[3]}"

    return BLOCK.sub(fill, text)


def pages() -> dict[Path, str]:
    """Every page that is generated, wholly or in part, as it should be."""
    wanted = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            wanted[path] = with_blocks(text)
    for role in roles():
        wanted[ROOT / "roles" / role.name / "README.md"] = role_readme(role)
    return wanted


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    options = parser.parse_args(arguments)
    try:
        wanted = pages()
    except Stale as stale:
        print(f"docs: {stale}", file=sys.stderr)
        return 1
    stale_pages = [
        path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path in stale_pages:
        print(f"docs: {path.relative_to(ROOT)} {'is stale' if options.check else 'written'}")
        if not options.check:
            path.write_text(wanted[path], encoding="utf-8")
    if options.check and stale_pages:
        print("docs: update them with `python -m scripts.docs`", file=sys.stderr)
        return 1
    print(
        f"docs: {len(wanted)} generated pages, {len(stale_pages)} {'stale' if options.check else 'changed'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
