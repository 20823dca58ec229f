# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The team's repository: fetched and verified with real git, before anything is checked out."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.errors import (
    CommitRefused,
    CopyDamaged,
    RefMissing,
    RepositoryUnreachable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.repository import (
    Access,
    Repository,
    without_credentials,
)
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import Team, real_host

DIRECTORY = "/var/lib/aks-flex-node/pull"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path).start()


def repository(machine: Machine, team: Team, **options: str) -> Repository:
    return Repository(real_host(machine), DIRECTORY, Access(options.pop("url", team.url), **options))


def test_a_branch_a_tag_and_the_default_branch_are_fetched(machine: Machine, team: Team) -> None:
    first = team.push({"local.yml": "first"})
    team.git("tag", "--annotate", "v1", "-m", "v1")
    team.git("push", "--quiet", "origin", "v1")
    second = team.push({"local.yml": "second"})
    here = repository(machine, team)
    assert here.fetch("HEAD") == here.fetch("main") == second
    assert here.fetch("v1") == first
    assert here.has(first, "local.yml")
    assert not here.has(first, "other.yml")
    assert here.content(second, "local.yml") == b"second"
    assert here.follows(second, first)
    assert not here.follows(first, second)


def test_a_rewritten_history_is_fetched_and_recognised(machine: Machine, team: Team) -> None:
    team.push({"local.yml": "first"})
    second = team.push({"local.yml": "second"})
    here = repository(machine, team)
    here.fetch("main")
    team.git("reset", "--quiet", "--hard", "HEAD~1")
    other = team.push({"local.yml": "other"})
    assert here.fetch("main") == other
    assert not here.follows(other, second)


def test_a_repository_that_is_away_is_unreachable(machine: Machine, team: Team) -> None:
    commit = team.push({"local.yml": "first"})
    here = repository(machine, team)
    here.fetch("main")
    team.directory.joinpath("team.git").rename(team.directory / "elsewhere")
    with pytest.raises(RepositoryUnreachable, match="can't be fetched") as caught:
        here.fetch("main")
    assert "team.git" in caught.value.where
    assert here.has(commit, "local.yml")  # what was fetched before stays
    assert not machine.path(f"{DIRECTORY}/new.git").exists()


def test_an_empty_repository_has_nothing_to_run(machine: Machine, team: Team) -> None:
    with pytest.raises(RefMissing):
        repository(machine, team).fetch("HEAD")


def test_a_ref_that_does_not_exist_is_named(machine: Machine, team: Team) -> None:
    team.push({"local.yml": "first"})
    with pytest.raises(RefMissing, match="does not have release-9"):
        repository(machine, team).fetch("release-9")


def test_a_damaged_copy_is_made_again(machine: Machine, team: Team) -> None:
    commit = team.push({"local.yml": "first"})
    here = repository(machine, team)
    here.fetch("main")
    machine.path(f"{DIRECTORY}/repository.git/HEAD").write_text("nonsense\n")
    assert here.fetch("main") == commit


def stale_lock(bare: Path) -> None:
    (bare / "refs/flexnode/fetched.lock").write_text("")


def empty_ref(bare: Path) -> None:
    (bare / "refs/flexnode/fetched").write_text("")


def empty_objects(bare: Path) -> None:
    for path in (bare / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"")


def fetched_again(here: Repository) -> str:
    """As a run does it: what is damaged is replaced once."""
    try:
        return here.fetch("main")
    except CopyDamaged:
        return here.fetch("main", anew=True)


@pytest.mark.parametrize("cut", [stale_lock, empty_ref, empty_objects])
def test_what_a_power_cut_left_is_replaced(machine: Machine, team: Team, cut: Callable[[Path], None]) -> None:
    team.push({"local.yml": "first"})
    here = repository(machine, team)
    here.fetch("main")
    cut(machine.path(here.bare))
    second = team.push({"local.yml": "second"})
    assert fetched_again(here) == second
    assert here.content(second, "local.yml") == b"second"
    assert not machine.path(f"{DIRECTORY}/new.git").exists()
    third = team.push({"local.yml": "third"})
    assert here.fetch("main") == third


