# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to get a new bootstrap token, and where to correct a setting: by where the configuration comes from."""

from __future__ import annotations

from ..errors import FlexNodeError
from ..machine.program import COMMAND

AGAIN = "run playbook aks.flexnode.bootstrap again"
BOOTSTRAP = f"{AGAIN}: it creates a new token"
CREATE = (
    "create a new token with `kubeadm token create --kubeconfig ADMIN_KUBECONFIG` (on a computer with "
    "administrator access to the cluster)"
)
RENEWED = (
    " (for a flexNodeConfig: ansible-playbook -i INVENTORY aks.flexnode.config_tokens -e "
    "flexnode_url_directory=DIRECTORY writes it to a file)"
)
# Only of a token that somebody typed.
TYPO = "check azure.bootstrapToken.token for a typo, or "
# The values of flexnode_config_source; then the options of the command.
FILE, URL, POOL = "--config", "--config-url", "--pool"
WAYS = {
    "cluster": BOOTSTRAP,
    "blob": BOOTSTRAP,
    "rp": BOOTSTRAP,
    "machines": BOOTSTRAP,
    "url": f"get a new configuration URL{RENEWED}, set it as flexnode_config_url, then {AGAIN}",
    "inline": f"{CREATE}, set it as azure.bootstrapToken.token in the inventory, then {AGAIN}",
    FILE: f"{CREATE}, set it as azure.bootstrapToken.token in the file, then run "
    f"`{COMMAND} join {FILE} FILE` again",
    URL: f"get a new configuration URL{RENEWED}, then run `{COMMAND} join {URL} URL`",
    POOL: f"run the same `{COMMAND} join --cluster ID {POOL} NAME` again: it gets a new token",
}
# For errors that do not know where the configuration comes from.
NEW_TOKEN = (
    "get a new token or configuration URL, then run playbook aks.flexnode.bootstrap or "
    f"`{COMMAND} join` again"
)
REPLACE = f"{TYPO}{NEW_TOKEN}"
UNAPPROVED = f"check that the cluster approves such requests (`kubectl get csr`), then {NEW_TOKEN}"
PLACES = {
    **dict.fromkeys(("cluster", "blob", "rp", "machines", "inline"), "in the inventory"),
    "url": "in the configuration at flexnode_config_url",
    FILE: "in the configuration file",
    URL: "in the configuration at the URL",
}


def advise(error: FlexNodeError, origin: str) -> None:
    """Let an error name the way of this machine only. origin: where its configuration comes from."""
    if origin in WAYS and origin not in ("inline", FILE):
        error.fix = error.fix.replace(TYPO, "")
    error.fix = error.fix.replace(NEW_TOKEN, WAYS.get(origin, NEW_TOKEN))


def place_of(origin: str) -> str:
    """Where to correct a setting."""
    return PLACES.get(origin, "where the configuration comes from")
