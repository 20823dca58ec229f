# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tests of ansible-pull share: a git repository with keys, small wheels, a fake ansible-pull."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import run_command
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from tests.unit.node.fakes import Machine

PYTHON = "3.11"
WHEEL_DIR = "/srv/wheels"
IDENTITY = ("-c", "user.name=team", "-c", "user.email=team@example.com", "-c", "commit.gpgsign=false")


@dataclass
class Team:
    """The team's repository on its server, and the keys of its members."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"file://{self.directory}/team.git"

    def start(self) -> Team:
        self.environment = {**os.environ, "HOME": str(self.directory), "GIT_CONFIG_NOSYSTEM": "1"}
        self.git("init", "--quiet", "--bare", "--initial-branch=main", "team.git", at=self.directory)
        self.git("init", "--quiet", "--initial-branch=main", "work", at=self.directory)
        self.git("remote", "add", "origin", self.url)
        return self

    def git(self, *arguments: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *arguments],
            cwd=at or self.directory / "work",
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def key(self, name: str) -> Path:
        """An SSH key of a member; the public part is beside it."""
        path = self.directory / name
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
        subprocess.run(argv, check=True)
        return path

    def signer(self, key: Path) -> str:
        """A line of an allowed_signers file."""
        return f"{key.name}@example.com {key.with_suffix('.pub').read_text()}"

    def push(self, files: Mapping[str, str], *options: str, signed_by: Path | None = None) -> str:
        """Commit and push; the id of the commit."""
        for name, content in files.items():
            path = self.directory / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "--all")
        sign = (
            ("-c", "gpg.format=ssh", "-c", f"user.signingkey={signed_by}", "commit", "-S")
            if signed_by
            else ("commit",)
        )
        self.git(*sign, "--quiet", "--allow-empty", "-m", "a change", *options)
        self.git("push", "--quiet", "--force", "origin", "HEAD:main")
        return self.git("rev-parse", "HEAD")


def real_host(machine: Machine) -> Host:
    """The machine with real commands: git and ssh-keygen see its temporary root."""
    return Host(root=str(machine.root), runner=run_command, clock=machine.clock)


FAKE_ANSIBLE = """#!/bin/sh
# Says what it was called with, and does what a test asks for.
echo "{name} $*" >> {root}/called
echo "{name} $(pwd -P)" "$(cat ansible.cfg 2>/dev/null)" >> {root}/places
env | grep -E '^(ANSIBLE_|AKS_|HTTPS_PROXY)' | sort > {root}/environment
cat {root}/says 2>/dev/null
exit $(cat {root}/exits 2>/dev/null || echo 0)
"""


def fake_ansible(machine: Machine) -> None:
    """Programs of the venv that only note how they were called."""
    for name in ("ansible-pull", "ansible-galaxy"):
        text = FAKE_ANSIBLE.format(name=name, root=machine.root)
        machine.put(f"/opt/aks-flex-node/ansible/bin/{name}", text, 0o755)


def a_wheel(files: Mapping[str, str]) -> bytes:
    """A wheel, the same bytes each time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def small_wheels(machine: Machine, **versions: str) -> str:
    """Wheels in a directory of the machine, and the table that lists them."""
    rows = []
    for name, version in {"ansible-core": "2.19.1", "jinja2": "3.1.6", **versions}.items():
        module = name.replace("-", "_")
        content = a_wheel(
            {f"{module}/__init__.py": f"version = '{version}'\n", f"{module}-{version}.dist-info/RECORD": ""}
        )
        file = f"{module}-{version}-py3-none-any.whl"
        machine.put(f"{WHEEL_DIR}/{file}", content)
        digest = hashlib.sha256(content).hexdigest()
        rows.append(f"{name} {version} {file} {digest} {PYTHON}-amd64,{PYTHON}-arm64")
    return "\n" + "\n".join(rows) + "\n"


DPKG = "/var/lib/dpkg/info"
FILES = {"git": "/usr/bin/git", "openssh-client": "/usr/bin/ssh-keygen", "openvpn": "/usr/sbin/openvpn"}
DEPENDS = {"git": ["git-man", "liberror-perl"], "openvpn": ["liblzo2-2"]}


@dataclass
class Apt:
    """apt-get on a machine. All it knows is on the disk: the file of a package says how it came."""

    machine: Machine
    depends: Mapping[str, list[str]] = field(default_factory=lambda: DEPENDS)
    upgrades: tuple[str, ...] = ()  # installed packages that an installation upgrades, too

    def installed(self) -> dict[str, str]:
        """Each package, and whether it came by itself (auto) or was asked for (manual)."""
        found = self.machine.path(DPKG).glob("*.list")
        return {path.name.removesuffix(".list"): path.read_text() for path in found}

    def mark(self, package: str, how: str = "manual") -> None:
        """Install a package, or only mark it."""
        self.machine.put(f"{DPKG}/{package}.list", how)

    def env(self, *arguments: str) -> str:
        words = [word for word in arguments if not word.startswith("-") and "=" not in word]
        verb = next(word for word in words if word in ("install", "purge", "autoremove", "update"))
        names = words[words.index(verb) + 1 :]
        simulated = "--simulate" in arguments
        if verb == "install":
            return self.install(names, simulated)
        if verb == "update":
            return ""
        goes = self.goes(names, unneeded=verb == "autoremove" or "--auto-remove" in arguments)
        if not simulated:
            files = [f"{DPKG}/{name}.list" for name in goes] + [FILES[name] for name in goes if name in FILES]
            # Another process, as apt-get is one: it goes on when the one that started it is killed.
            subprocess.run(["rm", "-f", *map(str, map(self.machine.path, files))], check=True)
        return "".join(f"Purg {name} [1.0]\n" for name in goes)

    def install(self, names: list[str], simulated: bool) -> str:
        have = self.installed()
        wanted = [*(dep for name in names for dep in self.depends.get(name, [])), *names]
        new = [name for name in wanted if name not in have]
        if not simulated:
            for name in new:
                self.mark(name, "manual" if name in names else "auto")
            for name in FILES.keys() & set(names):  # also of one whose installation was interrupted
                self.machine.put(FILES[name], "", 0o755)
        upgraded = [f"Inst {name} [0.9] (1.0 stable)\n" for name in self.upgrades if name in have]
        return "".join([*upgraded, *(f"Inst {name} (1.0 stable)\n" for name in new)])

    def goes(self, names: list[str], *, unneeded: bool) -> list[str]:
        """What is removed with these: what depends on them; and what nothing needs any more."""
        have = self.installed()
        gone = {name for name in names if name in have}
        gone |= {name for name in have if gone & set(self.depends.get(name, []))}
        if unneeded:
            needed = {dep for name in set(have) - gone for dep in self.depends.get(name, [])}
            gone |= {name for name, how in have.items() if how == "auto" and name not in needed}
        return sorted(gone)


def packages_of(machine: Machine, apt: Apt | None = None) -> Callable[..., str]:
    """apt-get on this machine: git comes with two others, and goes with them."""

    def dpkg_query(*arguments: str) -> str:
        return "installed" if machine.path(f"{DPKG}/{arguments[-1]}.list").exists() else ""

    setattr(machine.commands, "_dpkg-query", dpkg_query)
    return (apt or Apt(machine)).env