def test_fetched_objects_are_in_packs_that_are_on_the_disk(machine: Machine, team: Team) -> None:
    team.push({"local.yml": "first"})
    here = repository(machine, team)
    here.fetch("main")
    assert {path.name for path in machine.path(f"{here.bare}/objects").iterdir()} == {"info", "pack"}


def bad_sector(bare: Path) -> None:
    """Forty bytes of each pack can't be read as they were written."""
    packs = list((bare / "objects/pack").glob("*.pack"))
    assert packs
    for pack in packs:
        content = bytearray(pack.read_bytes())
        middle = len(content) // 2
        content[middle - 20 : middle + 20] = bytes(40)
        pack.chmod(0o600)
        pack.write_bytes(content)


def lost_pack(bare: Path) -> None:
    for path in (bare / "objects/pack").iterdir():
        path.unlink()


@pytest.mark.parametrize("cut", [bad_sector, lost_pack])
def test_a_damaged_copy_is_found_although_the_server_has_nothing_new(
    machine: Machine, team: Team, cut: Callable[[Path], None]
) -> None:
    """In a file of an old commit: nothing that runs needs it, but the clone that ansible-pull makes does."""
    old = team.push({"big": "".join(str(number) for number in range(5000))})
    team.git("rm", "--quiet", "big")
    commit = team.push({"local.yml": "[]"})
    here = repository(machine, team)
    here.fetch("main")
    cut(machine.path(here.bare))
    assert fetched_again(here) == commit
    assert here.content(old, "big").startswith(b"0123")


def test_a_copy_that_can_not_be_read_has_no_answers(machine: Machine, team: Team) -> None:
    """No answer must not count as no such file: the default playbook would run, or submodules come in."""
    commit = team.push({"local.yml": "[]", ".gitmodules": "[submodule]"})
    here = repository(machine, team)
    here.fetch("main")
    lost_pack(machine.path(here.bare))
    with pytest.raises(CopyDamaged):
        here.has(commit, ".gitmodules")
    with pytest.raises(CopyDamaged):
        here.content(commit, "local.yml")
    with pytest.raises(CopyDamaged):
        here.date(commit)


# -- signatures --------------------------------------------------------------------------------------------


def test_a_commit_signed_by_an_allowed_key_is_accepted(machine: Machine, team: Team) -> None:
    key = team.key("alice")
    commit = team.push({"local.yml": "first"}, signed_by=key)
    here = repository(machine, team, allowed_signers=team.signer(key))
    here.verify(here.fetch("main"))
    here.accept(commit)


def test_an_unsigned_commit_is_refused(machine: Machine, team: Team) -> None:
    key = team.key("alice")
    team.push({"local.yml": "first"})
    here = repository(machine, team, allowed_signers=team.signer(key))
    with pytest.raises(CommitRefused, match=r"it is not signed|can't be verified"):
        here.verify(here.fetch("main"))


def test_a_commit_of_an_unknown_key_is_refused(machine: Machine, team: Team) -> None:
    alice, mallory = team.key("alice"), team.key("mallory")
    team.push({"local.yml": "first"}, signed_by=mallory)
    here = repository(machine, team, allowed_signers=team.signer(alice))
    with pytest.raises(CommitRefused, match=r"not in pull.allowedSigners"):
        here.verify(here.fetch("main"))


def test_a_commit_that_was_altered_after_it_was_signed_is_refused(machine: Machine, team: Team) -> None:
    """The signature of one commit, copied into another one."""
    key = team.key("alice")
    good = team.push({"local.yml": "first"}, signed_by=key)
    raw = team.git("cat-file", "commit", good).replace("a change", "another change")
    forged = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=team.directory / "work",
        input=f"{raw}\n",
        env=team.environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    team.git("push", "--quiet", "--force", "origin", f"{forged}:refs/heads/main")
    here = repository(machine, team, allowed_signers=team.signer(key))
    assert here.fetch("main") == forged
    with pytest.raises(CommitRefused, match=r"not valid for this content|can't be verified"):
        here.verify(forged)


