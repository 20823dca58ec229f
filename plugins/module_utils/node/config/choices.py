# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which credential is used for what. Decided only here, for parsed and for plain documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dataclass import dataclass
from .document import as_read, merge
from .early import early_form
from .model import AZURE_METHODS


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The credentials of a document: the methods that it names, and the credentials that it has."""

    azure: str | None = None
    kubelet: str | None = None
    use_azure_auth: bool | None = None
    bootstrap_token: bool = False
    service_principal: bool = False
    managed_identity: bool = False
    arc: bool = False
    pool: bool = False  # of FlexNodes: its bootstrap data has a token for the join, which is not stored

    @property
    def identities(self) -> tuple[str, ...]:
        """The Azure identities of the document."""
        present = {
            # With Arc the principal only registers the machine; afterwards the Arc identity is used.
            "servicePrincipal": self.service_principal and not self.arc,
            "managedIdentity": self.managed_identity,
            "arc": self.arc,
        }
        return tuple(method for method, there in present.items() if there)

    @property
    def azure_method(self) -> str | None:
        """The node's Azure identity; None: it has none, or more than one."""
        # With several identities, the one that is chosen for the kubelet is used for Azure too.
        explicit = self.azure or (self.kubelet if self.kubelet in AZURE_METHODS else None)
        return explicit or (self.identities[0] if len(self.identities) == 1 else None)

    @property
    def kubelet_method(self) -> str | None:
        """The kubelet's credential; None: there is none."""
        if self.kubelet:
            return self.kubelet
        # A bootstrap token can only be used for the join, so its presence is a choice.
        if (self.bootstrap_token or self.pool) and not self.use_azure_auth:
            return "bootstrapToken"
        return None if self.use_azure_auth is False else self.azure_method

    @property
    def wants_token(self) -> bool:
        """Whether a bootstrap token is the kubelet's credential, or would be if there were one."""
        method = self.kubelet_method
        # No method: there is no identity. With several identities, the user has to choose.
        nothing = method is None and not (self.use_azure_auth or self.identities)
        return method == "bootstrapToken" or nothing or (method is None and self.use_azure_auth is False)


def choices_of(document: Mapping[str, Any]) -> Choices:
    """The choices of an unchecked document; invalid values count as absent."""
    merged = as_read(merge(early_form(document), {}))
    azure, auth = _below(merged, "azure"), _below(merged, "kubernetesAuth")
    return Choices(
        azure=_below(merged, "azureAuth").get("method"),
        kubelet=auth.get("method"),
        use_azure_auth=wants if isinstance(wants := auth.get("useAzureAuth"), bool) else None,
        bootstrap_token=bool(_below(azure, "bootstrapToken")),
        service_principal=bool(_below(azure, "servicePrincipal")),
        managed_identity=isinstance(azure.get("managedIdentity"), Mapping),
        arc=_below(azure, "arc").get("enabled") is True,
        pool=bool(azure.get("targetAgentPoolName")),
    )


def _below(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
