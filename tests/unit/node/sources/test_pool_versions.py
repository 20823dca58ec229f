# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which versions of a pool a machine gets: what it can verify, whatever its settings are."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config import defaults
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.pool_versions import (
    COMPONENTS,
    stand_ins,
    usable_versions,
)

SHA = "a" * 64
BOTH = {"amd64": SHA, "arm64": SHA}
DEFAULT = str(defaults.CONTAINERD)


def named(version: str) -> dict[str, Any]:
    return {"kubernetes": {"version": "1.34.4"}, "containerd": {"version": version}}


def listing(versions: dict[str, Any]) -> dict[str, Any]:
    return {"mirror": {"catalogue": {"containerd": versions}}}


def chosen(version: str, settings: dict[str, Any]) -> tuple[str | None, list[str]]:
    document, notes = usable_versions(named(version), settings)
    assert document["kubernetes"] == {"version": "1.34.4"}
    return document.get("containerd", {}).get("version"), notes


def test_a_version_of_the_catalogue_is_used() -> None:
    assert chosen("2.2.7", {}) == ("2.2.7", [])


def test_a_version_that_can_not_be_verified_is_replaced_by_ours_and_noted() -> None:
    usable, notes = usable_versions({one.section: {"version": "1.9.97"} for one in COMPONENTS}, {})
    assert usable == {}
    assert notes == [
        f"the pool names {name} 1.9.97, which this collection's catalogue does not have: {default} is "
        f"installed, unless {section}.version names another"
        for name, section, default in (
            ("containerd", "containerd", defaults.CONTAINERD),
            ("runc", "runc", defaults.RUNC),
            ("cni-plugins", "cni", defaults.CNI_PLUGINS),
        )
    ]


def test_a_version_of_the_sites_own_mirror_counts() -> None:
    assert chosen("2.0.99", listing({"2.0.99": BOTH})) == ("2.0.99", [])


def test_its_list_replaces_the_catalogue() -> None:
    version, (note,) = chosen("2.2.7", listing({"2.0.99": BOTH}))
    assert version is None
    assert "which mirror.catalogue does not have" in note


def test_a_version_counts_if_machines_of_every_architecture_can_have_it() -> None:
    """A push does not know which one a machine has; a join at the machine decides the same."""
    assert chosen("2.0.99", listing({DEFAULT: BOTH, "2.0.99": {"amd64": SHA}}))[0] is None
    assert chosen("2.0.99", listing({"2.0.99": {"amd64": SHA}}))[0] == "2.0.99"


@pytest.mark.parametrize("version", ["3.0.0", "1.6.36", "2.0", "x"])
def test_a_version_that_no_machine_accepts_is_not_passed_on(version: str) -> None:
    assert chosen(version, listing({version: BOTH, DEFAULT: BOTH}))[0] is None


def test_a_version_that_the_machine_chooses_counts_more_than_the_pools() -> None:
    assert chosen("2.0.99", {"containerd": {"version": "2.2.7"}}) == (None, [])


@pytest.mark.parametrize(
    "wrong",
    ["a", {"catalogue": 1}, {"catalogue": {"containerd": 7}}, {"catalogue": {"containerd": {"2.3.4": 1}}}],
)
def test_settings_that_are_refused_later_are_no_matter_here(wrong: object) -> None:
    version, notes = chosen("2.0.99", {"mirror": wrong, "containerd": "x"})
    assert (version, len(notes)) == (None, 1)
    assert stand_ins({"mirror": wrong, "containerd": "x"}) == {}


# --- before the pool is asked -------------------------------------------------------------------------------


def test_nothing_stands_in_where_the_default_can_be_installed() -> None:
    assert stand_ins({}) == {}
    assert stand_ins(listing({"1.6.36": BOTH, DEFAULT: BOTH})) == {}


def test_the_newest_supported_version_of_a_list_without_the_default() -> None:
    listed = {"1.6.36": BOTH, "2.0.10": BOTH, "2.0.9": BOTH, "3.0.0": BOTH, "2.9.9": {"arm64": SHA}}
    found = stand_ins(listing(listed))
    assert found == {"containerd": {"version": "2.0.10"}}
    parse(merge(named("2.2.7"), found), purpose="prepare")


def test_a_list_of_nothing_that_is_supported_has_no_stand_in() -> None:
    assert stand_ins(listing({"3.0.0": BOTH})) == {}


def test_an_explicit_version_needs_none() -> None:
    assert stand_ins({**listing({"2.0.9": BOTH}), "containerd": {"version": "2.0.9"}}) == {}
