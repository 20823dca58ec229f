# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A token and its lifetime, for all sources."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Protocol

from ..dataclass import dataclass
from ..machine.clock import Clock
from ..net.answer import Headers
from ..secret import Secret
from .errors import TokenSourceUnreachable

AHEAD = 300.0  # seconds before expiry at which a token is renewed
FRACTION = 5  # part of a short lifetime: a token of 30 s is renewed 6 s before expiry
ASK_AGAIN = 30.0  # seconds between attempts while the source is down
LONGEST = 86400.0  # Azure's tokens are valid for a day at most: a longer lifetime is not trusted
EXEC_API = "client.authentication.k8s.io/v1"


@dataclass(frozen=True)
class AccessToken:
    """A token. Times are by this machine's clock, even if it is wrong: the kubelet reads the same clock."""

    value: Secret
    expires_on: float
    refresh_on: float  # when it should be renewed


@dataclass(frozen=True)
class Issued:
    """The answer of a source: the token, and for how many seconds from now it is valid."""

    value: Secret
    seconds: float


class Identity(Protocol):
    """An identity in Azure."""

    @property
    def name(self) -> str:
        """The identity in words; no secret."""

    def token(self, audience: str) -> AccessToken:
        """A valid token for one audience."""


class Source(Protocol):
    """The source of one identity's tokens."""

    @property
    def name(self) -> str:
        """The identity in words; no secret."""

    @property
    def key(self) -> str:
        """Identifies this identity and its credential. It may contain secrets."""

    def issue(self, audience: str, *, hurry: bool) -> Issued:
        """A new token. `hurry`: a valid one exists, make one short attempt only."""


def margin(seconds: float) -> float:
    """How long before expiry a token of this lifetime is renewed."""
    return min(AHEAD, seconds / FRACTION)


def read_answer(body: bytes, headers: Headers, clock: Clock, where: str) -> Issued:
    """The token in a source's answer.

    Its lifetime is `expires_in`. Only if that is absent, `expires_on` is compared with the server's clock:
    this machine's clock may be years off, and all its tokens would seem expired.
    """
    try:
        answer: dict[str, Any] = json.loads(body)
        value = answer["access_token"]
        seconds = _lifetime(answer, headers, clock)
        if not isinstance(value, str) or not value or not math.isfinite(seconds):
            raise ValueError("it contains no token")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TokenSourceUnreachable(
            "the server that answers does not issue tokens",
            where=where,
            why="its answer has no access_token and expires_in",
            fix="check what listens at this URL; a captive portal or a proxy may answer in its place",
        ) from error
    if seconds <= 0:
        raise TokenSourceUnreachable(
            "the issued token has expired already",
            where=where,
            why=f"it ended {-seconds:.0f} s ago by the clock of its issuer",
            fix="check the clocks of both machines (timedatectl), then run this again",
        )
    return Issued(Secret(value), min(seconds, LONGEST))


def _lifetime(answer: Mapping[str, Any], headers: Headers, clock: Clock) -> float:
    if answer.get("expires_in") not in (None, ""):
        return float(answer["expires_in"])
    from email.utils import parsedate_to_datetime  # slow to import

    date = headers.get("Date")
    their_now = parsedate_to_datetime(date).timestamp() if date else clock.now()
    return float(answer["expires_on"]) - their_now


def claims(token: Secret) -> dict[str, Any]:
    """The claims of a token. Not verified: it came from its issuer."""
    try:
        payload = token.reveal().split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def exec_credential(token: AccessToken) -> str:
    """An ExecCredential, which Kubernetes clients read from an exec plugin; they renew it at expiry."""
    moment = datetime.fromtimestamp(int(token.refresh_on), timezone.utc)
    status = {
        "expirationTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "token": token.value.reveal(),
    }
    return json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential", "status": status})
