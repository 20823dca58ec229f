# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands about a node that runs: health and problems for probes, and how it is monitored."""

from __future__ import annotations

import argparse
import json
import re

from ..dataclass import dataclass
from ..engine.records.state import Phase, Store, store_of
from ..errors import FlexNodeError
from ..machine.host import Host
from ..machine.layout import POLL_TIMER
from ..machine.program import COMMAND
from .output import show

HEALTHY, NOT_WORKING, NOT_FOLLOWING = 0, 3, 4  # exit statuses
PROBLEM, NOBODY_KNOWS = 1, 2  # those of `problem`
LONGEST_LINE = 256  # bytes that node-problem-detector reads of it


@dataclass(frozen=True)
class Health:
    """The health of a node in one word, with the reason."""

    exit_status: int
    word: str
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        """For --json."""
        return {"healthy": self.exit_status == HEALTHY, "health": self.word, "reason": self.reason}

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


def health(options: argparse.Namespace, host: Host) -> int:
    """Exit status 0: it works; 3: it does not; 4: it works, but does not follow its configuration."""
    found = health_of(host, store_of(host))
    show(json.dumps(found.as_dict()) if options.json else found)
    return found.exit_status


def health_of(host: Host, store: Store) -> Health:
    """From small local files: state.json, unit files, certificate, /proc of kubelet, containerd, VPN.

    Neither the API server nor the source is asked, and nothing is written.
    """
    from ..drift.certificate import lost_certificate
    from ..drift.quick import only_arc_failed, unsteady_services, wrong_services, wrong_tunnel

    state = store.state()
    phase, joined = state["phase"], is_node(store)
    code, message = (state.get(name, "") for name in ("code", "message"))
    detail = f" ({code} {message})".replace(" )", ")") if code else ""
    beside = only_arc_failed(state)  # the node may work nevertheless
    if not joined or not (phase == Phase.NODE_JOINED.value or beside):
        return Health(NOT_WORKING, "not working" if joined else "not a node", f"its phase is {phase}{detail}")
    found = (*wrong_services(host), *wrong_tunnel(host, store))
    wrong = [sentence for _key, sentence, _down in found] + list(unsteady_services(host))
    if lost := lost_certificate(host, store.applied_if_intact() or {}):
        wrong.append(f"{lost}: `{COMMAND} status` says what to do")
    if wrong:
        return Health(NOT_WORKING, "not working", "; ".join(wrong))
    if beside:
        last = "the last run did not get further than Azure Arc"
        return Health(NOT_FOLLOWING, "working", f"{last}: its phase is {phase}{detail}")
    if store.is_unfinished:
        return Health(NOT_FOLLOWING, "working", "a change is not complete; the next run completes it")
    if failure := store.monitoring():
        why = f"{failure['code']} since {failure['since']}: {failure['message']}"
        return Health(NOT_FOLLOWING, "working", f"its configuration is not followed: {why}")
    return Health(HEALTHY, "healthy")


def is_node(store: Store) -> bool:
    """Whether this machine has joined and is not leaving, whatever its last run ended with."""
    state = store.state()
    left = (Phase.NOT_STARTED.value, Phase.RESETTING.value)
    if state["phase"] == Phase.NODE_JOINED.value:
        return True
    return state["phase"] not in left and not state.get("leaving") and store.applied_if_intact() is not None


def problem(options: argparse.Namespace, host: Host) -> int:
    """The reason code and its message, from status.json. Exit status as node-problem-detector reads it.

    0: no problem; 1: a problem; 2: nobody knows.
    """
    from ..status.reasons import Verdict, verdict_of

    try:
        status = store_of(host).status()
    except FlexNodeError as error:
        show(f"{error.code}: {error.what}")
        return NOBODY_KNOWS
    if status is None:  # before the first report
        return HEALTHY
    line = f"{status['reason']}: {status['message']}".removesuffix(": ")
    show(line.encode()[:LONGEST_LINE].decode(errors="ignore"))  # it would cut a character in two
    return {Verdict.RIGHT: HEALTHY, Verdict.WRONG: PROBLEM}.get(verdict_of(status), NOBODY_KNOWS)


def agent(options: argparse.Namespace, host: Host) -> int:
    """What the agent of other AKS Flex Node tools does in a daemon: here a timer runs one poll after another.

    Exit status as of poll.
    """
    from ..machine.clock import stamp
    from ..status.monitoring import monitoring_of

    store = store_of(host)
    followed = monitoring_of(store, stamp(host.clock))
    if followed["status"] == "NotConfigured":
        show("monitoring  off: this machine does not follow its configuration (continuousMonitoring)")
        show(
            f"            nothing runs in the background; to apply a new one: {COMMAND} update --config FILE"
        )
        return HEALTHY
    for name, words in timer_lines(host):
        show(f"{name:<11} {words}")
    show(f"source      {followed.get('url', '-')}  {followed['status']}")
    if not followed.get("ok"):
        show(f"            {followed['code']} since {followed['since']}: {followed['message']}")
    from ..follow.tick import tick

    return tick(host, show, show)


def timer_lines(host: Host) -> list[tuple[str, str]]:
    """The timer as systemd knows it: drop-ins of an administrator count."""
    wanted = "ActiveState,TimersMonotonic,RandomizedDelayUSec,LastTriggerUSec,NextElapseUSecMonotonic"
    shown = host.run(["systemctl", "show", f"--property={wanted}", POLL_TIMER], check=False).stdout
    facts = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    again = re.search(r"OnUnitInactiveUSec=([^;]+?) ;", shown)
    pause, spread = seconds(again[1] if again else ""), seconds(facts.get("RandomizedDelayUSec", ""))
    interval = f"every {pause:.0f} to {pause + spread:.0f} s after the previous poll" if pause else "unknown"
    left = seconds(facts.get("NextElapseUSecMonotonic", "")) - host.clock.monotonic()
    return [
        ("monitoring", f"{POLL_TIMER} is {facts.get('ActiveState') or 'not installed'}"),
        ("interval", interval),
        ("last poll", facts.get("LastTriggerUSec") or "none since the boot"),
        ("next poll", f"in {left:.0f} s" if left > 0 else "when the present one has ended"),
    ]


UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1, "ms": 1e-3, "us": 1e-6}


def seconds(span: str) -> float:
    """A time span as systemd prints it: `1h 2min 3.5s`; 0: none."""
    return sum(float(number) * UNITS.get(unit, 0) for number, unit in re.findall(r"([\d.]+)([a-z]+)", span))
