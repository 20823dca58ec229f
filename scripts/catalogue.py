#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refresh the catalogue of digests from upstream's own checksum files.

  scripts/catalogue.py                                the newest patch of every Kubernetes minor we know
  scripts/catalogue.py kubernetes=1.34.12 runc=1.4.4  these releases
  scripts/catalogue.py --from digests.json            a JSON file: artifact -> version -> arch -> sha256

Entries are only ever added. A digest that differs from the one we have is an error: releases do not change.
Which versions are the defaults is decided in config/defaults.py, by a person.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

NODE = Path(__file__).resolve().parents[1] / "plugins" / "module_utils" / "node"
DATA = NODE / "catalogue/data.py"
ARCHES = ("amd64", "arm64")
KUBERNETES = ("kubelet", "kubectl", "kubeadm")
# Where upstream publishes checksums; {file} is the artifact's own name.
CHECKSUMS = {
    **dict.fromkeys(KUBERNETES, "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/{file}.sha256"),
    "containerd": "https://github.com/containerd/containerd/releases/download/v{version}/{file}.sha256sum",
    "runc": "https://github.com/opencontainers/runc/releases/download/v{version}/runc.sha256sum",
    "cni-plugins": "https://github.com/containernetworking/plugins/releases/download/v{version}/{file}.sha256",
}
FILES = {
    **{name: name for name in KUBERNETES},
    "containerd": "containerd-{version}-linux-{arch}.tar.gz",
    "runc": "runc.{arch}",
    "cni-plugins": "cni-plugins-linux-{arch}-v{version}.tgz",
}
STABLE = "https://dl.k8s.io/release/stable-1.{minor}.txt"
HEADER = '''\
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Digests of upstream's releases: name version sha256-amd64 sha256-arm64. Written by scripts/catalogue.py."""

# ruff: noqa: E501

from __future__ import annotations

# Text, because it imports in microseconds where a literal of dicts takes milliseconds at every tick.
'''

Digests = dict[str, dict[str, dict[str, str]]]
Fetch = Callable[[str], "str | None"]


class Changed(Exception):
    """Upstream, or a file, has another digest for a release we know."""


def read_table(text: str) -> Digests:
    """Return the digests in the text of catalogue/data.py."""
    digests: Digests = {}
    for name, version, *hashes in re.findall(
        r"^(\S+) (\d\S*) ([0-9a-f]{64}|-) ([0-9a-f]{64}|-)$", text, re.M
    ):
        digests.setdefault(name, {})[version] = {
            arch: value for arch, value in zip(ARCHES, hashes, strict=True) if value != "-"
        }
    return digests


def write_table(digests: Digests) -> str:
    """Return the text of catalogue/data.py: sorted, one release per line, so that a diff reads well."""
    rows = [
        " ".join((name, version, *(hashes.get(arch, "-") for arch in ARCHES)))
        for name, versions in digests.items()
        for version, hashes in sorted(versions.items(), key=lambda item: numbers(item[0]))
    ]
    return f'{HEADER}TABLE = """\n' + "\n".join(rows) + '\n"""\n'


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, for sorting."""
    return tuple(map(int, version.split(".")))


def add(known: Digests, new: Digests) -> list[str]:
    """Put new digests into the known ones; return a line for each that was added."""
    added, changed = [], []
    for name, versions in new.items():
        for version, hashes in versions.items():
            for arch, value in hashes.items():
                if not re.fullmatch(r"[0-9a-f]{64}", value) or not re.fullmatch(r"\d+\.\d+\.\d+", version):
                    raise ValueError(f"{name} {version} {arch}: {value!r} is not a sha256 of a release")
                release = known.setdefault(name, {}).setdefault(version, {})
                if arch not in release:
                    release[arch] = value
                    added.append(f"{name} {version} {arch} {value}")
                elif release[arch] != value:
                    changed.append(f"{name} {version} {arch}: {release[arch]} -> {value}")
    if changed:
        raise Changed("a published release has another digest:\n  " + "\n  ".join(changed))
    return added


def digest_in(text: str, file: str) -> str | None:
    """Return a file's sha256 from a checksum file: a bare digest, or lines of `digest  name`."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(lines[0]) == 1:
        candidates = [lines[0][0]]
    else:
        candidates = [parts[0] for parts in lines if len(parts) == 2 and parts[1].lstrip("*./") == file]
    found = {value.lower() for value in candidates if re.fullmatch(r"[0-9a-fA-F]{64}", value)}
    return found.pop() if len(found) == 1 else None


def fetch(url: str) -> str | None:
    """Return a small text file; None where there is none (404)."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the URLs are the tables' above
            body: bytes = answer.read(1 << 20)
            return body.decode()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def published(name: str, version: str, get: Fetch) -> dict[str, str]:
    """Return upstream's digests of one release, by architecture."""
    found: dict[str, str] = {}
    for arch in ARCHES:
        file = FILES[name].format(version=version, arch=arch)
        url = CHECKSUMS[name].format(version=version, arch=arch, file=file)
        text = get(url)
        value = digest_in(text, file) if text else None
        if value:
            found[arch] = value
    return found


def newest_kubernetes(known: Iterable[str], get: Fetch) -> list[str]:
    """Return the newest release of every known minor, and of the next one if it exists."""
    minors = sorted({numbers(version)[1] for version in known})
    answers = [get(STABLE.format(minor=minor)) for minor in (*minors, minors[-1] + 1)]
    return [answer.strip().removeprefix("v") for answer in answers if answer]


def wanted(arguments: list[str], known: Digests, get: Fetch) -> list[tuple[str, str]]:
    """Return (artifact, version) for each argument; without arguments, what is new of Kubernetes."""
    pairs: list[tuple[str, str]] = []
    if not arguments:
        arguments = [f"kubernetes={version}" for version in newest_kubernetes(known["kubelet"], get)]
    for argument in arguments:
        name, _, version = argument.partition("=")
        names = KUBERNETES if name == "kubernetes" else (name,)
        if not re.fullmatch(r"\d+\.\d+\.\d+", version) or not set(names) <= set(CHECKSUMS):
            raise ValueError(f"{argument!r}: write kubernetes=x.y.z or one of {', '.join(CHECKSUMS)}")
        pairs += [(each, version) for each in names]
    return pairs


def main(arguments: list[str] | None = None, *, get: Fetch = fetch, data: Path = DATA) -> int:
    """Refresh the catalogue; print what was added."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", nargs="*", help="NAME=x.y.z; NAME is kubernetes or an artifact")
    parser.add_argument("--from", dest="source", type=Path, help="a JSON file of digests")
    options = parser.parse_args(arguments)
    known = read_table(data.read_text()) if data.exists() else {}
    try:
        if options.source:
            new: Digests = json.loads(options.source.read_text())
        else:
            new = {}
            for name, version in wanted(options.release, known, get):
                hashes = published(name, version, get)
                if not hashes:
                    print(f"nothing published: {name} {version}", file=sys.stderr)
                    return 1
                new.setdefault(name, {})[version] = hashes
        added = add(known, new)
    except (Changed, ValueError, urllib.error.URLError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if added:
        data.write_text(write_table(known))
    print("\n".join(f"added: {line}" for line in added) or "nothing new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
