# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom the API server believes."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path

from testbed.cluster import authentication
from testbed.cluster.credentials import Credentials
from testbed.layout.identifiers import AKS_SERVER, TENANT_ID
from testbed.layout.plan import Plan
from testbed.layout.site import Site

ORIGIN = "https://10.213.7.8"


def test_both_versions_of_entras_tokens_are_for_aks_and_this_tenant() -> None:
    trusted = authentication.document(ORIGIN, TENANT_ID, "PEM")["jwt"]
    assert [one["issuer"]["url"] for one in trusted] == [
        f"https://sts.windows.net/{TENANT_ID}/",
        f"{ORIGIN}/{TENANT_ID}/v2.0",
    ]
    for one in trusted:
        assert one["issuer"]["audiences"] == [AKS_SERVER]
        assert one["issuer"]["certificateAuthority"] == "PEM"
        assert one["claimMappings"] == {"username": {"claim": "oid", "prefix": ""}}
        assert one["claimValidationRules"] == [{"claim": "tid", "requiredValue": TENANT_ID}]


def test_the_control_plane_trusts_entra_from_its_first_start(tmp_path: Path) -> None:
    site = Site("unit", tmp_path, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0")
    site.authority.ensure()
    Credentials(site).ensure()
    found = json.loads((tmp_path / "control-plane" / "authentication.json").read_text())
    assert found == authentication.document(ORIGIN, TENANT_ID, site.authority.pem)
