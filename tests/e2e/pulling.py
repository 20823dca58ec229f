# SPDX-License-Identifier: GPL-3.0-or-later
"""A team with a git server, keys and playbooks; and nodes that pull from it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.wheelhouse import build
from testbed import Testbed
from testbed.basics import paths
from testbed.images import debs
from testbed.machine import Machine
from tests.e2e import fleet, following

SERVICE, TIMER = "aks-flex-node-pull.service", "aks-flex-node-pull.timer"
PLACE = "/srv/git/team.git"
SOURCES = "/etc/apt/sources.list.d/testbed.list"
EVERY = "*-*-* *:*:0/30"  # 30 s: four nodes that pull share two cores here
PYTHONS = {"ubuntu2204": "3.10", "debian12": "3.11", "ubuntu2404": "3.12", "debian13": "3.13"}
IDENTITY = ("-c", "user.name=team", "-c", "user.email=team@example.com", "-c", "gpg.format=ssh")


@dataclass
class Team:
    """The team's repository on a machine that serves git over SSH, its working copy, and its keys."""

    server: Machine
    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self) -> Team:
        offer_packages(self.server)
        for argv in (
            ["apt-get", "--quiet", "update"],
            ["apt-get", "--quiet", "--yes", "--no-install-recommends", "install", "git"],
            ["git", "init", "--quiet", "--bare", "--initial-branch=main", PLACE],
            ["chown", "--recursive", f"{self.server.ssh_user}:", PLACE],
        ):
            self.server.run(argv, check=argv[-1] != "update")
        (self.directory / "known").write_text(f"{self.known_hosts}\n")
        known = self.directory / "known"
        ssh = f"ssh -i {self.server.ssh_key} -o UserKnownHostsFile={known} -o IdentitiesOnly=yes"
        self.environment = {**os.environ, "GIT_SSH_COMMAND": ssh, "HOME": str(self.directory)}
        for name in ("alice", "mallory"):
            argv = [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                name,
                "-f",
                str(self.directory / name),
            ]
            subprocess.run(argv, check=True)
        self.git("init", "--quiet", "--initial-branch=main", str(self.work), at=self.directory)
        self.git("remote", "add", "origin", self.url)
        return self

    @property
    def work(self) -> Path:
        return self.directory / "work"

    @property
    def url(self) -> str:
        return f"ssh://{self.server.ssh_user}@{self.server.ip}{PLACE}"

    @property
    def known_hosts(self) -> str:
        kind, key = self.server.host_key().split()[:2]
        return f"{self.server.ip} {kind} {key}"

    @property
    def signers(self) -> str:
        return f"alice@example.com {(self.directory / 'alice.pub').read_text()}"

    def git(self, *arguments: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *arguments],
            cwd=at or self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def push(self, files: Mapping[str, str | None], *, by: str = "alice") -> str:
        """Commit files (None removes one), signed by a member; empty: not signed. The id of the commit."""
        for name, content in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
        return self.commit(by=by)

    def commit(self, *, by: str = "alice") -> str:
        """Commit what is in the working copy, and push it."""
        self.git("add", "--all")
        key = ("-c", f"user.signingkey={self.directory / by}") if by else ()
        self.git(*key, "commit", "--quiet", "--allow-empty", "-m", "a change", *(["-S"] if by else []))
        self.git("push", "--quiet", "--force", "origin", "HEAD:main")
        return self.git("rev-parse", "HEAD")

    def serve(self, *, away: bool = False) -> None:
        """The repository is there, or it is away: moved, as by a mistake of its administrator."""
        there, elsewhere = PLACE, f"{PLACE}.away"
        pair = (there, elsewhere) if away else (elsewhere, there)
        self.server.run(["mv", *pair])

    def settings(self, wheels: str, **more: Any) -> dict[str, Any]:
        """`pull` of a node's configuration."""
        return {
            "repository": self.url,
            "ref": "main",
            "sshKey": self.server.ssh_key.read_text(),
            "knownHosts": self.known_hosts,
            "verifyCommit": True,
            "allowedSigners": self.signers,
            "schedule": EVERY,
            "spreadSeconds": 0,
            "wheels": wheels,
            **more,
        }


def offer_packages(machine: Machine, packages: tuple[str, ...] = debs.PACKAGES) -> None:
    """Let apt of a machine find git in a directory; its own archives can't be reached, as at many sites."""
    machine.run(["rm", "-rf", debs.INSIDE])
    machine.copy_to(debs.repository(machine.platform, packages), debs.INSIDE)
    machine.run(["tee", SOURCES], input=f"deb [trusted=yes] file:{debs.INSIDE} ./\n")


def install_package_that_needs(machine: Machine, other: str, directory: Path) -> None:
    """Install an empty package that depends on another one, as an administrator would with a real one."""
    name = f"needs-{other}"
    tree = directory / name
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {"Package": name, "Version": "1", "Architecture": "all", "Depends": other}
    fields |= {"Maintainer": "team <team@example.com>", "Description": "empty"}
    control = "".join(f"{key}: {value}\n" for key, value in fields.items())
    (tree / "DEBIAN/control").write_text(control)
    package = directory / f"{name}.deb"
    argv = ["dpkg-deb", "--build", "--root-owner-group", str(tree), str(package)]
    subprocess.run(argv, check=True, capture_output=True)
    machine.copy_to(package, f"/root/{name}.deb")
    machine.run(["dpkg", "--install", f"/root/{name}.deb"])


def publish_wheels(bed: Testbed, *platforms: str) -> str:
    """The wheelhouse of the controller on the mirror; its URL."""
    cache = paths.cache() / "wheels"
    pythons = [PYTHONS[platform] for platform in platforms]
    params = {"path": str(cache), "pythons": pythons, "architectures": [paths.arch()]}
    done = build({**params, "index": "https://pypi.org/simple", "ca_cert": None}, check=False)
    names = {name for needed in done["targets"].values() for name in needed}
    urls = [bed.publish(f"wheels/{name}", (cache / name).read_bytes()) for name in sorted(names)]
    return urls[0].rpartition("/")[0]


def status(machine: Machine) -> dict[str, Any]:
    """What the status of a machine says of ansible-pull."""
    found: dict[str, Any] = following.status(machine)["pull"]
    return found


def pulled(machine: Machine, commit: str, seconds: float = 180) -> dict[str, Any]:
    """Wait until the timer has run a commit; how that went."""

    def look() -> dict[str, Any] | None:
        found = status(machine)
        return found if found.get("commit") == commit else None

    found: dict[str, Any] = fleet.eventually(f"commit {commit[:12]} on {machine.name}", look, seconds)
    return found


def journal(machine: Machine) -> str:
    """What ansible-pull printed."""
    return machine.run(["journalctl", "--no-pager", "--output=cat", "--unit", SERVICE]).stdout


def vendor(team: Team, version: str) -> None:
    """Put this collection into the repository, as a release with another number."""
    target = team.work / "collections/ansible_collections/aks/flexnode"
    shutil.rmtree(target, ignore_errors=True)
    root = Path(__file__).resolve().parents[2]
    for part in ("plugins", "meta", "roles"):
        shutil.copytree(root / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "galaxy.yml", target / "galaxy.yml")
    program = target / "plugins/module_utils/node/machine/program.py"
    program.write_text(program.read_text().replace('VERSION = "0.1.0"', f'VERSION = "{version}"'))
