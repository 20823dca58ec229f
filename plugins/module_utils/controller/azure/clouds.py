# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The URLs of the Azure clouds, or those of a private one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...node.config.sections.azure import CLOUDS

# The clouds as azure.azcollection and the Azure CLI call them: the document's name, the audience of tokens.
NAMES: Mapping[str, tuple[str, str]] = {
    "AzureCloud": ("AzurePublicCloud", "https://management.azure.com/.default"),
    "AzureUSGovernment": ("AzureUSGovernment", "https://management.core.usgovcloudapi.net/.default"),
    "AzureChinaCloud": ("AzureChinaCloud", "https://management.chinacloudapi.cn/.default"),
}
# The AKS server application, which every AKS cluster with Entra integration trusts, in every cloud.
AKS_SCOPE = "6dae42f8-4368-4678-94ff-3960e28e3630/.default"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where to sign in and where to ask; `own_*`: set by the user, not the cloud's."""

    cloud: str
    authority: str
    resource_manager: str
    scope: str
    own_authority: bool = False
    own_resource_manager: bool = False

    def document(self) -> dict[str, Any]:
        """The same as part of a node's configuration; empty in the public cloud."""
        azure: dict[str, Any] = {} if self.cloud == "AzurePublicCloud" else {"cloud": self.cloud}
        if self.own_resource_manager:
            azure["resourceManagerEndpoint"] = self.resource_manager
        if self.own_authority:
            azure["activeDirectoryEndpoint"] = self.authority
        return azure


def endpoints_of(name: str, authority: str = "", resource_manager: str = "") -> Endpoints:
    """The URLs of a cloud, or those that are set. Tokens are for the cloud's own Resource Manager."""
    cloud, scope = NAMES[name]
    arm, sign_in = CLOUDS[cloud]
    own = authority.rstrip("/")
    if own and "://" not in own:
        own = f"https://{own}"  # AZURE_AUTHORITY_HOST is often a bare host name
    own_arm = resource_manager.rstrip("/")
    return Endpoints(
        cloud=cloud,
        authority=own or sign_in,
        resource_manager=own_arm or arm,
        scope=scope,
        own_authority=bool(own) and own != sign_in,
        own_resource_manager=bool(own_arm) and own_arm != arm,
    )
