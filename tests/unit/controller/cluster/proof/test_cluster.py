# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server and the library say, in our words."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import signed_in
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import (
    CredentialsRefused,
    message_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import access_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.cluster import connector
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.errors import (
    ProofImpossible,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import Forbidden
from tests.unit.controller.fake_cluster import FakeCluster
from tests.unit.node.servers import Pki

STATUS = json.dumps(
    {"kind": "Status", "message": "error dialing backend: dial tcp 10.1.2.3:10250"}, separators=(",", ":")
)


@pytest.mark.parametrize(
    ("body", "reason", "expected"),
    [
        (STATUS, "Internal Server Error", "error dialing backend: dial tcp 10.1.2.3:10250"),
        (STATUS.encode(), "Internal Server Error", "error dialing backend: dial tcp 10.1.2.3:10250"),
        # a refused websocket: headers as a Python dictionary, then the answer, in one text
        (
            None,
            f"Handshake status 500 -+-+- {{'audit-id': '1'}} -+-+- b'{STATUS}'",
            "error dialing backend: dial tcp 10.1.2.3:10250",
        ),
        (None, "Connection to remote host was lost", "Connection to remote host was lost"),
    ],
)
def test_the_api_servers_own_words_are_found(body: str | bytes | None, reason: str, expected: str) -> None:
    assert message_of(SimpleNamespace(body=body, reason=reason)) == expected


@pytest.mark.parametrize(
    ("status", "error"), [(401, CredentialsRefused), (403, Forbidden), (422, ProofImpossible)]
)
def test_what_the_api_server_refuses(pki: Pki, status: int, error: type[Exception]) -> None:
    with FakeCluster(refuse={"POST /api/v1/namespaces": status}).running(pki) as cluster:
        with signed_in(access_of(cluster.kubeconfig(pki), "")) as session, pytest.raises(error) as raised:
            connector(session)().create_namespace({"metadata": {"name": "x"}})
        assert f"refused by the test ({status})" in str(raised.value)
        assert cluster.asked("POST") == 1
