# SPDX-License-Identifier: GPL-3.0-or-later
"""Blob storage by the real SDK: what the collection's own bundles rely on."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import AccessPolicy, BlobClient, BlobServiceClient, ContainerClient, generate_blob_sas

from testbed import Testbed
from testbed.basics.clock import wait_for
from testbed.services.blob import BlobRequest

POLICY = "node"
BLOB = "config.json"


@pytest.fixture
def container(bed: Testbed) -> Iterator[ContainerClient]:
    service = BlobServiceClient.from_connection_string(
        bed.blob.connection_string, connection_verify=str(bed.ca_file)
    )
    made = service.create_container(f"contract-{uuid.uuid4()}")
    yield made
    made.delete_container()


@pytest.fixture
def url(bed: Testbed, container: ContainerClient) -> str:
    """A URL that reads one blob by a stored access policy."""
    container.upload_blob(BLOB, b"one")
    expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    container.set_container_access_policy({POLICY: AccessPolicy(permission="r", expiry=expires)})
    signature = generate_blob_sas(
        bed.blob.account_name,
        container.container_name,
        BLOB,
        account_key=bed.blob.account_key,
        policy_id=POLICY,
    )
    return f"{bed.blob.account_url}/{container.container_name}/{BLOB}?{signature}"


def reader(bed: Testbed, url: str) -> BlobClient:
    return BlobClient.from_blob_url(url, connection_verify=str(bed.ca_file), retry_total=0)


def test_a_url_reads_and_nothing_else(bed: Testbed, url: str) -> None:
    client = reader(bed, url)
    assert client.download_blob().readall() == b"one"
    with pytest.raises(HttpResponseError) as caught:
        client.upload_blob(b"two", overwrite=True)
    assert caught.value.status_code == 403


def test_an_unchanged_blob_is_not_sent_again(bed: Testbed, container: ContainerClient, url: str) -> None:
    client = reader(bed, url)
    etag = client.get_blob_properties().etag
    with pytest.raises(HttpResponseError) as caught:
        client.download_blob(etag=etag, match_condition=MatchConditions.IfModified)
    assert caught.value.status_code == 304
    container.upload_blob(BLOB, b"two", overwrite=True)
    assert client.download_blob(etag=etag, match_condition=MatchConditions.IfModified).readall() == b"two"

    def mine() -> list[BlobRequest]:
        seen = bed.blob.requests()
        return [one for one in seen if container.container_name in one.path and one.method == "GET"]

    wait_for("its log", lambda: {one.status for one in mine()} == {304, 206}, 10)  # later than the answer
    assert all("sig=..." in one.query for one in mine())


def test_without_its_policy_a_url_is_refused(bed: Testbed, container: ContainerClient, url: str) -> None:
    container.set_container_access_policy({})
    with pytest.raises(HttpResponseError) as caught:
        reader(bed, url).download_blob()
    assert caught.value.status_code == 403
