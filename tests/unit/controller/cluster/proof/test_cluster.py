# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server and the library say, in our words."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.cluster import (
    connector,
    message_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ProofImpossible

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


@pytest.mark.parametrize("content", [None, "{}", "current-context: nowhere\n"])
def test_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ProofImpossible, match=r"FLEX-1606: the kubeconfig can't be used") as raised:
        connector(str(path), "")
    assert raised.value.where == str(path)
