# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of all modules that sign in to Azure, and the login that they describe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ...node.sources.flexnode_config import API_VERSION
from ...node.sources.machines import API_VERSION as POOLS_API_VERSION
from .module import require
from .settings import AUTH_SOURCES, settings_of

if TYPE_CHECKING:
    from .login import Login

# The same as the doc fragment aks.flexnode.azure. The environment is read by settings_of, which knows which
# of the variables auth_source allows.
AZURE: Mapping[str, Mapping[str, Any]] = {
    "subscription_id": {"type": "str"},
    "tenant": {"type": "str"},
    "client_id": {"type": "str"},
    "secret": {"type": "str", "no_log": True},
    "x509_certificate_path": {"type": "path"},
    "thumbprint": {"type": "str"},
    "profile": {"type": "str"},
    "auth_source": {
        "type": "str",
        "choices": list(AUTH_SOURCES),
        "default": "auto",
        "fallback": (env_fallback, ["ANSIBLE_AZURE_AUTH_SOURCE"]),
    },
    "cloud_environment": {"type": "str", "choices": ["AzureCloud", "AzureUSGovernment", "AzureChinaCloud"]},
    "authority": {"type": "str"},
    "resource_manager_endpoint": {"type": "str"},
    "ca_bundle": {"type": "path"},
}
PREVIEW: Mapping[str, Mapping[str, Any]] = {
    "api_version": {"type": "str", "default": API_VERSION},
    "poll_interval": {"type": "int", "default": 5},
    "operation_timeout": {"type": "int", "default": 1200},
}
# The same as the doc fragment aks.flexnode.pools.
POOLS: Mapping[str, Mapping[str, Any]] = {
    "cluster_id": {"type": "str", "required": True},
    "pool": {"type": "str", "required": True},
    "api_version": {"type": "str", "default": POOLS_API_VERSION},
    "poll_interval": {"type": "int", "default": 5},
    "operation_timeout": {"type": "int", "default": 1200},
}


def login_of(module: AnsibleModule, packages: Mapping[str, str] | None = None) -> Login:
    """Sign in. A secret of the environment or of the credential file is masked, too."""
    # The Azure SDK takes a quarter of a second to import: actions that only need the options do without.
    from .login import IDENTITY_ERROR, sign_in

    require(module, {"azure-identity": IDENTITY_ERROR, **(packages or {})})
    settings = settings_of(module.params, os.environ)
    if settings.secret:
        module.no_log_values.add(settings.secret.reveal())
    return sign_in(settings)
