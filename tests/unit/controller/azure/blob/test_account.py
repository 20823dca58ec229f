# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bundles in storage, through the real SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.account import (
    Account,
    account,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.blob.fleet import (
    Outcome,
    keep_all,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureUnavailable,
    StorageRefuses,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import NodesFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from tests.unit.controller.fake_azure import CLUSTER
from tests.unit.controller.fake_blob import ACCOUNT, KEY, FakeBlob
from tests.unit.node.config.test_samples import TOKEN, TOKEN_JOIN
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Pki

CONTAINER = "flexnode-edge-1"
CONFIG = f"{CONTAINER}/config.json"
OTHER = {**TOKEN_JOIN, "kubernetes": {"version": "1.34.5"}}


@pytest.fixture
def blob(pki: Pki) -> Iterator[FakeBlob]:
    with FakeBlob().running(pki) as running:
        yield running


@pytest.fixture
def storage(blob: FakeBlob, pki: Pki, tmp_path: Path) -> Account:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(pki.ca_pem)
    return account(blob.url, KEY, "", ca_bundle=str(bundle))


def run(
    storage: Account,
    document: Any = TOKEN_JOIN,
    *,
    check: bool = False,
    clock: FakeClock | None = None,
    cluster_id: str = "",
    **options: Any,
) -> Outcome:
    given = {"state": "present", "token": "keep", "days": 365, **options}
    node = {"document": document, "cluster_id": cluster_id}
    (outcome,) = keep_all(storage, [("edge-1", node)], given, clock or FakeClock(), check=check)
    return outcome


def test_a_new_address_is_waited_for(blob: FakeBlob, storage: Account) -> None:
    clock, blob.inactive = FakeClock(), 3
    run(storage, clock=clock)
    assert clock.naps == [2.0, 2.0, 2.0]
    run(storage, OTHER, clock=clock)
    assert sum(request.method == "HEAD" for request in blob.server.requests) == 4, "only for a new policy"


def test_an_address_that_stays_refused_is_an_error(blob: FakeBlob, storage: Account) -> None:
    clock, blob.inactive = FakeClock(), 1000
    with pytest.raises(StorageRefuses, match="new URL is refused") as caught:
        run(storage, clock=clock)
    assert sum(clock.naps) == 60
    assert "sig=" not in str(caught.value)


def test_new_addresses_are_waited_for_together(blob: FakeBlob, storage: Account) -> None:
    """One after the other, half a minute each, those of a fleet take many minutes."""
    clock, blob.inactive = FakeClock(), 10_000
    names = [f"edge-{number}" for number in range(1, 21)]
    nodes = [(name, {"document": TOKEN_JOIN, "cluster_id": ""}) for name in names]

    def time_passes() -> None:
        assert len(blob.blobs) == len(names), "all are written before the first is waited for"
        blob.inactive = 0

    clock.then = time_passes
    options = {"state": "present", "token": "keep", "days": 365}
    outcomes = keep_all(storage, nodes, options, clock, check=False)
    assert [one.name for one in outcomes] == names
    assert len(clock.naps) <= 8, "at most once in each thread"
    tried = {urlsplit(request.path).path for request in blob.server.requests if request.method == "HEAD"}
    assert tried == {urlsplit(one.url).path for one in outcomes}


def test_addresses_of_a_fleet_that_stay_refused_cost_one_wait(blob: FakeBlob, storage: Account) -> None:
    clock, blob.inactive = FakeClock(), 10_000
    nodes = [(f"edge-{number}", {"document": TOKEN_JOIN}) for number in range(1, 31)]
    with pytest.raises(NodesFailed, match="new URL is refused"):
        keep_all(storage, nodes, {"state": "present", "token": "keep", "days": 365}, clock, check=False)
    assert sum(clock.naps) <= 60 + 8 * 2


def test_an_address_that_had_expired_is_waited_for_too(blob: FakeBlob, storage: Account) -> None:
    clock = FakeClock()
    first = run(storage, clock=clock)
    clock.time += 400 * 86400
    blob.inactive = 2
    again = run(storage, clock=clock)
    assert (again.url, clock.naps) == (first.url, [2.0, 2.0])


def test_what_someone_deletes_meanwhile_is_explained(blob: FakeBlob, storage: Account) -> None:
    run(storage)
    found, plan = storage.stored("edge-1"), run(storage, OTHER, check=True).plan
    del blob.policies[CONTAINER]
    with pytest.raises(StorageRefuses, match="ContainerNotFound") as caught:
        storage.apply("edge-1", found, plan)
    assert CONTAINER in caught.value.where
    assert "run this again" in caught.value.fix


def test_a_new_address_without_its_blob_is_explained(blob: FakeBlob, storage: Account) -> None:
    clock, blob.inactive = FakeClock(), 1
    clock.then = blob.blobs.clear
    with pytest.raises(StorageRefuses) as caught:
        run(storage, clock=clock)
    assert "run this again" in caught.value.fix
    assert "sig=" not in str(caught.value)


def test_a_blob_that_someone_else_deleted_is_deleted(blob: FakeBlob, storage: Account) -> None:
    run(storage)
    found, plan = storage.stored("edge-1"), run(storage, check=True, state="absent").plan
    blob.blobs.clear()
    assert storage.apply("edge-1", found, plan) == ""
    assert blob.policy_ids(CONTAINER) == []


@pytest.mark.parametrize("options", [{"state": "absent"}, {"state": "tombstone"}, {"token": "remove"}])
def test_what_belongs_to_a_node_of_another_cluster_stays(
    blob: FakeBlob, storage: Account, options: dict[str, Any]
) -> None:
    run(storage)
    before = dict(blob.blobs)
    with pytest.raises(StorageRefuses, match="another cluster"):
        run(storage, {}, cluster_id=f"{CLUSTER}-2", **options)
    assert blob.blobs == before


def test_a_bundle_is_written_once(blob: FakeBlob, storage: Account) -> None:
    first = run(storage)
    assert first.plan.kind == "created"
    assert json.loads(blob.blobs[CONFIG])["config"] == TOKEN_JOIN
    again = run(storage)
    assert (again.plan.kind, again.url, again.version, again.etag) == (
        "unchanged",
        first.url,
        first.version,
        first.etag,
    )
    assert blob.writes == 1


def test_the_address_is_read_only_and_bound_to_the_policy(blob: FakeBlob, storage: Account) -> None:
    address = urlsplit(run(storage).url)
    query = parse_qs(address.query)
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{blob.url}/{CONFIG}"
    assert query["si"] == blob.policy_ids(CONTAINER)
    assert (query["sr"], query["spr"]) == (["b"], ["https"])
    # What the policy says must not stand in the address, or it could not be revoked.
    assert not {"sp", "se", "st"} & set(query)
    assert "<Permission>r</Permission>" in blob.policies[CONTAINER]


def test_a_change_is_one_write(blob: FakeBlob, storage: Account) -> None:
    first, second = run(storage), run(storage, OTHER)
    assert (second.plan.kind, second.url) == ("updated", first.url)
    assert int(second.version) > int(first.version)
    assert second.etag != first.etag
    assert blob.writes == 2


def test_the_token_goes_and_the_rest_stays(blob: FakeBlob, storage: Account) -> None:
    first = run(storage)
    settled = run(storage, {}, token="remove")
    assert (settled.plan.kind, settled.version, settled.url) == ("updated", first.version, first.url)
    assert TOKEN.encode() not in blob.blobs[CONFIG]
    assert b"<minted at apply>" in blob.blobs[CONFIG]
    assert run(storage, {}, token="remove").plan.kind == "unchanged"


def test_a_tombstone_can_be_read_and_absent_can_not(blob: FakeBlob, storage: Account) -> None:
    first = run(storage)
    assert run(storage, state="tombstone").url == first.url
    assert json.loads(blob.blobs[CONFIG])["tombstone"] is True
    gone = run(storage, state="absent")
    assert (gone.plan.kind, gone.url) == ("deleted", "")
    assert (blob.blobs, blob.policy_ids(CONTAINER)) == ({}, [])
    assert run(storage, state="absent").plan.kind == "unchanged"
    assert run(storage).url != first.url, "a revoked address never works again"


def test_policies_of_others_stay(blob: FakeBlob, storage: Account) -> None:
    run(storage)
    mine = blob.policy_ids(CONTAINER)
    policy = "<AccessPolicy><Permission>rl</Permission></AccessPolicy>"
    theirs = f"<SignedIdentifier><Id>backup</Id>{policy}</SignedIdentifier>"
    blob.policies[CONTAINER] = blob.policies[CONTAINER].replace(
        "</SignedIdentifiers>", f"{theirs}</SignedIdentifiers>"
    )
    assert run(storage).plan.kind == "unchanged"
    assert blob.policy_ids(CONTAINER) == [*mine, "backup"]
    run(storage, state="absent")
    assert blob.policy_ids(CONTAINER) == ["backup"]


def test_check_mode_writes_nothing(blob: FakeBlob, storage: Account) -> None:
    planned = run(storage, check=True)
    assert (planned.plan.kind, planned.url) == ("created", "<minted at apply>")
    assert (blob.policies, blob.blobs) == ({}, {})
    first = run(storage)
    assert run(storage, check=True).url == first.url
    assert run(storage, OTHER, check=True).url == "<minted at apply>", "what it shows is yet to be made"
    assert run(storage, check=True, state="absent").plan.kind == "deleted"
    assert CONFIG in blob.blobs
    assert {request.method for request in blob.server.requests[-2:]} == {"GET"}


def test_what_someone_else_wrote_meanwhile_is_not_lost(blob: FakeBlob, storage: Account) -> None:
    run(storage)
    found = storage.stored("edge-1")
    blob.writes += 1  # someone else
    plan = run(storage, OTHER, check=True).plan
    with pytest.raises(StorageRefuses, match="ConditionNotMet"):
        storage.apply("edge-1", found, plan)


def test_what_is_not_ours_is_written_anew(blob: FakeBlob, storage: Account) -> None:
    run(storage)
    blob.blobs[CONFIG] = b"not JSON"
    assert run(storage).plan.kind == "updated"


def test_diff_and_sentence_show_no_secret(storage: Account) -> None:
    outcome = run(storage)
    assert TOKEN not in str(outcome.diff())
    assert outcome.sentence() == "create the bundle of edge-1 (there is none, the URL)"


@pytest.mark.parametrize(
    ("refusal", "error", "fix"),
    [
        ((403, "AuthenticationFailed"), StorageRefuses, "keys list"),
        ((409, "ContainerBeingDeleted"), StorageRefuses, "run this again"),
        ((400, "InvalidHeaderValue"), StorageRefuses, ""),
    ],
)
def test_refusals(
    blob: FakeBlob, storage: Account, refusal: tuple[int, str], error: type[Exception], fix: str
) -> None:
    blob.refuse = refusal
    with pytest.raises(error, match=refusal[1]) as caught:
        run(storage)
    assert fix in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_that_is_none(blob: FakeBlob) -> None:
    with pytest.raises((StorageRefuses, AzureUnavailable)) as caught:
        run(Account(blob.url, Secret("n0t-base64")))
    assert "n0t-base64" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "key", "connection", "expected"),
    [
        ("https://plant.example", KEY, "", "https://plant.example"),
        (
            "",
            "",
            f"AccountName=plant;AccountKey={KEY};EndpointSuffix=core.windows.net",
            "https://plant.blob.core.windows.net",
        ),
        (
            "",
            "",
            f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint=https://10.0.0.4:10000/{ACCOUNT};",
            f"https://10.0.0.4:10000/{ACCOUNT}",
        ),
        ("https://plant.example", KEY, "AccountName=other;AccountKey=b3RoZXI=", "https://plant.example"),
    ],
)
def test_which_account_is_meant(url: str, key: str, connection: str, expected: str) -> None:
    assert account(url, key, connection).url == expected


@pytest.mark.parametrize(
    ("url", "key"), [("", ""), ("https://plant.example", ""), ("http://plant.example", KEY)]
)
def test_no_account(url: str, key: str) -> None:
    with pytest.raises(StorageRefuses):
        account(url, key, "")
