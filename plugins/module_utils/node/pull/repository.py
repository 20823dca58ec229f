# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The team's repository on this machine: a bare copy, fetched and verified before anything is checked out.

git reads secrets from files that only root can read: arguments of a process are visible to all.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ..dataclass import dataclass
from ..machine.command import TIMED_OUT, Completed
from ..machine.host import Host
from .errors import CommitRefused, CopyDamaged, RefMissing, RepositoryUnreachable

FETCH_SECONDS = 600.0
LOCAL_SECONDS = 120.0
# As it came; and once it may be run.
FETCHED, CHECKED = "refs/flexnode/fetched", "refs/heads/flexnode"
NO_REF = re.compile(r"couldn't find remote ref|not our ref|unadvertised object", re.IGNORECASE)
NOISE = re.compile(r"^(From |remote: (Enumerating|Counting|Compressing|Total)|\s*[*+!-] |hint:|Fetching )")


@dataclass(frozen=True)
class Access:
    """How to reach a repository, and who may sign its commits. Everything as the configuration has it."""

    url: str
    ssh_key: str = ""
    known_hosts: str = ""
    ca_pem: str = ""
    proxy: str = ""
    no_proxy: str = ""
    allowed_signers: str = ""
    gpg_keys: str = ""

    @property
    def shown(self) -> str:
        """The URL without credentials."""
        return without_credentials(self.url)[0]


