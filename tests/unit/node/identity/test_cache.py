# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tokens and their cache: when they are replaced, what an outage means, and what a wrong clock may not do."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity import cache
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.cache import (
    DIRECTORY,
    Cached,
    forget_tokens,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import TokenSourceUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.token import (
    AccessToken,
    Issued,
    claims,
    exec_credential,
    margin,
    read_answer,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from tests.unit.node.fakes import Commands, FakeClock, Machine

NOON = 1_800_000_000.0


@dataclass
class TwoClocks:
    """A machine whose wall clock can be set, and which can sleep: then only the wall clock goes on."""

    wall: float = NOON
    boot: float = 1000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.boot

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.boot += seconds


@dataclass
class Source:
    """Tokens with a number and a life; none while it is down."""

    seconds: float = 3600
    down: FlexNodeError | None = None
    asked: list[tuple[str, bool]] = field(default_factory=list)
    name: str = "somebody"
    key: str = "arc"

    def issue(self, audience: str, *, hurry: bool) -> Issued:
        self.asked.append((audience, hurry))
        if self.down:
            raise self.down
        return Issued(Secret(f"token-{len(self.asked)}"), self.seconds)


@dataclass
class Site:
    machine: Machine
    clock: TwoClocks
    source: Source
    identity: Cached

    def token(self, audience: str = "aks") -> str:
        return self.identity.token(audience).value.reveal()


@pytest.fixture
def site(machine: Machine) -> Site:
    clock, source = TwoClocks(), Source()
    host = Host(root=str(machine.root), runner=Commands(machine.root), clock=clock)
    return Site(machine, clock, source, Cached(source, host))


DOWN = TokenSourceUnreachable("it is down")


@pytest.mark.parametrize(("seconds", "ahead"), [(86400, 300), (3600, 300), (1500, 300), (1000, 200), (30, 6)])
def test_how_long_before_its_end_a_token_is_replaced(seconds: float, ahead: float) -> None:
    assert margin(seconds) == ahead


@pytest.mark.parametrize(
    ("seconds", "age", "number"),
    [
        (3600, 0, 1),
        (3600, 3299, 1),
        (3600, 3300, 2),
        (3600, 3601, 2),
        (30, 23, 1),
        (30, 24, 2),
    ],
)
def test_a_token_is_kept_until_it_is_due(site: Site, seconds: float, age: float, number: int) -> None:
    site.source.seconds = seconds
    assert site.token() == "token-1"
    site.clock.sleep(age)
    assert site.token() == f"token-{number}"


def test_each_audience_and_each_credential_has_its_own(site: Site) -> None:
    assert (site.token("aks"), site.token("arm"), site.token("aks")) == ("token-1", "token-2", "token-1")
    site.source.key = "arc with a new secret"
    assert site.token("aks") == "token-3"


@pytest.mark.parametrize("age", [3300, 3500, 3599])
def test_a_token_that_is_still_good_outlives_an_outage(site: Site, age: float) -> None:
    site.token()
    site.clock.sleep(age)
    site.source.down = DOWN
    token = site.identity.token("aks")
    left = 3600 - age
    assert (token.value.reveal(), site.source.asked[-1]) == ("token-1", ("aks", True))
    assert token.expires_on == site.clock.now() + left
    assert token.refresh_on == site.clock.now() + min(left, 30)  # soon, and at its end at the latest
    site.source.down = None
    assert site.token() == "token-3"


def test_an_outage_that_lasts_longer_than_the_token_is_told(site: Site) -> None:
    site.token()
    site.source.down = DOWN
    site.clock.sleep(3600)
    with pytest.raises(TokenSourceUnreachable):
        site.token()
    assert site.source.asked[-1] == ("aks", False)  # with nothing in hand, all patience


def test_a_token_that_ends_while_its_source_is_asked_is_not_served(site: Site) -> None:
    site.token()
    site.clock.sleep(3598)

    class Slow(Source):
        def issue(self, audience: str, *, hurry: bool) -> Issued:
            site.clock.sleep(5)
            raise DOWN

    with pytest.raises(TokenSourceUnreachable):
        Cached(Slow(), site.identity._host).token("aks")


@pytest.mark.parametrize(
    ("step", "boot", "served", "number"),
    [
        (0, 60, "kept", 1),
        (-86400, 60, "the clock was set back: it is as old as it is", 1),
        (86400, 60, "the clock was set forward, or the machine slept: a new one", 2),
    ],
)
def test_a_wall_clock_that_jumps(site: Site, step: float, boot: float, served: str, number: int) -> None:
    site.token()
    site.clock.wall += step
    site.clock.sleep(boot)
    token = site.identity.token("aks")
    assert token.value.reveal() == f"token-{number}", served
    left = 3600 - (boot if number == 1 else 0)
    assert token.expires_on == site.clock.wall + left  # in terms of the clock that the kubelet reads


def test_a_jump_forward_in_an_outage_does_not_cost_a_good_token(site: Site) -> None:
    site.token()
    site.source.down = DOWN
    site.clock.wall += 10 * 365 * 86400
    assert site.token() == "token-1"


def test_a_token_of_another_boot_is_not_served(site: Site) -> None:
    site.token()
    site.clock.boot = 5
    assert site.token() == "token-2"


def test_tokens_are_for_root_alone_and_their_names_say_nothing(site: Site) -> None:
    site.token()
    directory = site.machine.path(DIRECTORY)
    (file,) = directory.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.name) == 64
    forget_tokens(site.identity._host)
    assert site.token() == "token-2"


def pipe_at(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_text("{"),
        lambda file: file.write_text("[]"),
        lambda file: file.write_text('{"token": 1}'),
        lambda file: file.chmod(0o644),
        lambda file: os.chown(file, 1000, 0),
        lambda file: (file.rename(file.with_name("x")), file.symlink_to("x")),
        pipe_at,
    ],
    ids=["broken", "no mapping", "no token", "readable", "another's", "link", "pipe"],
)
def test_what_is_not_a_kept_token_of_ours_is_ignored(site: Site, spoil: object) -> None:
    site.token()
    (file,) = site.machine.path(DIRECTORY).iterdir()
    assert callable(spoil)
    spoil(file)
    assert site.token() == "token-2"
    assert site.token() == "token-2"


