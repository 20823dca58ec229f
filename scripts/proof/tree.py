# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a commit, and those of them that a part covers.

Patterns are read in their order and the last one that fits decides: `plugins/` is all below a directory,
`tests/e2e/test_*.py` is a glob, `!docs/` takes away again.
"""

from __future__ import annotations

import fnmatch
import hashlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

# What the proof itself writes: a part that covered it would be outdated by its own record.
WRITTEN = ("docs/proof.json", "docs/proof.md")


class NoCommit(Exception):
    """Git does not know this commit."""


def git(checkout: Path, *arguments: str) -> str:
    """What git says."""
    done = subprocess.run(
        ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoCommit(done.stderr.strip() or f"git {' '.join(arguments)}: status {done.returncode}")
    return done.stdout


def covers(patterns: Sequence[str], path: str) -> bool:
    """Whether these patterns cover this file."""
    if path in WRITTEN:
        return False
    covered = False
    for pattern in patterns:
        plain = pattern.removeprefix("!")
        fits = path.startswith(plain) if plain.endswith("/") else fnmatch.fnmatchcase(path, plain)
        if fits:
            covered = plain == pattern
    return covered


def files(checkout: Path, commit: str = "HEAD") -> dict[str, str]:
    """Every file of a commit, with the digest of its content and mode."""
    found = {}
    for line in git(checkout, "ls-tree", "-r", "-z", commit).split("\0"):
        if line:
            about, _tab, path = line.partition("\t")
            found[path] = about
    return found


def content(patterns: Sequence[str], listing: Mapping[str, str], command: Sequence[str] = ()) -> str:
    """One digest of everything that the patterns cover: the same, whatever else a commit changed.

    With the command: one that runs other tests of the same files shows something else.
    """
    digest = hashlib.sha256(" ".join(command).encode())
    for path in sorted(listing):
        if covers(patterns, path):
            digest.update(f"{listing[path]} {path}\n".encode())
    return digest.hexdigest()[:16]


def uncommitted(checkout: Path) -> list[str]:
    """Files that differ from the commit, and new ones that git does not ignore."""
    status = git(checkout, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    return sorted(entry[3:] for entry in status.split("\0") if entry)


def differing(checkout: Path, since: str) -> list[str]:
    """Files that the checkout has changed since it left a commit or branch, committed or not."""
    left = git(checkout, "merge-base", since, "HEAD").strip()
    named = git(checkout, "diff", "--name-only", "--no-renames", "-z", left, "--").split("\0")
    return sorted({*filter(None, named), *uncommitted(checkout)})


def head(checkout: Path) -> str:
    """The commit that is checked out, in short."""
    return git(checkout, "rev-parse", "--short=8", "HEAD").strip()


def last_change(checkout: Path, paths: Iterable[str]) -> str:
    """The last commit that touched any of these files: its name and day."""
    return git(checkout, "log", "-1", "--format=%h of %cs", "--", *paths).strip()
