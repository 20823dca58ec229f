# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role assignments in Azure that this collection created for one machine, seen from that machine."""

from __future__ import annotations

import json
import urllib.parse
import uuid

from ..dataclass import dataclass
from ..net.answer import HttpFailure
from ..net.http_client import HttpClient
from ..secret import Secret
from ..sources.arm_answers import gone
from ..sources.flexnode_config import Reply

# The namespace of assignment names. It must never change: an assignment that this collection created is
# recognized by its name.
NAMES = uuid.UUID("6f0d3f1c-52a5-5c0e-9d3b-8a1e2f4b7c60")
API_VERSION = "2022-04-01"
KIND = "providers/Microsoft.Authorization/roleAssignments"
PAGES = 20


def name_of(scope: str, principal_id: str, role_id: str) -> str:
    """A name that depends on the grant only; ids are compared without case."""
    return str(uuid.uuid5(NAMES, "\n".join((scope.rstrip("/"), principal_id, role_id)).lower()))


@dataclass(frozen=True)
class Assignment:
    """A role assignment that this collection created."""

    id: str
    scope: str
    role_id: str

    @property
    def command(self) -> str:
        """The command that removes it."""
        return f"az role assignment delete --ids {self.id}"


class Assignments:
    """The role assignments of one principal at Azure Resource Manager, with one token."""

    def __init__(self, resource_manager: str, client: HttpClient, token: Secret) -> None:
        self._arm = resource_manager.rstrip("/")
        self._client = client
        self._headers = {"Authorization": f"Bearer {token.reveal()}", "Accept": "application/json"}

    def created_for(self, principal: str, scope: str) -> list[Assignment]:
        """Those that this collection created, at a scope."""
        chosen = urllib.parse.urlencode(
            {"api-version": API_VERSION, "$filter": f"principalId eq '{principal}'"}
        )
        url = f"{self._arm}{urllib.parse.quote(scope, safe='/()')}/{KIND}?{chosen}"
        found: list[Assignment] = []
        for _page in range(PAGES):
            try:
                answer = json.loads(self._client.request("GET", url, headers=self._headers).body)
                for one in answer["value"]:
                    properties = one["properties"]
                    role = str(properties["roleDefinitionId"]).rpartition("/")[2]
                    at = str(properties["scope"])
                    owner = str(properties["principalId"]).lower()
                    if owner == principal.lower() and str(one["name"]).lower() == name_of(at, owner, role):
                        found.append(Assignment(str(one["id"]), at, role))
                url = str(answer.get("nextLink") or "")
            except HttpFailure as failure:
                if gone(Reply(failure.status, failure.body).error, f"{scope}/{KIND}"):
                    return []  # what was assigned there is gone with its cluster
                raise
            except (ValueError, KeyError, TypeError) as error:
                raise HttpFailure(url, "the answer is not a list of role assignments", final=True) from error
            if not url.startswith(f"{self._arm}/"):  # the token is sent nowhere else
                break
        return found

    def delete(self, assignment: Assignment) -> None:
        """Delete one; it may be gone already, with its cluster or its group, too."""
        path = urllib.parse.quote(assignment.id, safe="/()")
        try:
            self._client.request(
                "DELETE", f"{self._arm}{path}?api-version={API_VERSION}", headers=self._headers
            )
        except HttpFailure as failure:
            if not gone(Reply(failure.status, failure.body).error, assignment.id):
                raise
