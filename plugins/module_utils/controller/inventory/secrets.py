# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that hold secrets. The credential types in `awx/` inject exactly these.

A credential of AWX, like a vault, supplies single variables. It can't supply a part of `flexnode_config`:
Ansible would replace the whole mapping. So every secret field of the document has a variable of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The field of the document that each variable sets, on every machine that has the variable.
SECRETS: Mapping[str, str] = {
    "flexnode_bootstrap_token": "azure.bootstrapToken.token",
    "flexnode_client_secret": "azure.servicePrincipal.clientSecret",
    "flexnode_proxy_http": "proxy.http",
    "flexnode_proxy_https": "proxy.https",
    "flexnode_pull_repository": "pull.repository",
    "flexnode_pull_ssh_key": "pull.sshKey",
    "flexnode_vpn_profile": "azure.vpn.profile",
}
# Secrets that are no fields of the document.
OTHER_SECRETS = (
    "flexnode_arc_onboarding_client_secret",
    "flexnode_blob_account_key",
    "flexnode_blob_connection_string",
    "flexnode_config_url",
    "flexnode_vpn_ca_key",
    "flexnode_vpn_passphrase",
)


def secrets_document(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the document that these variables set. A blank one sets nothing."""
    document: dict[str, Any] = {}
    for name, path in SECRETS.items():
        value = variables.get(name)
        if value is None or value == "":
            continue
        *sections, key = path.split(".")
        inner = document
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[key] = value
    return document
