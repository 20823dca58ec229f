# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ansible-pull: which repository, who may sign its commits, when it runs, and where Ansible comes from."""

from __future__ import annotations

from ...dataclass import dataclass
from ...secret import Secret
from ..types.addresses import https_url, pem, repository, source_url
from ..types.kinds import absolute_path, boolean, choice, either, integer, line, matching, secret, text
from ..types.setting import setting
from ..types.values import Certificates

PLAYBOOK = "local.yml"  # as ansible-pull itself expects it
INDEX = "https://pypi.org/simple"


@dataclass(frozen=True, kw_only=True)
class Pull:
    """ansible-pull of the team's own repository."""

    repository: Secret | None = setting("repository", repository, "The repository; absent: no ansible-pull.")
    ref: str | None = setting(
        "ref",
        matching("a branch, tag or commit", r"(?!-)[\w./-]{1,255}"),
        "What to check out; absent: the repository's default branch.",
    )
    playbook: str | None = setting(
        "playbook",
        matching("a path of a YAML file in the repository", r"(?!/|-)(?!.*\.\.)[\w./-]{1,255}\.ya?ml"),
        f"The playbook; absent: {PLAYBOOK}, or without that file one that only repairs drift.",
    )
    verify_commit: bool | None = setting(
        "verifyCommit", boolean, "Run only commits that are signed by one of allowedSigners or gpgKeys."
    )
    allowed_signers: str | None = setting(
        "allowedSigners",
        text,
        "SSH keys that may sign commits: an allowed_signers file, as in ssh-keygen(1).",
    )
    gpg_keys: str | None = setting(
        "gpgKeys",
        matching(
            "public keys, as `gpg --armor --export` prints them",
            r"(?s).*BEGIN PGP PUBLIC KEY.*",
            limit=1 << 20,
        ),
        "GPG keys that may sign commits.",
    )
    ssh_key: Secret | None = setting(
        "sshKey", secret(text), "Private key for an ssh repository (a deploy key); absent: root's own key."
    )
    known_hosts: str | None = setting(
        "knownHosts", text, "Lines of known_hosts of the repository's server; absent: those of the machine."
    )
    ca_cert: Certificates | None = setting(
        "caCert", pem, "CA of an https repository whose server has a certificate of a private CA."
    )
    schedule: str | None = setting(
        "schedule",
        line,
        "When: a systemd calendar expression, or with scheduler cron the five fields of a crontab; "
        "absent: hourly.",
    )
    scheduler: str = setting(
        "scheduler", choice("timer", "cron"), "What starts it: a systemd timer, or cron.", default="timer"
    )
    spread_seconds: int = setting(
        "spreadSeconds",
        integer(0, 86400),
        "Each machine adds a fixed delay of 0 to this many seconds, which differs per machine.",
        default=300,
    )
    timeout_seconds: int = setting(
        "timeoutSeconds", integer(60, 86400), "How long one run may take.", default=3600
    )
    wheels: str | None = setting(
        "wheels",
        either("an https:// URL or an absolute path of a directory", source_url, absolute_path),
        "Where the wheels of ansible-core are: a directory with the files themselves; absent: `index`.",
    )
    index: str | None = setting(
        "index", https_url, f"A Python package index; absent: {INDEX}, through mirror.url if that is set."
    )

    @property
    def calendar(self) -> str:
        """Return when ansible-pull runs, for a systemd timer."""
        return self.schedule or "hourly"

    @property
    def signers(self) -> bool:
        """Return whether anyone is named who may sign commits."""
        return bool(self.allowed_signers or self.gpg_keys)
