# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles in Azure Blob Storage: per node one container, one blob, one policy, one read-only URL."""

from __future__ import annotations

import contextlib
import datetime
import json
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from ....node.machine.clock import Clock
from ....node.net.answer import shown as shown_url
from ....node.secret import Secret
from ..errors import AzureUnavailable, StorageRefuses
from ..transport import transport_options
from .bundle import BLOB, PREFIX, Plan, Policy, Stored, account_of, container_of

BLOB_ERROR = ""
try:
    from azure.core import MatchConditions
    from azure.core.credentials import AzureNamedKeyCredential
    from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
    from azure.storage.blob import (
        AccessPolicy,
        BlobClient,
        BlobServiceClient,
        ContentSettings,
        ExponentialRetry,
        generate_blob_sas,
    )
except ImportError:
    BLOB_ERROR = traceback.format_exc()

Json = dict[str, Any]
# A new policy may take Azure half a minute; until then its URL is refused.
ACTIVE_SECONDS, ACTIVE_PAUSE = 60.0, 2.0


class Account:
    """A storage account and its key, which signs the URLs."""

    def __init__(self, url: str, key: Secret, *, ca_bundle: str = "") -> None:
        self.url, self.name, self._key = url.rstrip("/"), account_of(url), key
        if not self.url.startswith("https://"):
            raise StorageRefuses(
                "the storage account's URL must be https",
                where=self.url,
                fix="set account_url to an https:// URL",
            )
        options = {k: v for k, v in transport_options(ca_bundle).items() if not k.startswith("retry_")}
        self._options = options
        try:
            credential = AzureNamedKeyCredential(self.name, key.reveal())
            self._client: Any = BlobServiceClient(
                self.url,
                credential=credential,
                retry_policy=ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=5),
                **options,
            )
        except ValueError as error:
            raise StorageRefuses("the account can't be used", where=self.url, why=str(error)) from error

    def stored(self, node: str) -> Stored:
        """What is stored for a node."""
        container = container_of(node)
        with self._explaining(container):
            try:
                access = self._client.get_container_client(container).get_container_access_policy()
            except ResourceNotFoundError:
                return Stored()
        bundle, etag = self._bundle(container)
        ours = [
            Policy(entry.id, _seconds(entry.access_policy.expiry), str(entry.access_policy.permission or ""))
            for entry in access["signed_identifiers"]
            if str(entry.id).startswith(PREFIX) and entry.access_policy
        ]
        return Stored(
            container=True,
            public=bool(access.get("public_access")),
            bundle=bundle,
            etag=etag,
            policy=ours[0] if ours else None,
            others=tuple(
                entry for entry in access["signed_identifiers"] if not str(entry.id).startswith(PREFIX)
            ),
        )

    def apply(self, node: str, stored: Stored, plan: Plan) -> str:
        """Write what a plan says; returns the blob's new ETag, or the one it has."""
        container = container_of(node)
        client = self._client.get_container_client(container)
        with self._explaining(container):
            if not stored.container and not plan.delete:
                client.create_container()
            if plan.set_policies:
                # First the access, then the content: content is never readable for longer than intended.
                client.set_container_access_policy(_policies(stored, plan.policy))
            if plan.delete:
                with contextlib.suppress(ResourceNotFoundError):  # deleted meanwhile
                    client.delete_blob(BLOB)
                return ""
            if plan.content is None:
                return stored.etag
            return self._write(client, stored, plan.content)

    def read_url(self, node: str, policy: Policy) -> str:
        """The read-only URL of a node's bundle. It stays the same: the policy holds the expiry."""
        container = container_of(node)
        signature = generate_blob_sas(
            self.name,
            container,
            BLOB,
            account_key=self._key.reveal(),
            policy_id=policy.name,
            protocol="https",
        )
        return f"{self.url}/{container}/{BLOB}?{signature}"

    def await_access(self, node: str, url: str, clock: Clock, until: float) -> None:
        """Wait until a new URL is accepted; it is tried at least once, however late it is."""
        container = container_of(node)
        with self._explaining(container), BlobClient.from_blob_url(url, **self._options) as client:
            while not _accepted(client):
                if clock.monotonic() >= until:
                    raise StorageRefuses(
                        "the new URL is refused",
                        where=f"{shown_url(self.url)}/{container}",
                        why=f"HTTP 403, still after {ACTIVE_SECONDS:.0f} s",
                        fix="check that the account allows shared access signatures, and its firewall; "
                        "then run this again",
                    )
                clock.sleep(ACTIVE_PAUSE)

    def _bundle(self, container: str) -> tuple[Json | None, str]:
        with self._explaining(container):
            try:
                blob = self._client.get_blob_client(container, BLOB).download_blob()
                text = blob.readall()
            except ResourceNotFoundError:
                return None, ""
        try:
            found = json.loads(text)
        except ValueError:
            found = {}  # not a bundle: it is replaced
        return found if isinstance(found, dict) else {}, str(blob.properties.etag)

    def _write(self, client: Any, stored: Stored, content: Mapping[str, Any]) -> str:
        """Replace only the version that was read: two runs at the same time must not undo each other."""
        condition = (
            {"etag": stored.etag, "match_condition": MatchConditions.IfNotModified}
            if stored.etag
            else {"match_condition": MatchConditions.IfMissing}
        )
        answer = client.get_blob_client(BLOB).upload_blob(
            json.dumps(content, sort_keys=True, indent=1).encode(),
            overwrite=True,
            content_settings=ContentSettings(content_type="application/json", cache_control="no-cache"),
            **condition,
        )
        return str(answer["etag"])

    @contextlib.contextmanager
    def _explaining(self, container: str) -> Iterator[None]:
        """Turn the SDK's errors into ours."""
        where = f"{shown_url(self.url)}/{container}"
        try:
            yield
        except HttpResponseError as error:
            found = getattr(error, "error_code", None)  # an enumeration, where the SDK knows the code
            code = str(getattr(found, "value", found) or error.reason or "")
            if error.status_code is not None and error.status_code >= 500:
                raise AzureUnavailable("the storage account fails", where=where, why=code) from error
            gone = isinstance(error, ResourceNotFoundError)
            what = "the bundle was deleted meanwhile" if gone else "the storage account refuses this"
            fix = advice(error.status_code, code)
            raise StorageRefuses(what, where=where, why=code, fix=fix) from error
        except AzureError as error:
            why = str(error).splitlines()[0][:300]
            raise AzureUnavailable("the storage account can't be reached", where=where, why=why) from error
        except ValueError as error:  # a key that is not base64
            raise StorageRefuses("the account key can't be used", where=where, why=str(error)) from error


