# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an error of Azure says: what is missing, and whether waiting helps. Pure; also of the controller.

Two speak here. The gateway of Resource Manager wraps its errors in `error` and quotes ids. AKS itself answers
without that, and with code NotFound for anything that is missing: only its subcode and its details say what.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

from ..dataclass import dataclass

# What a 404 says if what a resource belongs to is missing, not the resource: the id is wrong.
ABOVE = ("SubscriptionNotFound", "ResourceGroupNotFound", "ParentResourceNotFound")
# What AKS calls the resources of a path, by their type in it.
NOUNS = {
    "managedclusters": "managedcluster",
    "agentpools": "agentpool",
    "machines": "machine",
    "flexnodeconfig": "flexnodeconfig",
}
# What says that it is the resource itself, of the codes that do not name a type. Code NotFound does not: AKS
# says it of everything, and the URL of an operation, which is followed after a 202, has one of its own.
OWN = ("ResourceNotFound", "RoleAssignmentNotFound")
_SUBCODE = re.compile(r"(?:get|put|delete|patch|post|list)?([a-z]+)_notfound(?:_\w+)?")
_DETAIL = re.compile(r"desc = ([a-z ]+) not found", re.IGNORECASE)
_RUNS = re.compile(
    r"in.progress|another operation|is being (creat|updat|upgrad|delet|scal|reconcil)|preempted",
    re.IGNORECASE,
)
_AGAIN = re.compile(r"try again|please retry|can be retried|intermittent", re.IGNORECASE)


@dataclass(frozen=True)
class ArmError:
    """An error answer, in either form. An operation that failed has one with status 200."""

    status: int
    code: str = ""
    message: str = ""
    subcode: str = ""
    details: tuple[tuple[str, str], ...] = ()  # code and message of each

    @classmethod
    def of(cls, status: int, document: Mapping[str, Any]) -> ArmError:
        """From the data of an answer; empty if it is not an error of Azure's."""
        error = document.get("error", document)
        if not isinstance(error, Mapping):
            return cls(status)
        details = error.get("details")
        return cls(
            status,
            str(error.get("code") or ""),
            str(error.get("message") or ""),
            str(error.get("subcode") or ""),
            tuple(
                (str(one.get("code") or ""), str(one.get("message") or ""))
                for one in (details if isinstance(details, list) else ())
                if isinstance(one, Mapping)
            ),
        )


class Missing(enum.Enum):
    """What a 404 says of the resource that was asked for."""

    ITSELF = "it does not exist"
    ABOVE = "what it belongs to does not exist"
    UNKNOWN = "the answer does not say"


def missing(error: ArmError, resource: str) -> Missing:
    """What does not exist, for a request of this resource. A bare 404 says nothing: any web server has it.

    Nor does one about something that is neither the resource nor above it, such as an operation.
    """
    if error.status != 404 or not error.code:
        return Missing.UNKNOWN
    whole = f"/{resource.strip('/').lower()}/"
    group = re.search(r"(?i)resource group '([^']+)'", error.message)
    if group and f"/resourcegroups/{group[1].lower()}/" not in whole:
        return Missing.UNKNOWN
    quoted, said = quoted_id(error), nouns_in(error)
    if said:
        return _of_nouns(said, resource)
    if error.code not in (*ABOVE, *OWN):  # InvalidResourceType: the path is wrong
        return Missing.UNKNOWN
    if quoted and f"/{quoted}/" not in whole:
        return Missing.UNKNOWN
    itself = whole.endswith(f"/{quoted}/")
    if error.code in ABOVE:
        return Missing.UNKNOWN if quoted and itself else Missing.ABOVE
    if quoted:
        return Missing.ITSELF if itself else Missing.ABOVE
    rest = error.message.replace(group[0], "") if group else error.message
    names = {one.lower() for one in re.findall(r"'([^'/]+)'", rest)}
    bare = "'" not in error.message
    return Missing.ITSELF if bare or names == {_end(resource)[1]} else Missing.UNKNOWN


def _of_nouns(said: set[str], resource: str) -> Missing:
    """The same by AKS's own words, of which there may be several: they have to agree."""
    kinds = resource.strip("/").lower().split("/")[::2]
    nouns = {NOUNS[kind] for kind in kinds if kind in NOUNS}
    if said == {NOUNS.get(_end(resource)[0], "")}:
        return Missing.ITSELF
    return Missing.ABOVE if len(said) == 1 and said <= nouns else Missing.UNKNOWN


def gone(error: ArmError, resource: str) -> bool:
    """Whether a 404 to a deletion says that nothing is left: not the resource, or not what it was in.

    Only of the answer to the deletion itself: the operation that it began may be missing for other reasons.
    """
    return error.code != "SubscriptionNotFound" and missing(error, resource) is not Missing.UNKNOWN


def nouns_in(error: ArmError) -> set[str]:
    """What AKS says is missing: by its subcode, its details, or a code such as AgentPoolNotFound."""
    found = set()
    if error.code == "NotFound":
        if in_subcode := _SUBCODE.fullmatch(error.subcode.lower()):
            found.add(in_subcode[1])
        found |= {
            match[1].lower().replace(" ", "")
            for _code, message in error.details
            if (match := _DETAIL.search(message))
        }
    else:
        found |= {error.code.removesuffix("NotFound").lower()} & set(NOUNS.values())
    return found


def quoted_id(error: ArmError) -> str:
    """The id that the gateway quotes, without its beginning, in small letters; empty: it quotes none."""
    found = re.search(r"(?i)resource '([^']*/[^']*)'", error.message)
    return found[1].strip("/").lower() if found else ""


def named_kind(error: ArmError) -> str:
    """The type of what is missing, as it is in paths and in small letters; empty: the answer does not say."""
    if said := nouns_in(error):
        return next((kind for kind, noun in NOUNS.items() if said == {noun}), "")
    return _end(quoted_id(error))[0]


def another_operation(error: ArmError) -> bool:
    """Whether a 409 says that an operation runs: it passes. What a policy forbids does not.

    AKS has one code for both. It answers EtagMismatch to a change that begins while another one ends, though
    the resource is Succeeded already.
    """
    if error.status != 409 or "policy" in f"{error.subcode} {error.message}".lower():
        return False
    if error.code in ("AnotherOperationInProgress", "OperationPreempted", "Conflict"):
        return True
    runs = bool(_RUNS.search(error.message))
    return runs and error.code in ("EtagMismatch", "OperationNotAllowed")


def asks_again(error: ArmError) -> bool:
    """Whether Azure asks to try again what it could not finish."""
    return any(_AGAIN.search(text) for text in (error.message, *(text for _code, text in error.details)))


def _end(resource: str) -> tuple[str, str]:
    """Type and name at the end of an id, in small letters: Azure spells both as it likes."""
    parts = ["", "", *resource.lower().rstrip("/").split("/")]
    return parts[-2], parts[-1]
