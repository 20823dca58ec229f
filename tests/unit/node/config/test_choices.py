# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The credential of a plain document is that of the checked one: all combinations of choices."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config import auth
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.choices import choices_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import redact
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import (
    AZURE_METHODS,
    KUBELET_METHODS,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.unit.node.config.test_samples import joining

GUID = "12345678-1234-1234-1234-123456789abc"
CLUSTER = (
    f"/subscriptions/{GUID}/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
)
SOME: dict[str, Any] = {
    "bootstrapToken": {"token": "abcdef.0123456789abcdef"},
    "servicePrincipal": {"clientId": GUID, "clientSecret": "s", "clientTenant": GUID},
    "managedIdentity": {},
    "arc": {"enabled": True, "location": "westeurope"},
}
BROUGHT = [keys for count in range(5) for keys in itertools.combinations(SOME, count)]
USES = (None, True, False, "true", "false")


def document(brought: tuple[str, ...], node: str | None, kubelet: str | None, use: Any) -> dict[str, Any]:
    base = joining()
    azure = {key: value for key, value in base["azure"].items() if key not in SOME}
    auth_of_kubelet = {"method": kubelet, "useAzureAuth": use}
    return {
        **base,
        "azure": {**azure, "tenantId": GUID, **{key: SOME[key] for key in brought}},
        "azureAuth": {"method": node} if node else {},
        "kubernetesAuth": {key: value for key, value in auth_of_kubelet.items() if value is not None},
    }


@pytest.mark.parametrize("brought", BROUGHT, ids=lambda keys: "-".join(keys) or "nothing")
def test_a_plain_document_is_understood_as_the_checked_one(brought: tuple[str, ...]) -> None:
    understood = 0
    for node, kubelet, use in itertools.product((None, *AZURE_METHODS), (None, *KUBELET_METHODS), USES):
        plain = document(brought, node, kubelet, use)
        choices = choices_of(plain)
        assert choices_of(redact(plain)) == choices, "what a machine shows of it says the same"
        try:
            config = parse(plain, purpose="prepare")
        except ConfigInvalid:
            continue
        understood += 1
        assert choices.azure_method == auth.azure_method(config), plain
        assert choices.kubelet_method == auth.kubelet_method(config), plain
        assert choices.identities == auth.present_identities(config), plain
        if choices.wants_token and not choices.bootstrap_token:
            with_token = document((*brought, "bootstrapToken"), node, kubelet, use)
            assert choices_of(with_token).kubelet_method == "bootstrapToken", "a token would be used"
    assert understood


@pytest.mark.parametrize(
    "plain", [{"azure": None}, {"azure": {"arc": "yes"}}, {"kubernetesAuth": {"useAzureAuth": "perhaps"}}]
)
def test_what_is_no_choice_counts_as_none(plain: dict[str, Any]) -> None:
    choices = choices_of(plain)
    assert (choices.kubelet_method, choices.wants_token) == (None, True)


@pytest.mark.parametrize("kubelet", KUBELET_METHODS)
def test_a_method_in_other_letters_is_the_same_choice(kubelet: str) -> None:
    """The controller created no token for `BootstrapToken`, and no binding for `Arc`."""
    other = f"{kubelet[0].upper()}{kubelet[1:]}"
    plain, spelled = (document(tuple(SOME), None, name, None) for name in (kubelet, other))
    assert choices_of(spelled) == choices_of(plain)
    assert choices_of({"azureAuth": {"method": "ARC"}}) == choices_of({"azureAuth": {"method": "arc"}})