class Repository:
    """A bare repository below a directory that only root can read."""

    def __init__(self, host: Host, directory: str, access: Access, name: str = "repository.git") -> None:
        self._host = host
        self._directory = directory
        self._access = access
        self.bare = f"{directory}/{name}"

    def fetch(self, ref: str, seconds: float = FETCH_SECONDS, *, anew: bool = False) -> str:
        """Fetch a branch, tag or commit; returns the id of its commit. What was fetched before stays.

        anew: replace the copy by a new one. To be done when something raised CopyDamaged.
        """
        start = self._host.clock.monotonic()
        end, last = start + min(seconds, FETCH_SECONDS), start + max(seconds, LOCAL_SECONDS)
        done = self._fetch_anew(ref, end) if anew else self._fetch(ref, end)
        if not anew and done.status not in (0, TIMED_OUT) and not NO_REF.search(done.stderr):
            done = self._fetch_anew(ref, end)
        if done.status != 0:
            raise self._unfetched(ref, done)
        self._check_packs(last)
        found = self._git("rev-parse", "--verify", "--quiet", f"{FETCHED}^{{commit}}")
        if found.status != 0:
            raise RefMissing(f"{ref} is not a commit", where=self._access.shown)
        commit = found.stdout.strip()
        # Everything that the commit needs is there: the packs are undamaged, but one of them may be missing.
        self._local("rev-list", "--objects", "--quiet", commit, wait=self._until(last))
        return commit

    def verify(self, commit: str) -> None:
        """Check the signature of a commit, before any file of it is written anywhere."""
        done = self._git("verify-commit", "--raw", commit)
        if done.status != 0:
            raise CommitRefused(
                f"commit {commit[:12]} is not run",
                where=self._access.shown,
                why=refusal(done.stderr),
            )

    def accept(self, commit: str) -> None:
        """Let ansible-pull see a commit: it clones from this repository, and knows no other."""
        self._local("update-ref", CHECKED, commit)
        self._local("symbolic-ref", "HEAD", CHECKED)

    def has(self, commit: str, path: str) -> bool:
        """Whether a commit contains a file. A git that fails is an error: it does not mean no."""
        return bool(self._local("ls-tree", "--full-tree", "--name-only", commit, "--", path).stdout)

    def content(self, commit: str, path: str) -> bytes:
        """A file of a commit."""
        return self._local("cat-file", "blob", f"{commit}:{path}").stdout.encode()

    def follows(self, commit: str, earlier: str) -> bool:
        """Whether a commit comes after another one; False: the history was rewritten."""
        done = self._git("merge-base", "--is-ancestor", earlier, commit)
        if done.status == TIMED_OUT:
            raise self._damaged(done)
        return done.status == 0  # 128: the earlier one is unknown here, and so is no ancestor

    def date(self, commit: str) -> int:
        """When a commit was made, by its committer, in seconds; a signature covers that, too."""
        return int(self._local("show", "--no-patch", "--format=%ct", commit).stdout.strip() or 0)

    def _check_packs(self, end: float) -> None:
        """Read all that was fetched and compare it with its checksums.

        ansible-pull clones the whole history, and git tells the server that it has what it had before:
        without this check a bad sector would make every run fail until a push happens to replace that file.
        """
        packs = f"{self.bare}/objects/pack"
        names = [name for name in self._host.names(packs) if name.endswith(".idx")]
        for name in names:
            self._local("verify-pack", self._host.path(f"{packs}/{name}"), wait=self._until(end))

    def _fetch(self, ref: str, end: float) -> Completed:
        self._prepare()
        refs = f"+{ref}:{FETCHED}"
        return self._git("fetch", "--quiet", "--no-tags", "origin", refs, wait=self._until(end))

    def _fetch_anew(self, ref: str, end: float) -> Completed:
        """Fetch into a new copy, which replaces this one if that works.

        A power cut or a kill in the middle of git leaves locks, empty refs and empty objects: with these
        every further fetch fails. They can't be told from a server that is away, except by trying.
        """
        host, new = self._host, Repository(self._host, self._directory, self._access, "new.git")
        host.remove_tree(new.bare)  # of a run that was killed here
        done = new._fetch(ref, end)
        if done.status == 0:
            host.remove_tree(self.bare)
            host.move(new.bare, self.bare)
        else:
            host.remove_tree(new.bare)
        return done

    def _until(self, end: float) -> float:
        """Seconds that are left."""
        return max(end - self._host.clock.monotonic(), 1.0)

    def _local(self, *arguments: str, wait: float = LOCAL_SECONDS) -> Completed:
        """Run git on the copy alone; this does not fail unless the copy or the disk is damaged."""
        done = self._git(*arguments, wait=wait)
        if done.status != 0:
            raise self._damaged(done)
        return done

    def _damaged(self, done: Completed) -> CopyDamaged:
        why = last_lines(done)
        return CopyDamaged("the copy of the repository can't be used", where=self.bare, why=why)

    # -- git -------------------------------------------------------------------------------------------------

    def _git(self, *arguments: str, wait: float = LOCAL_SECONDS) -> Completed:
        argv = ["env", *self._environment(), "git", "--git-dir", self._host.path(self.bare), *arguments]
        return self._host.run(argv, timeout=wait, check=False)

    def _environment(self) -> list[str]:
        """No settings of the machine or of root, no questions. Paths only, nothing secret."""
        here = self._host.path(self._directory)
        ssh = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=30"]
        if self._access.ssh_key:
            ssh += ["-o", "IdentitiesOnly=yes", "-i", f"{here}/ssh-key"]
        if self._access.known_hosts:
            ssh += ["-o", f"UserKnownHostsFile={here}/known-hosts", "-o", "GlobalKnownHostsFile=/dev/null"]
        return [
            "GIT_CONFIG_NOSYSTEM=1",
            "GIT_CONFIG_GLOBAL=/dev/null",
            "GIT_TERMINAL_PROMPT=0",
            f"GNUPGHOME={here}/gnupg",
            f"HOME={here}",
            f"GIT_SSH_COMMAND={' '.join(ssh)}",
            *([f"no_proxy={self._access.no_proxy}"] if self._access.no_proxy else []),
        ]

    def _prepare(self) -> None:
        """Create the repository if it is missing or damaged, and write its settings and credentials."""
        host, here = self._host, self._directory
        host.make_directories(here, 0o700)
        host.set_access(here, 0o700, 0, 0)
        if self._git("rev-parse", "--is-bare-repository").stdout.strip() != "true":
            host.remove_tree(self.bare)
            done = self._git("init", "--quiet", "--bare", "--initial-branch", CHECKED.rpartition("/")[2])
            if done.status != 0:
                raise RepositoryUnreachable("git can't be used", where=self.bare, why=last_lines(done))
        url, credentials = without_credentials(self._access.url)
        for name, content in (
            ("credentials", credentials),
            ("ssh-key", self._access.ssh_key),
            ("known-hosts", self._access.known_hosts),
            ("ca.pem", self._access.ca_pem),
            ("allowed-signers", self._access.allowed_signers),
        ):
            if content:
                host.write(f"{here}/{name}", f"{content.rstrip()}\n".encode(), 0o600, durable=False)
            else:
                host.remove(f"{here}/{name}")
        host.write(f"{self.bare}/config", self._config(url).encode(), 0o600, durable=False)
        self._import_gpg_keys()

    def _config(self, url: str) -> str:
        """The settings of the repository."""
        here, access = self._host.path(self._directory), self._access
        sections = {
            "core": {
                "repositoryformatversion": "0",
                "bare": "true",
                "hooksPath": "/dev/null",
                "commitGraph": "false",
            },
            'remote "origin"': {"url": url},
            "credential": {"helper": f"store --file={here}/credentials"},
            # Others than these two can't sign: what verifies them is not limited to the configured keys.
            'gpg "ssh"': {"allowedSignersFile": f"{here}/allowed-signers"},
            'gpg "x509"': {"program": "/bin/false"},
            "http": {
                **({"sslCAInfo": f"{here}/ca.pem"} if access.ca_pem else {}),
                **({"proxy": access.proxy} if access.proxy else {}),
                "lowSpeedLimit": "1000",
                "lowSpeedTime": "60",
            },
            # Git waits for the disk with packs, but not with single objects: a power cut leaves empty ones.
            "fetch": {"unpackLimit": "1"},
            # Nor with objects that a cleanup takes out of packs. In the background systemd would kill it.
            "gc": {"auto": "100", "autoDetach": "false", "pruneExpire": "now", "writeCommitGraph": "false"},
            # Files that only save time: no check reads them, and damaged ones make git fail.
            "pack": {"useBitmaps": "false", "writeReverseIndex": "false"},
            "repack": {"writeBitmaps": "false"},
        }
        return "".join(
            f"[{name}]\n" + "".join(f"\t{key} = {quoted(value)}\n" for key, value in settings.items())
            for name, settings in sections.items()
        )

    def _import_gpg_keys(self) -> None:
        """A keyring with exactly the configured keys."""
        host, ring = self._host, f"{self._directory}/gnupg"
        host.remove_tree(ring)
        if not self._access.gpg_keys:
            return
        host.make_directories(ring, 0o700)
        argv = ["gpg", "--homedir", host.path(ring), "--batch", "--no-autostart", "--quiet", "--import"]
        done = host.run(argv, data=self._access.gpg_keys.encode(), timeout=LOCAL_SECONDS, check=False)
        if done.status != 0:
            raise CommitRefused(
                "the keys in pull.gpgKeys can't be used",
                where="pull.gpgKeys",
                why=last_lines(done),
                fix="use what `gpg --armor --export KEY` prints",
            )

    def _unfetched(self, ref: str, done: Completed) -> RepositoryUnreachable | RefMissing:
        if NO_REF.search(done.stderr):
            named = "any commit" if ref == "HEAD" else ref
            return RefMissing(
                f"the repository does not have {named}", where=self._access.shown, why=last_lines(done)
            )
        why = "no answer in time" if done.status == TIMED_OUT else last_lines(done)
        return RepositoryUnreachable("the repository can't be fetched", where=self._access.shown, why=why)


