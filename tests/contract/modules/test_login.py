# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every way to sign in that the emulated Entra knows: secret, certificate, assertion, credential file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.modules.conftest import Person
from tests.contract.test_assertions import Signer

MODULE = "flexnode_access_token"


@dataclass(frozen=True)
class Visitor(Person):
    """A person with other variables than the usual ones."""

    changes: Mapping[str, str | None]

    @property
    def environment(self) -> dict[str, str]:
        """The usual variables, changed; None removes one."""
        whole = {**super().environment, **self.changes}
        return {name: value for name, value in whole.items() if value is not None}


@pytest.fixture
def visitor(person: Callable[..., Person]) -> Callable[..., Visitor]:
    someone = person("Reader")
    return lambda **changes: Visitor(someone.bed, someone.principal, someone.directory, changes)


@pytest.fixture
def signer() -> Signer:
    return Signer.made()


def identity(visitor: Visitor, **options: Any) -> str:
    """Who is signed in; the token is not looked at further."""
    return str(visitor.do(MODULE, **options)["object_id"])


def test_a_certificate(visitor: Callable[..., Visitor], signer: Signer, tmp_path: Path) -> None:
    file = tmp_path / "both.pem"
    file.write_bytes(signer.both)
    by_variable = visitor(AZURE_SECRET=None, AZURE_X509_CERTIFICATE_PATH=str(file))
    refused = by_variable.run(MODULE)
    assert refused["error"]["code"] == "FLEX-1701", "nobody has registered it"
    by_variable.bed.azure.app_registration(by_variable.principal.name, certificate=signer.pem)
    assert identity(by_variable) == by_variable.principal.object_id
    by_option = visitor(AZURE_SECRET="not-the-secret")
    assert identity(by_option, x509_certificate_path=str(file)) == by_variable.principal.object_id


def test_a_federated_token(visitor: Callable[..., Visitor], signer: Signer, tmp_path: Path) -> None:
    """The emulated Entra accepts assertions of registered certificates; for azure-identity it is the same."""
    file = tmp_path / "token"
    someone = visitor(AZURE_SECRET=None, AZURE_FEDERATED_TOKEN_FILE=str(file))
    someone.bed.azure.app_registration(someone.principal.name, certificate=signer.pem)
    file.write_text(signer.assertion(someone.bed.azure, someone.principal.client_id))
    assert identity(someone) == someone.principal.object_id
    ids = {"AZURE_TENANT": None, "AZURE_TENANT_ID": someone.bed.azure.tenant_id}
    by_identity = visitor(AZURE_SECRET=None, AZURE_FEDERATED_TOKEN_FILE=str(file), **ids)
    assert identity(by_identity) == someone.principal.object_id


@pytest.mark.parametrize("profile", ["default", "site"])
def test_the_credential_file(visitor: Callable[..., Visitor], profile: str) -> None:
    someone = visitor(AZURE_SECRET=None, AZURE_CLIENT_ID=None, AZURE_TENANT=None)
    lines = {
        "tenant": someone.bed.azure.tenant_id,
        "client_id": someone.principal.client_id,
        "secret": someone.principal.secret,
    }
    file = someone.directory / ".azure" / "credentials"
    file.parent.mkdir()
    file.write_text(f"[{profile}]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items()))
    file.chmod(0o600)
    expected = someone.principal.object_id
    options = {} if profile == "default" else {"profile": profile}
    assert identity(someone, **options) == expected
    assert identity(someone, auth_source="credential_file", **options) == expected
    assert identity(visitor(AZURE_PROFILE=profile), auth_source="env") == expected


def test_what_is_missing_is_named(visitor: Callable[..., Visitor]) -> None:
    answer = visitor(AZURE_SECRET=None).run(MODULE, auth_source="env")
    assert answer["error"]["code"] == "FLEX-1701"
    assert "AZURE_SECRET" in answer["msg"]
    assert "AZURE_X509_CERTIFICATE_PATH" in answer["msg"]
