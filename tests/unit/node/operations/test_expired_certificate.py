# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A machine that was off until its kubelet's certificate expired: what is said of it, and what helps."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Phase
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NodeNotReady
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import checks
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.operations.test_reconcile import NEW_TOKEN
from tests.unit.node.servers import Pki
from tests.unit.node.sites import IDENTITY, KUBELET, Site


def expires(site: Site, pki: Pki) -> None:
    """Eleven years off. A kubelet that starts requests a certificate if it has none, or one that expired."""
    site.machine.clock.time += 11 * 365 * 86400
    site.api.refuse = {"GET /api/v1/nodes/": 401}

    def starts() -> None:
        assert not site.machine.path(IDENTITY).exists(), "it would go on with the old token"
        site.machine.put(IDENTITY, pki.client.read_bytes(), 0o600)
        site.api.refuse = {}

    site.machine.commands.on_start[KUBELET] = starts


@pytest.mark.parametrize("phase", ["NodeJoined", "NodeFailed"])
def test_an_expired_certificate_is_replaced_by_a_join_with_a_new_token(
    site: Site, pki: Pki, phase: str
) -> None:
    site.join()
    site.machine.store.enter(Phase(phase))
    expires(site, pki)
    assert any("request a new certificate" in action for action in site.join(NEW_TOKEN).actions)
    assert site.machine.store.join() == {"token": "abcdef", "outcome": "joined"}


def test_an_expired_certificate_is_replaced_by_a_join_with_an_azure_identity(
    site: Site, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "kubernetes_token", lambda *_: "an Entra token")
    site.document["azure"] |= {"managedIdentity": {}, "tenantId": "00000000-0000-0000-0000-000000000001"}
    del site.document["azure"]["bootstrapToken"]
    site.join()
    expires(site, pki)
    assert any("request a new certificate" in action for action in site.join().actions)


def test_an_expired_certificate_is_the_reason_of_the_status(site: Site, pki: Pki) -> None:
    site.join()
    expires(site, pki)
    asked = len(site.api.server.requests)
    status = status_of(site.machine.host)
    assert (status["reason"], status["node"]["ready"]) == (NodeNotReady.code, False)
    assert "certificate expired at 20" in status["message"]
    assert "new token" in status["fix"]
    assert "aks.flexnode.bootstrap" in status["fix"]
    assert len(site.api.server.requests) == asked + 1, "the drift check asks for its labels"
    (item,) = [one for one in status["drift"] if one["item"] == f"certificate:{IDENTITY}"]
    assert "new token" in item["what"]
