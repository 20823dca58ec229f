# SPDX-License-Identifier: GPL-3.0-or-later
"""When an invitation is used, and when it ends."""

from __future__ import annotations

import pytest

from testbed.azure.provider.blobs import container_name
from testbed.azure.provider.life import Invitation, Seen, Step, step
from testbed.azure.provider.status import status

NOTHING_SEEN = Seen(requested=False, issued=False, node_created=None)


def invitation(state: str = "open", token: bool = True, used: float | None = None) -> Invitation:
    return Invitation(1, "edge-1", "abcdef" if token else None, state, created=1000, expires=2000, used=used)


@pytest.mark.parametrize(
    ("given", "seen", "now", "expected"),
    [
        (invitation(), NOTHING_SEEN, 1500, Step.NOTHING),
        (invitation(), NOTHING_SEEN, 2000, Step.CLOSE),
        (invitation(), Seen(True, False, None), 1500, Step.USE),
        (invitation(), Seen(True, True, 1400), 1500, Step.USE),
        # A Node of that name that was there before says nothing about this token.
        (invitation(), Seen(False, False, 900), 1500, Step.NOTHING),
        (invitation("used", used=1500), Seen(True, False, None), 1501, Step.NOTHING),
        (invitation("used", used=1500), Seen(True, True, None), 1501, Step.NOTHING),
        (invitation("used", used=1500), Seen(True, True, 1501), 1501, Step.CLOSE),
        (invitation("used", used=1500), Seen(True, True, None), 1511, Step.CLOSE),
        (invitation("used", used=1500), Seen(True, False, None), 1561, Step.CLOSE),
        (invitation(token=False), NOTHING_SEEN, 1500, Step.NOTHING),
        (invitation(token=False), Seen(False, False, 900), 1500, Step.NOTHING),
        (invitation(token=False), Seen(False, False, 1000), 1500, Step.CLOSE),
    ],
)
def test_steps(given: Invitation, seen: Seen, now: float, expected: Step) -> None:
    assert step(given, seen, now, join_seconds=60) is expected


@pytest.mark.parametrize("name", ["a", "edge-1", "edge.example.com", "x" * 253, "a..b"])
def test_container_names_are_azures(name: str) -> None:
    made = container_name(name)
    assert 3 <= len(made) <= 63
    assert made.replace("-", "").isalnum()
    assert "--" not in made
    assert made == container_name(name.upper())


def test_container_names_keep_nodes_apart() -> None:
    assert len({container_name(name) for name in ("a-b", "a.b", "a--b")}) == 3


def test_status_of_a_node_that_never_was() -> None:
    found = status(None, None, {})
    assert found["conditions"][0]["reason"] == "NotJoined"
    assert "lastSeen" not in found


def test_status_of_a_node_that_is_gone_keeps_what_was_seen() -> None:
    found = status(None, None, {"lastSeen": "2026-11-15T07:00:00Z", "reason": "NodeJoined"})
    assert found["conditions"][0]["reason"] == "NodeNotFound"
    assert "reason" not in found
    assert found["lastSeen"] == "2026-11-15T07:00:00Z"


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (
            '{"phase": "NodeJoined", "reason": "Drift", "message": "", "drift": 2, "time": "x"}',
            {"phase": "NodeJoined", "reason": "Drift", "drift": 2},
        ),
        ("{", {}),
        ("[1]", {}),
    ],
)
def test_a_node_says_what_is_wrong_with_it(annotation: str, said: dict[str, object]) -> None:
    metadata = {"name": "edge-1", "annotations": {"flexnode.aks.azure.com/status": annotation}}
    found = status({"metadata": metadata, "status": {}}, None, {})
    assert {key: value for key, value in found.items() if key != "conditions"} == said


def test_the_lease_says_when_a_node_was_last_seen() -> None:
    conditions = [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-15T07:00:00Z"},
        {"type": "MemoryPressure", "status": "False"},
        {"type": "FlexNodeHealthy", "status": "True"},
    ]
    node = {"metadata": {"name": "edge-1"}, "status": {"conditions": conditions}}
    lease = {"spec": {"renewTime": "2026-11-15T07:03:10.000000Z"}}
    found = status(node, lease, {})
    assert found["lastSeen"] == "2026-11-15T07:03:10.000000Z"
    assert [one["type"] for one in found["conditions"]] == ["Ready", "FlexNodeHealthy"]
