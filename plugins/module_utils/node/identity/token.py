# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A token with its life, whoever issued it."""

from __future__ import annotations

import base64
import email.utils
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.message import Message
from typing import Any, Protocol

from ..machine.clock import Clock
from ..secret import Secret
from .errors import TokenSourceUnreachable

AHEAD = 300.0  # seconds before its end at which a token is replaced
FRACTION = 5  # of a short life: a token of 30 s is replaced 6 s before its end
ASK_AGAIN = 30.0  # seconds, while a token lives on because its source is down
LONGEST = 86400.0  # Azure's own live a day at most: whoever says more is not believed
EXEC_API = "client.authentication.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token. Times are those of this machine's own clock, right or wrong: who reads them reads that one."""

    value: Secret
    expires_on: float
    refresh_on: float  # when it should be asked for again


@dataclass(frozen=True, slots=True)
class Issued:
    """What a source gave: the token, and for how many seconds from now it is good."""

    value: Secret
    seconds: float


class Identity(Protocol):
    """Somebody in Azure."""

    @property
    def name(self) -> str:
        """Who, for people; no secret."""

    def token(self, audience: str) -> AccessToken:
        """A token for one audience that is good for a while yet."""


class Source(Protocol):
    """Where the tokens of one identity come from."""

    @property
    def name(self) -> str:
        """Who, for people; no secret."""

    @property
    def key(self) -> str:
        """Tells this identity, with this credential, from every other. It may hold secrets."""

    def issue(self, audience: str, *, hurry: bool) -> Issued:
        """A new token. In a hurry there still is another one: one short attempt will do."""


def margin(seconds: float) -> float:
    """How long before its end a token of this life is replaced."""
    return min(AHEAD, seconds / FRACTION)


def read_answer(body: bytes, headers: Message, clock: Clock, where: str) -> Issued:
    """The token in a source's answer.

    Its life is counted from `expires_in`. Only where that is absent, from `expires_on`, against the clock of
    whoever answered: this machine's own may be years off, and its tokens would be born dead.
    """
    try:
        answer: dict[str, Any] = json.loads(body)
        value = answer["access_token"]
        seconds = _life(answer, headers, clock)
        if not isinstance(value, str) or not value or not math.isfinite(seconds):
            raise ValueError("it holds no token")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TokenSourceUnreachable(
            "something answers that does not issue tokens",
            where=where,
            why="its answer is not one with access_token and expires_in",
            fix="check what listens at this address; a captive portal or a proxy may answer in its place",
        ) from error
    if seconds <= 0:
        raise TokenSourceUnreachable(
            "the token that was given has expired",
            where=where,
            why=f"it ended {-seconds:.0f} s ago by the clock of whoever gave it",
            fix="check the clock there and here (timedatectl), then run this again",
        )
    return Issued(Secret(value), min(seconds, LONGEST))


def _life(answer: Mapping[str, Any], headers: Message, clock: Clock) -> float:
    if answer.get("expires_in") not in (None, ""):
        return float(answer["expires_in"])
    date = headers.get("Date")
    their_now = email.utils.parsedate_to_datetime(date).timestamp() if date else clock.now()
    return float(answer["expires_on"]) - their_now


def claims(token: Secret) -> dict[str, Any]:
    """What a token says of its bearer. Not verified: it came from who issues it."""
    try:
        payload = token.reveal().split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def exec_credential(token: AccessToken) -> str:
    """What Kubernetes clients read from an exec plugin; they ask again at the time it names."""
    moment = datetime.fromtimestamp(int(token.refresh_on), timezone.utc)
    status = {
        "expirationTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "token": token.value.reveal(),
    }
    return json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential", "status": status})