def without_credentials(url: str) -> tuple[str, str]:
    """A URL without its password, and the line for git's credential store; ssh URLs have none."""
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.username is None:
        return url, ""
    host = parts.netloc.rpartition("@")[2]
    # A token alone stands where a user name would, as GitHub takes it: for git it is the password.
    name, password = (parts.username, parts.password) if parts.password else ("token", parts.username)
    return parts._replace(netloc=f"{name}@{host}").geturl(), f"https://{name}:{password}@{host}"


def quoted(value: str) -> str:
    """A value in git's configuration file."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def last_lines(done: Completed) -> str:
    """Why git failed, in one line, without its chatter."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    useful = [line for line in lines if not NOISE.match(line)]
    return " / ".join((useful or lines)[-3:])[:500] or f"exit status {done.status}"


def refusal(output: str) -> str:
    """Why a signature is not accepted, from the machine-readable words of gpg and ssh-keygen."""
    words = {
        "NO_PUBKEY": "it is signed by a key that is not in pull.gpgKeys",
        "EXPKEYSIG": "it is signed by a key that has expired",
        "REVKEYSIG": "it is signed by a key that was revoked",
        "BADSIG": "its signature is not valid for this content",
        "No principal matched": "it is signed by a key that is not in pull.allowedSigners",
        "Could not verify signature": "its signature is not valid for this content",
        "allowedSignersFile": "it is signed with an SSH key, and pull.allowedSigners is not set",
    }
    for word, reason in words.items():
        if word in output:
            return reason
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"its signature can't be verified: {' / '.join(lines[-2:])[:300]}" if lines else "it is not signed"
