# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which settings an update changed: names only, as a user finds them in the document."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.outcome import (
    changed_keys,
    changed_settings,
)

SECRET = "a-secret-that-nobody-may-read"
OLD: dict[str, Any] = {
    "kubernetes": {"version": "1.34.3"},
    "node": {"maxPods": 50, "labels": {"site": "a", "rack": "1"}},
    "azure": {"servicePrincipal": {"clientSecret": "old"}, "bootstrapToken": {"token": "abcdef.0123"}},
}
NEW: dict[str, Any] = {
    "kubernetes": {"version": "1.34.4"},
    "node": {"maxPods": 50, "labels": {"site": "b", "rack": "1"}},
    "azure": {"servicePrincipal": {"clientSecret": SECRET}, "bootstrapToken": {"token": "fedcba.0123"}},
    "kubelet": {"configOverrides": {"evictionHard": {"memory.available": SECRET}}},
}


def test_full_names_without_values_and_without_what_only_a_join_uses() -> None:
    assert changed_keys(OLD, NEW) == [
        "azure.servicePrincipal.clientSecret",
        "kubelet.configOverrides.evictionHard",
        "kubernetes.version",
        "node.labels.site",
    ]


def test_a_section_that_goes_is_named_by_its_settings() -> None:
    assert changed_keys(NEW, OLD) == changed_keys(OLD, NEW)


def test_the_short_form_has_versions_with_values() -> None:
    found = list(changed_settings(OLD, NEW))
    assert found == ["clientSecret", "configOverrides", "kubernetes 1.34.3 -> 1.34.4", "labels"]


@pytest.mark.parametrize("same", [OLD, NEW, {}])
def test_nothing_differs(same: dict[str, Any]) -> None:
    assert changed_keys(same, same) == []
