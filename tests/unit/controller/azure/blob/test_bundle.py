# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is to be done about a bundle in storage: tables of cases, no storage."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.bundle import (
    DAY,
    Plan,
    Policy,
    Stored,
    account_of,
    checked,
    container_of,
    decide_absent,
    decide_present,
    decide_tombstone,
    next_version,
    shown,
    without_token,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import StorageRefuses
from tests.unit.node.config.test_samples import TOKEN, TOKEN_JOIN

NOW, DAYS = 1_700_000_000.0, 100
FRESH = Policy("flexnode-1", NOW + DAYS * DAY)
JOINED = without_token(TOKEN_JOIN)
HOME = TOKEN_JOIN["azure"]["targetCluster"]["resourceId"]
AWAY = f"{HOME}-2"
OTHER = {**TOKEN_JOIN, "kubernetes": {"version": "1.34.5"}}


def stored(config: Any = TOKEN_JOIN, policy: Policy | None = FRESH, **more: Any) -> Stored:
    return Stored(True, bundle={"config": config, "configVersion": "17"}, etag="e", policy=policy, **more)


TOMB = Stored(True, bundle={"tombstone": True, "configVersion": "17"}, etag="e", policy=FRESH)


def present(found: Stored, document: Any = TOKEN_JOIN, *, remove_token: bool = False) -> Plan:
    return decide_present(
        found, document, remove_token=remove_token, now=NOW, days=DAYS, new_policy="flexnode-2"
    )


@pytest.mark.parametrize(
    ("found", "document", "kind", "reasons", "version"),
    [
        pytest.param(Stored(), TOKEN_JOIN, "created", ("there is none", "the URL"), str(int(NOW)), id="new"),
        pytest.param(stored(), TOKEN_JOIN, "unchanged", (), None, id="same"),
        pytest.param(stored(), OTHER, "updated", ("the configuration",), str(int(NOW)), id="differs"),
        pytest.param(stored(JOINED), TOKEN_JOIN, "updated", ("the token",), "17", id="a-new-token"),
        pytest.param(stored(JOINED), JOINED, "unchanged", (), None, id="joined-and-same"),
        pytest.param(stored(policy=None), TOKEN_JOIN, "updated", ("the URL",), None, id="revoked"),
        pytest.param(
            stored(policy=Policy("flexnode-1", NOW + 9 * DAY)),
            TOKEN_JOIN,
            "updated",
            ("the URL expires",),
            None,
            id="expires-soon",
        ),
        pytest.param(
            stored(policy=Policy("flexnode-1", NOW + 99 * DAY, "rw")),
            TOKEN_JOIN,
            "updated",
            ("the URL",),
            None,
            id="may-write",
        ),
        pytest.param(stored(public=True), TOKEN_JOIN, "updated", ("public access",), None, id="public"),
        pytest.param(
            TOMB, TOKEN_JOIN, "updated", ("the configuration",), str(int(NOW)), id="after-a-tombstone"
        ),
    ],
)
def test_present(
    found: Stored, document: Any, kind: str, reasons: tuple[str, ...], version: str | None
) -> None:
    plan = present(found, document)
    assert (plan.kind, plan.reasons) == (kind, reasons)
    assert (plan.content or {}).get("configVersion") == version
    assert plan.policy is not None
    assert plan.policy.expires >= NOW + DAYS * DAY / 2


def test_a_renewed_address_is_the_same_and_a_revoked_one_never_comes_back() -> None:
    renewed = present(stored(policy=Policy("flexnode-1", NOW)))
    assert (renewed.policy, renewed.set_policies) == (FRESH, True)
    revoked = present(stored(policy=None))
    assert revoked.policy is not None
    assert revoked.policy.name == "flexnode-2"


@pytest.mark.parametrize(
    ("found", "kind"),
    [(stored(), "updated"), (stored(JOINED), "unchanged"), (Stored(), "unchanged"), (TOMB, "unchanged")],
)
def test_taking_the_token_out(found: Stored, kind: str) -> None:
    plan = present(found, {"nonsense": True}, remove_token=True)
    assert plan.kind == kind
    if plan.content:
        assert plan.content == {"config": JOINED, "configVersion": "17"}
        assert TOKEN not in str(plan.content)


