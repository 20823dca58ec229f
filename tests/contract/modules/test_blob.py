# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_config_blob against Azurite: what a node sees at its address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests

from testbed import Testbed
from testbed.playbooks import join_document
from tests.contract.modules.conftest import Person


@pytest.fixture
def document(bed: Testbed) -> dict[str, Any]:
    return join_document(bed, cni={"podCIDR": "10.244.77.0/24"})


@pytest.fixture
def storage(bed: Testbed, person: Callable[..., Person]) -> Callable[..., dict[str, Any]]:
    someone = person()
    account: dict[str, Any] = {"account_url": bed.blob.account_url, "account_key": bed.blob.account_key}
    request: dict[str, Any] = {"nodes": [{"name": "edge-77"}], "state": "absent"}
    someone.do("flexnode_config_blob", **account, **request)

    def keep(document: Any = None, *, check: bool = False, **options: Any) -> dict[str, Any]:
        nodes = [{"name": "edge-77", **({"document": document} if document else {})}]
        answer = someone.do("flexnode_config_blob", check=check, **account, nodes=nodes, **options)
        assert bed.blob.account_key not in str(answer)
        (node,) = answer["nodes"]
        return {**node, "changed": answer["changed"]}

    return keep


@pytest.fixture
def get(bed: Testbed, person: Callable[..., Person]) -> Callable[..., requests.Response]:
    ca = person().environment["REQUESTS_CA_BUNDLE"]
    return lambda url, **headers: requests.get(
        url, headers={name.replace("_", "-"): value for name, value in headers.items()}, verify=ca, timeout=30
    )


Keep = Callable[..., dict[str, Any]]
Get = Callable[..., requests.Response]


def test_a_change_is_one_200_and_then_304(storage: Keep, get: Get, document: dict[str, Any]) -> None:
    created = storage(document)
    first = get(created["url"])
    assert (first.status_code, first.json()["config"]) == (200, document)
    assert first.json()["configVersion"] == created["config_version"]
    assert get(created["url"], If_None_Match=first.headers["ETag"]).status_code == 304
    assert not storage(document)["changed"]
    assert get(created["url"], If_None_Match=first.headers["ETag"]).status_code == 304
    changed = storage({**document, "node": {**document["node"], "labels": {"site": "plant"}}})
    assert changed["url"] == created["url"]
    second = get(created["url"], If_None_Match=first.headers["ETag"])
    assert (second.status_code, second.json()["configVersion"]) == (200, changed["config_version"])
    assert get(created["url"], If_None_Match=second.headers["ETag"]).status_code == 304


def test_the_address_reads_and_nothing_else(storage: Keep, get: Get, document: dict[str, Any]) -> None:
    url = storage(document)["url"]
    bare, _question, signature = url.partition("?")
    assert get(bare).status_code in (403, 404), "without a signature"
    assert get(bare.replace("config.json", "other.json") + "?" + signature).status_code == 403
    container = bare.rpartition("/")[0]
    assert get(f"{container}?restype=container&comp=list&{signature}").status_code == 403


def test_revoked_is_refused_and_never_comes_back(storage: Keep, get: Get, document: dict[str, Any]) -> None:
    old = storage(document)["url"]
    assert storage(state="absent")["action"] == "deleted"
    assert get(old).status_code in (403, 404)
    new = storage(document)["url"]
    assert get(new).status_code == 200
    assert get(old).status_code == 403


def test_a_tombstone_is_read_at_the_same_address(storage: Keep, get: Get, document: dict[str, Any]) -> None:
    url = storage(document)["url"]
    assert storage(state="tombstone")["action"] == "tombstoned"
    assert get(url).json()["tombstone"] is True
    assert not storage(state="tombstone")["changed"]
    assert storage(document)["action"] == "updated"
    assert "tombstone" not in get(url).json()


def test_the_token_goes_after_the_join(storage: Keep, get: Get, document: dict[str, Any]) -> None:
    created = storage(document)
    settled = storage(token="remove")
    assert settled["config_version"] == created["config_version"]
    text = get(created["url"]).text
    assert document["azure"]["bootstrapToken"]["token"] not in text
    assert get(created["url"]).json()["config"]["node"] == document["node"]
    assert not storage(token="remove")["changed"]


def test_check_mode_writes_nothing(storage: Keep, get: Get, document: dict[str, Any]) -> None:
    assert storage(document, check=True)["url"] == "<minted at apply>"
    url = storage(document)["url"]
    planned = storage(state="absent", check=True)
    assert (planned["action"], get(url).status_code) == ("deleted", 200)


def test_a_wrong_key_is_told(bed: Testbed, person: Callable[..., Person], document: dict[str, Any]) -> None:
    answer = person().run(
        "flexnode_config_blob",
        account_url=bed.blob.account_url,
        account_key="d3Jvbmc=",
        nodes=[{"name": "edge-77", "document": document}],
    )
    assert answer["error"]["code"] == "FLEX-1708"
    assert "keys list" in answer["msg"]


@pytest.mark.exhaustive  # Ansible itself; test_cluster.py keeps one of these in make test
def test_a_connection_string_and_no_secret_at_the_highest_verbosity(
    bed: Testbed, person: Callable[..., Person], document: dict[str, Any]
) -> None:
    someone = person()
    given: dict[str, Any] = {
        "connection_string": bed.blob.connection_string,
        "nodes": [{"name": "edge-78", "document": document}],
    }
    shown = someone.ansible("flexnode_config_blob", given, "-vvvv", "--diff")
    assert '"changed": true' in shown
    assert "sig=" not in shown, "the result holds the URL, so that no output shows it"
    secrets = (bed.blob.account_key, document["azure"]["bootstrapToken"]["token"])
    assert [secret for secret in secrets if secret in shown] == []
    someone.do("flexnode_config_blob", **{**given, "state": "absent"})