def account(url: str, key: str, connection_string: str, *, ca_bundle: str = "") -> Account:
    """The account of the options: URL and key, or a connection string with both."""
    if connection_string and not (url and key):
        parts = dict(pair.split("=", 1) for pair in connection_string.rstrip(";").split(";") if "=" in pair)
        key = key or parts.get("AccountKey", "")
        name, suffix = parts.get("AccountName", ""), parts.get("EndpointSuffix", "core.windows.net")
        url = url or parts.get("BlobEndpoint") or (f"https://{name}.blob.{suffix}" if name else "")
    if not url or not key:
        raise StorageRefuses(
            "no storage account is set",
            fix="set account_url and account_key (AZURE_STORAGE_KEY), or connection_string "
            "(AZURE_STORAGE_CONNECTION_STRING): az storage account show-connection-string --name NAME",
        )
    return Account(url, Secret(key), ca_bundle=ca_bundle)


def advice(status: int | None, code: str) -> str:
    """What to do about a refusal."""
    if status == 403 or code in ("AuthenticationFailed", "InvalidAuthenticationInfo"):
        return (
            "check account_key (az storage account keys list --account-name NAME), that the account allows "
            "shared keys, its firewall, and this machine's clock"
        )
    if status == 404:
        return "run this again: what is missing is created anew"
    if status in (409, 412):
        return "another process changes it at the same time: run this again in a minute"
    return ""


def _accepted(client: Any) -> bool:
    """Whether a URL is accepted."""
    try:
        client.get_blob_properties()
    except HttpResponseError as error:
        if error.status_code == 403:
            return False
        raise
    return True


def _policies(stored: Stored, policy: Policy | None) -> dict[str, Any]:
    """Our policy, and those of others."""
    kept = {str(entry.id): entry.access_policy for entry in stored.others}
    if policy is None:
        return kept
    expiry = datetime.datetime.fromtimestamp(policy.expires, datetime.timezone.utc)
    return {**kept, policy.name: AccessPolicy(permission=policy.permission, expiry=expiry)}


def _seconds(expiry: Any) -> float:
    """An expiry as the SDK returns it: text with up to seven digits of a second, or a time."""
    if isinstance(expiry, datetime.datetime):
        return expiry.timestamp()
    try:
        text = str(expiry).partition(".")[0].rstrip("Z")
        return datetime.datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError:
        return 0.0