def test_tombstone() -> None:
    plan = decide_tombstone(stored(), now=NOW)
    assert (plan.kind, plan.policy, plan.set_policies) == ("tombstoned", FRESH, False)
    assert plan.content == {"tombstone": True, "configVersion": str(int(NOW)), "clusterId": HOME}
    assert decide_tombstone(TOMB, now=NOW).kind == "unchanged"
    assert decide_tombstone(Stored(), now=NOW).kind == "unchanged"


LEFT = Stored(True, bundle={"tombstone": True, "configVersion": "17", "clusterId": HOME}, policy=FRESH)


@pytest.mark.parametrize("found", [stored(), LEFT], ids=["bundle", "tombstone"])
def test_a_bundle_of_another_cluster_is_left_alone(found: Stored) -> None:
    moved = {**TOKEN_JOIN, "azure": {**TOKEN_JOIN["azure"], "targetCluster": {"resourceId": AWAY}}}
    with pytest.raises(StorageRefuses, match="another cluster") as caught:
        present(found, moved)
    assert "unbootstrap it first" in str(caught.value)
    with pytest.raises(StorageRefuses, match="another cluster"):
        decide_tombstone(found, now=NOW, cluster_id=AWAY)
    with pytest.raises(StorageRefuses, match="another cluster"):
        decide_absent(found, cluster_id=AWAY)


@pytest.mark.parametrize("cluster_id", ["", HOME, HOME.upper(), f"{HOME}/"])
def test_a_bundle_of_the_same_cluster_or_of_nobody_is_ours(cluster_id: str) -> None:
    assert decide_absent(stored(), cluster_id=cluster_id).kind == "deleted"
    assert decide_absent(stored({"kubernetes": {}}), cluster_id=cluster_id).kind == "deleted"
    assert decide_tombstone(stored(), now=NOW, cluster_id=cluster_id).kind == "tombstoned"


def test_absent() -> None:
    plan = decide_absent(stored())
    assert (plan.kind, plan.delete, plan.set_policies, plan.policy) == ("deleted", True, True, None)
    assert decide_absent(stored(policy=None)).set_policies is False
    assert decide_absent(Stored(True, policy=FRESH)).kind == "deleted"
    assert decide_absent(Stored(True)).kind == "unchanged"


@pytest.mark.parametrize(
    ("node", "container"),
    [
        ("edge-1", "flexnode-edge-1"),
        ("edge-1.lab.example", "flexnode-edge-1-lab-example-7107fac7"),
        ("a--b", "flexnode-a-b-b2f2e1c4"),
        ("x" * 63, None),
    ],
)
def test_container_names_are_azures(node: str, container: str | None) -> None:
    found = container_of(node)
    assert len(found) <= 63
    assert "--" not in found
    assert found.startswith("flexnode-")
    assert container_of("a.b") != container_of("a-b")
    if node == "edge-1":
        assert found == container


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://plant.blob.core.windows.net", "plant"),
        ("https://plant.blob.core.usgovcloudapi.net/", "plant"),
        ("https://10.0.0.4:10000/flexnodeblobs", "flexnodeblobs"),
        ("https://plant:8443", "plant"),
    ],
)
def test_the_account_in_an_address(url: str, name: str) -> None:
    assert account_of(url) == name


@pytest.mark.parametrize(
    ("known", "expected"),
    [("", "1700000000"), ("17", "1700000000"), ("1800000000", "1800000001"), ("x", "1700000000")],
)
def test_versions_only_grow(known: str, expected: str) -> None:
    assert next_version(known, NOW) == expected


def test_nothing_shown_is_a_secret() -> None:
    assert TOKEN not in str(shown({"config": TOKEN_JOIN, "configVersion": "17"}))
    assert shown({"tombstone": True}) == {"tombstone": True}


def test_a_bad_document_is_not_written() -> None:
    assert checked("edge-1", TOKEN_JOIN) == []
    assert checked("edge-1", {**TOKEN_JOIN, "continuousMonitoring": True}) == []
    problems = checked("edge-1", {"kubernetes": {"version": "1.34.4"}})
    assert "edge-1.azure.targetCluster.resourceId" in {problem.path for problem in problems}
