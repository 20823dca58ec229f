# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Role assignments that a machine removes by itself, while Azure forgets what they were at."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.net.answer import HttpFailure
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.assignments import (
    Assignment,
    Assignments,
    name_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from tests.contract.recorded import Recorded, aks, arm
from tests.unit.node.config.test_samples import CLUSTER
from tests.unit.node.servers import Answer, Pki, serving

WHO, ROLE = "11111111-aaaa-bbbb-cccc-222222222222", "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"
NAME = name_of(CLUSTER, WHO, ROLE)
ASSIGNMENTS = "/providers/Microsoft.Authorization/roleAssignments/"
GRANTED = Assignment(f"{CLUSTER}{ASSIGNMENTS}{NAME}", CLUSTER, ROLE)
GROUP = CLUSTER.split("/")[4]
GONE = [arm.ASSIGNMENT_OF_GONE_GROUP, arm.ASSIGNMENT_OF_GONE_RESOURCE, aks.CLUSTER_MISSING_AT_GATEWAY]


@pytest.mark.parametrize("answer", [arm.ASSIGNMENT_GONE, *GONE])
def test_what_is_gone_with_its_scope_needs_no_removal(pki: Pki, answer: Recorded) -> None:
    found = answer.at(group=GROUP)
    scope = CLUSTER if ASSIGNMENTS not in found.path else found.path.partition(ASSIGNMENTS)[0]
    granted = Assignment(f"{scope}{ASSIGNMENTS}{NAME}", scope, ROLE)
    with serving(lambda _request: found.sent(Answer), pki.server_context()) as server:
        azure = Assignments(server.url, HttpClient(ca_pem=pki.ca_pem, attempts=1), Secret("token"))
        azure.delete(granted)
        if answer.status == 404:
            assert azure.created_for(WHO, scope) == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html>", 404),
        aks.POLICY.at().sent(Answer),
        arm.ASSIGNMENT_OF_GONE_RESOURCE.at(group=GROUP).sent(Answer),  # a network, not this cluster
        arm.ASSIGNMENT_OF_GONE_GROUP.at(group="another").sent(Answer),
    ],
)
def test_what_azure_does_not_say_is_not_gone(pki: Pki, answer: Answer) -> None:
    """A proxy that answers 404 for everything removes no role assignment."""
    with serving(lambda _request: answer, pki.server_context()) as server:
        azure = Assignments(server.url, HttpClient(ca_pem=pki.ca_pem, attempts=1), Secret("token"))
        with pytest.raises(HttpFailure):
            azure.delete(GRANTED)
        with pytest.raises(HttpFailure):
            azure.created_for(WHO, CLUSTER)
