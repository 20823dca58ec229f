# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of ansible-pull, 20xx. None of them disturbs the node."""

from __future__ import annotations

from ..errors import FlexNodeError


class RepositoryUnreachable(FlexNodeError):
    """git could not fetch anything."""

    code, title = "FLEX-2001", "The repository of ansible-pull can't be fetched"
    remedy = "check pull.repository, its credentials and the network; the next run tries again"


class RefMissing(FlexNodeError):
    """The repository answers, but does not have what is to be run."""

    code, title = "FLEX-2002", "The repository of ansible-pull lacks a branch, commit or playbook"
    remedy = "push it, or correct pull.ref or pull.playbook"


class CommitRefused(FlexNodeError):
    """The signature is missing, bad, or of an unknown key."""

    code, title = "FLEX-2003", "A commit is not signed by an allowed key"
    remedy = (
        "amend it with a signature and push it (git commit --amend --no-edit -S; git push "
        "--force-with-lease), or add the signer's key to pull.allowedSigners or pull.gpgKeys"
    )


class PlaybookFailed(FlexNodeError):
    """ansible-pull ended with an error."""

    code, title = "FLEX-2004", "The playbook of the repository failed"
    remedy = "see its output: journalctl -u aks-flex-node-pull"


class CollectionsFailed(FlexNodeError):
    """ansible-galaxy ended with an error."""

    code, title = "FLEX-2005", "The collections of the repository can't be installed"
    remedy = "check collections/requirements.yml and the servers that it names; or commit the collections"


class PullNotPossible(FlexNodeError):
    """cron is missing, or the calendar expression is wrong."""

    code, title = "FLEX-2006", "ansible-pull can't be scheduled as configured"


class CommitOlder(FlexNodeError):
    """Signed, and older than a commit that ran: a server in wrong hands could bring it back."""

    code, title = "FLEX-2007", "A signed commit is older than the one that ran before"
    remedy = "revert with a new signed commit; to run the old commit on purpose, set pull.ref to it"


class SubmodulesRefused(FlexNodeError):
    """Ansible would fetch them from servers that nobody configured here, with root's own git settings."""

    code, title = "FLEX-2008", "The repository of ansible-pull has submodules"
    remedy = "commit the files themselves, or require them in collections/requirements.yml"


class CopyDamaged(FlexNodeError):
    """git can't read or change the copy of the repository on this machine, and a new copy did not help."""

    code, title = "FLEX-2009", "The copy of the repository on this machine can't be used"
    remedy = (
        "check the disk and its free space (journalctl -k -p err; df /var/lib/aks-flex-node); "
        "the next run fetches a new copy"
    )
