# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles, assignments and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.azure.authorization.grants import Grants
from testbed.azure.authorization.roles import covers, filtered, role
from testbed.azure.behaviour.settings import Settings
from testbed.azure.database import Database
from testbed.azure.sign_in.directory import Directory, Principal
from testbed.azure.sign_in.tokens import Authority, BadToken, ensure_key
from testbed.layout.identifiers import AKS_SERVER, CLUSTER_ID, SUBSCRIPTION_ID, TENANT_ID

CLUSTERS = "Microsoft.ContainerService/managedClusters"
SUBSCRIPTION = f"/subscriptions/{SUBSCRIPTION_ID}"
AUDIENCE = "https://management.azure.com"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "azure.sqlite")


@pytest.mark.parametrize(
    ("name", "action", "expected"),
    [
        ("Owner", "Microsoft.Authorization/roleAssignments/write", True),
        ("Contributor", "Microsoft.Authorization/roleAssignments/write", False),
        ("Contributor", "microsoft.containerservice/MANAGEDCLUSTERS/flexNodeConfig/write", True),
        ("Reader", f"{CLUSTERS}/read", True),
        ("Reader", f"{CLUSTERS}/flexNodeConfig/read", True),
        ("Reader", f"{CLUSTERS}/listClusterAdminCredential/action", False),
        (
            "Azure Kubernetes Service Cluster Admin Role",
            f"{CLUSTERS}/listClusterAdminCredential/action",
            True,
        ),
        (
            "Azure Kubernetes Service Cluster User Role",
            f"{CLUSTERS}/listClusterAdminCredential/action",
            False,
        ),
        ("Azure Kubernetes Service RBAC Cluster Admin", f"{CLUSTERS}/read", False),
    ],
)
def test_what_roles_allow(name: str, action: str, expected: bool) -> None:
    found = role(name)
    assert found is not None
    assert found.allows(action) is expected


def test_roles_are_found_by_name_and_id() -> None:
    reader = role("reader")
    assert reader is not None
    assert role(f"{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{reader.id}") is reader
    assert role("Chief") is None


@pytest.mark.parametrize(
    ("scope", "target", "expected"),
    [
        ("/", CLUSTER_ID, True),
        (SUBSCRIPTION.upper(), CLUSTER_ID, True),
        (f"{SUBSCRIPTION}/resourceGroups/test", CLUSTER_ID, False),
        (f"{SUBSCRIPTION}/resourceGroups/testbed", CLUSTER_ID, True),
        (f"{CLUSTER_ID}/flexNodeConfig/a", CLUSTER_ID, False),
        (CLUSTER_ID, CLUSTER_ID, True),
    ],
)
def test_scopes(scope: str, target: str, expected: bool) -> None:
    assert covers(scope, target) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("", "")),
        ("atScope()", ("atscope", "")),
        ("assignedTo('x')", ("assignedto", "x")),
        ("principalId eq 'x'", ("principalid", "x")),
        ("roleName eq 'Two Words'", ("rolename", "Two Words")),
    ],
)
def test_filters(text: str, expected: tuple[str, str]) -> None:
    assert filtered(text) == expected


def test_a_filter_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="not supported"):
        filtered("a gt 3")


def test_a_grant_counts_where_it_is_and_after_its_delay(database: Database) -> None:
    grants = Grants(database)
    reader = role("Reader")
    assert reader is not None
    made = grants.add(f"{SUBSCRIPTION}/resourceGroups/testbed", reader.id, "me")
    assert grants.allows("me", f"{CLUSTERS}/read", CLUSTER_ID)
    assert not grants.allows("me", f"{CLUSTERS}/read", SUBSCRIPTION)
    assert not grants.allows("you", f"{CLUSTERS}/read", CLUSTER_ID)
    grants.remove(made.name)
    assert not grants.allows("me", f"{CLUSTERS}/read", CLUSTER_ID)
    database.set_settings({"rbac_delay": 60})
    later = grants.add(CLUSTER_ID, reader.id, "me")
    assert not grants.allows("me", f"{CLUSTERS}/read", CLUSTER_ID)
    assert grants.same(CLUSTER_ID.upper(), reader.id, "me") == later
    database.set_settings({"rbac_delay": 0})
    assert grants.allows("me", f"{CLUSTERS}/read", CLUSTER_ID)


def test_settings_are_kept_and_checked(database: Database, tmp_path: Path) -> None:
    database.set_settings({"token_seconds": 30, "rbac_delay": 1, "disable_local_accounts": True})
    again = Database(tmp_path / "azure.sqlite").settings
    assert (again.token_seconds, again.rbac_delay, again.disable_local_accounts) == (30, 1, True)
    for wrong in ({"x": 1}, {"token_seconds": "30"}, {"disable_local_accounts": 1}, {"token_seconds": True}):
        with pytest.raises(ValueError, match="setting"):
            Settings.parse(wrong)


def test_a_registration_is_made_once(database: Database) -> None:
    directory = Directory(database)
    first = directory.register("me")
    assert directory.register("me") == first
    assert directory.application(first.client_id.upper()) == first
    assert directory.principal(first.object_id) == first
    assert first.secret not in repr(first)
    assert directory.remove("me")
    assert directory.application(first.client_id) is None


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    path = tmp_path_factory.mktemp("keys") / "entra.key"
    made = Authority(ensure_key(path), "https://azure", TENANT_ID)
    assert made.keys() == Authority(ensure_key(path), "https://azure", TENANT_ID).keys()
    return made


@pytest.mark.parametrize("version", [1, 2])
def test_a_token_speaks_for_its_principal(authority: Authority, version: int) -> None:
    who = Principal("me", "object", "client", "")
    caller = authority.read(authority.issue(who, f"{AUDIENCE}/", 60, version), (AUDIENCE,))
    assert (caller.object_id, caller.client_id) == ("object", "client")


@pytest.mark.parametrize("fault", ["expired", "audience", "tenant", "signature"])
def test_a_bad_token_is_told_by_its_fault(authority: Authority, fault: str) -> None:
    token = authority.issue(Principal("me", "object", "client", ""), AUDIENCE, 60, 1, fault)
    with pytest.raises(BadToken) as caught:
        authority.read(token, (AUDIENCE,))
    assert caught.value.reason == fault


def test_what_is_no_token_at_all(authority: Authority) -> None:
    for token in ("", "a.b.c", AKS_SERVER):
        with pytest.raises(BadToken):
            authority.read(token, (AUDIENCE,))