def test_gpg_keys_are_used_from_a_keyring_of_their_own(machine: Machine, team: Team) -> None:
    ring = team.directory / "gnupg"
    ring.mkdir(mode=0o700)

    def gpg(*arguments: str) -> str:
        argv = [
            "gpg",
            "--homedir",
            str(ring),
            "--batch",
            "--quiet",
            "--pinentry-mode",
            "loopback",
            *arguments,
        ]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    gpg("--passphrase", "", "--quick-generate-key", "alice <alice@example.com>", "ed25519", "sign")
    gpg("--passphrase", "", "--quick-generate-key", "mallory <mallory@example.com>", "ed25519", "sign")
    team.environment["GNUPGHOME"] = str(ring)
    options = ("-c", "gpg.format=openpgp", "-c", "user.signingkey=alice@example.com")
    team.push({"local.yml": "first"})
    team.git(*options, "commit", "--quiet", "--amend", "-S", "--no-edit")
    team.git("push", "--quiet", "--force", "origin", "HEAD:main")
    try:
        here = repository(machine, team, gpg_keys=gpg("--armor", "--export", "alice@example.com"))
        here.verify(here.fetch("main"))
        other = repository(machine, team, gpg_keys=gpg("--armor", "--export", "mallory@example.com"))
        with pytest.raises(CommitRefused, match=r"not in pull.gpgKeys"):
            other.verify(other.fetch("main"))
        broken = repository(machine, team, gpg_keys="-----BEGIN PGP PUBLIC KEY BLOCK-----\nnonsense\n")
        with pytest.raises(CommitRefused, match="can't be used"):
            broken.fetch("main")
    finally:
        subprocess.run(["gpgconf", "--homedir", str(ring), "--kill", "all"], check=False)


# -- secrets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown", "stored"),
    [
        ("https://git.example/x.git", "https://git.example/x.git", ""),
        ("https://u:p%40ss@git.example/x.git", "https://u@git.example/x.git", "https://u:p%40ss@git.example"),
        (
            "https://t0ken@git.example:8443/x",
            "https://token@git.example:8443/x",
            "https://token:t0ken@git.example:8443",
        ),
        ("ssh://git@git.example/x.git", "ssh://git@git.example/x.git", ""),
        ("git@git.example:x.git", "git@git.example:x.git", ""),
    ],
)
def test_a_password_goes_to_the_credential_store(url: str, shown: str, stored: str) -> None:
    assert without_credentials(url) == (shown, stored)


def test_no_argument_has_a_secret_and_files_are_for_root_only(machine: Machine) -> None:
    access = Access(
        "https://user:s3cret@git.example/x.git",
        ssh_key="PRIVATE KEY s3cret",
        proxy="http://u:s3cret@proxy.example:3128",
        no_proxy="localhost",
    )
    machine.path(f"{DIRECTORY}/repository.git").mkdir(parents=True)
    vars(machine.commands)["_env"] = lambda *_words: "true\n"  # a git that has all
    Repository(machine.host, DIRECTORY, access).fetch("main")
    assert machine.commands.calls
    assert not any("s3cret" in word for call in machine.commands.calls for word in call)
    found = [path for path in machine.path(DIRECTORY).rglob("*") if path.is_file()]
    assert {path.name for path in found} >= {"credentials", "ssh-key", "config"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in found)
    assert stat.S_IMODE(machine.path(DIRECTORY).stat().st_mode) == 0o700
    Repository(machine.host, DIRECTORY, Access("ssh://git@git.example/x")).fetch("main")
    assert not machine.path(f"{DIRECTORY}/credentials").exists()
