# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles in blob storage: one container per node, and URLs that a stored access policy can revoke."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import re
import secrets
from pathlib import Path

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import (
    AccessPolicy,
    BlobServiceClient,
    ContainerClient,
    LinearRetry,
    generate_blob_sas,
)

from testbed.azure.serving.place import BlobAccount

BLOB = "config.json"
SECONDS = 15


def container_name(node: str) -> str:
    """A container's name has no dots and at most 63 characters: a digest keeps nodes apart."""
    plain = re.sub(r"[^a-z0-9]+", "-", node.lower()).strip("-")[:40].strip("-")
    return f"{plain}-{hashlib.sha256(node.lower().encode()).hexdigest()[:12]}"


class Blobs:
    """The provider's storage account."""

    def __init__(self, account: BlobAccount, ca_file: Path) -> None:
        self._account = account
        self._client = BlobServiceClient(
            account.url,
            AzureNamedKeyCredential(account.name, account.key),
            connection_verify=str(ca_file),
            connection_timeout=SECONDS,
            read_timeout=SECONDS,
            retry_policy=LinearRetry(backoff=1, retry_total=2),
        )

    def publish(self, node: str, data: bytes, expires: datetime.datetime) -> str:
        """Write a bundle; the URL that reads it. Earlier URLs of the node are no good from then on."""
        container = self._container(node)
        with contextlib.suppress(ResourceExistsError):
            container.create_container()
        container.upload_blob(BLOB, data, overwrite=True)
        policy = secrets.token_hex(8)
        container.set_container_access_policy({policy: AccessPolicy(permission="r", expiry=expires)})
        signature = generate_blob_sas(
            self._account.name,
            container.container_name,
            BLOB,
            account_key=self._account.key,
            policy_id=policy,
        )
        return f"{self._account.url}/{container.container_name}/{BLOB}?{signature}"

    def revoke(self, node: str) -> None:
        """Take the URL back, then the bundle away."""
        container = self._container(node)
        try:
            container.set_container_access_policy({})
            container.delete_blob(BLOB)
        except ResourceNotFoundError:
            return

    def _container(self, node: str) -> ContainerClient:
        return self._client.get_container_client(container_name(node))
