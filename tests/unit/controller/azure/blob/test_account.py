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
    Outcome,
    account,
    keep,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureUnavailable,
    StorageRefuses,
)
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
    return keep(storage, "edge-1", document, given, clock or FakeClock(), check=check, cluster_id=cluster_id)


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
