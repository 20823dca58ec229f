# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An error names one way to a new token: that of this machine."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import RESOLVED
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ApiUnreachable, TokenRefused
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.advice import (
    FILE,
    NEW_TOKEN,
    PLACES,
    POOL,
    URL,
    WAYS,
    advise,
    place_of,
)

AGAIN = "run playbook aks.flexnode.bootstrap again"


@pytest.mark.parametrize(
    ("origin", "way"),
    [
        *((source, f"{AGAIN}: it creates a new token") for source in RESOLVED),
        ("inline", f"azure.bootstrapToken.token in the inventory, then {AGAIN}"),
        ("url", f"set it as flexnode_config_url, then {AGAIN}"),
        (FILE, "azure.bootstrapToken.token in the file, then run `aks-flex-node join --config FILE` again"),
        (URL, "`aks-flex-node join --config-url URL`"),
        (POOL, "`aks-flex-node join --cluster ID --pool NAME` again"),
        ("", NEW_TOKEN),
    ],
)
def test_the_way_of_this_machine_and_no_other(origin: str, way: str) -> None:
    error = TokenRefused("the token", fix=f"first this, then {NEW_TOKEN}")
    advise(error, origin)
    assert error.fix.startswith("first this, then ")
    assert way in error.fix
    assert not [
        other for other in {*WAYS.values(), NEW_TOKEN} - {WAYS.get(origin, NEW_TOKEN)} if other in error.fix
    ]


def test_other_advice_stays() -> None:
    error = ApiUnreachable("no answer")
    advise(error, "cluster")
    assert error.fix == ApiUnreachable.remedy


def test_where_a_setting_is_corrected() -> None:
    assert {place_of(source) for source in (*RESOLVED, "inline")} == {"in the inventory"}
    assert place_of("") not in PLACES.values()