def test_a_directory_that_can_not_be_written_costs_nothing_but_a_request(site: Site) -> None:
    site.machine.put("/run/aks-flex-node", "a file")
    assert (site.token(), site.token()) == ("token-1", "token-2")


# -- what sources answer -----------------------------------------------------------------------------------


def answered(document: object, date: str | None = None) -> Issued:
    headers = Message()
    if date:
        headers["date"] = date
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_answer(body, headers, FakeClock(NOON), "https://login.example")


@pytest.mark.parametrize(
    ("document", "date", "seconds"),
    [
        ({"expires_in": 3599}, None, 3599),
        ({"expires_in": "3599", "expires_on": "1"}, None, 3599),  # as IMDS writes it
        ({"expires_on": str(int(NOON) + 100)}, None, 100),
        # This machine lives in 2027, the server in 2024: only the server's clock counts.
        ({"expires_on": "1704067800"}, "Mon, 01 Jan 2024 00:00:00 GMT", 600),
        ({"expires_in": "", "expires_on": "1704067800"}, "Mon, 01 Jan 2024 00:00:00 GMT", 600),
    ],
)
def test_the_life_of_a_token(document: dict[str, object], date: str | None, seconds: float) -> None:
    assert answered({"access_token": "t", **document}, date) == Issued(Secret("t"), seconds)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>captive portal</html>",
        [],
        {},
        {"access_token": "", "expires_in": 1},
        {"access_token": ["t"], "expires_in": 1},
        {"access_token": "t"},
        {"access_token": "t", "expires_in": "soon"},
        {"access_token": "t", "expires_in": "nan"},
        {"access_token": "t", "expires_in": "inf"},
    ],
)
def test_what_is_no_token_is_told(document: object) -> None:
    with pytest.raises(TokenSourceUnreachable, match="does not issue tokens"):
        answered(document)


def test_a_token_that_is_over_is_told() -> None:
    with pytest.raises(TokenSourceUnreachable, match="has expired") as raised:
        answered({"access_token": "secret-thing", "expires_in": -10})
    assert "secret-thing" not in str(raised.value)


def test_an_exec_credential_names_the_time_to_ask_again() -> None:
    token = AccessToken(Secret("t0ken"), expires_on=NOON + 3600, refresh_on=NOON + 3300.7)
    assert json.loads(exec_credential(token)) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"expirationTimestamp": "2027-01-15T08:55:00Z", "token": "t0ken"},
    }


@pytest.mark.parametrize(
    ("token", "expected"), [("x", {}), ("a.b.c", {}), ("a.WzFd.c", {}), ("", {})], ids=str
)
def test_claims_of_what_is_no_token(token: str, expected: dict[str, object]) -> None:
    assert claims(Secret(token)) == expected


def test_claims() -> None:
    payload = urlsafe_b64encode(json.dumps({"oid": "who"}).encode()).rstrip(b"=").decode()
    assert claims(Secret(f"head.{payload}.signature")) == {"oid": "who"}


def test_a_hurried_refresh_has_one_limit_and_serves_the_kept_token(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site.token() == "token-1"
    site.clock.sleep(3500)
    never = threading.Event()
    monkeypatch.setattr(cache, "HURRY_SECONDS", 0.05)
    monkeypatch.setattr(site.source, "issue", lambda audience, hurry: never.wait(5))
    start = time.monotonic()
    assert site.token() == "token-1"
    assert time.monotonic() - start < 2
    never.set()


def test_a_life_longer_than_a_day_is_not_believed() -> None:
    assert answered({"access_token": "t", "expires_in": "31000000"}).seconds == 86400


def test_forgetting_leaves_nothing_of_the_installers(machine: Machine) -> None:
    left = [
        machine.put(f"/run/aks-flex-node/{name}", "{}", 0o600)
        for name in ("azcmagent.json", ".azcmagent.json.0123456789ab")
    ]
    other = machine.put("/run/aks-flex-node/lock", "")
    forget_tokens(machine.host)
    assert not any(path.exists() for path in left)
    assert other.exists()
