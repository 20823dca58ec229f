# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reason of a status: what is most wrong with this machine. Every report shows the same."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..dataclass import dataclass
from ..engine.records.state import Phase
from ..errors import NodeNotReady, UnitFailed, error_classes
from ..machine.clock import moment
from ..machine.layout import CONTAINERD, KUBELET
from ..machine.program import COMMAND
from ..procedures.vpn.errors import VpnDown
from .monitoring import BLOCKED, FAILING
from .pull import NO_PULL, wrong_with
from .rollout import NEEDS_SOMEONE
from .vpn import NO_VPN, UP

DRIFT, CONTENDED = "Drift", "DriftContended"
LEFT = "Left"  # by itself; something remains that only an administrator can remove
INTERRUPTED = (
    "a run is in progress, or was interrupted. If no run is active, start the same playbook or command again:"
    " it continues"
)
# A phase is the machine's own; its reason is read beside the status of its Node, so it uses that word.
REASONS = {Phase.NOT_STARTED.value: "NotJoined"}
NOT_JOINED = (
    "this machine is not joined to a cluster (it is new, or unbootstrap removed it). To join it, run "
    "playbook aks.flexnode.bootstrap. If you removed it on purpose, remove it from the inventory"
)
# Unbootstrap removes the command too.
WITH_COMMAND = NOT_JOINED.replace(
    "aks.flexnode.bootstrap", f"aks.flexnode.bootstrap, or run `sudo {COMMAND} join` on the machine"
)
# What is said about a phase in which nothing is wrong, if there is something to say.
PHASES = {
    Phase.NOT_STARTED.value: NOT_JOINED,
    Phase.ARC_REGISTERING.value: INTERRUPTED,
    Phase.ARC_REGISTERED.value: "this machine is registered with Azure Arc, and is not a node yet",
    Phase.VPN_BOOTSTRAPPING.value: INTERRUPTED,
    Phase.VPN_CONNECTED.value: "the VPN of this machine is up, and it is not a node yet",
    Phase.NODE_BOOTSTRAPPING.value: INTERRUPTED,
    Phase.RESETTING.value: "this machine is leaving the cluster",
}


class Verdict(enum.Enum):
    """Whether a machine is as its configuration says. The value is the status of the Node's condition."""

    RIGHT = "True"
    WRONG = "False"
    UNKNOWN = "Unknown"  # it works; nobody knows whether its configuration is the newest


@dataclass(frozen=True)
class Reason:
    """A code that programs compare, and a sentence for people."""

    code: str
    message: str = ""
    verdict: Verdict = Verdict.WRONG
    fix: str = ""  # empty: what `fix_of` finds


def reason_of(status: Mapping[str, Any], state: Mapping[str, Any], failure: Reason | None) -> Reason:
    """The first of everything that is wrong; the phase, if nothing is.

    failure: what could not be observed, and why.
    """
    wrong = next(_wrong(status, state, failure), None)
    waiting = status["monitoring"].get("waiting") or status["rollout"].get("message")
    if wrong is None and waiting:
        return Reason(str(status["phase"]), str(waiting))  # nothing is wrong: AKS or other nodes decide when
    return wrong or _phase(str(status["phase"]))


def verdict_of(status: Mapping[str, Any]) -> Verdict:
    """Whether the machine of a status document is right."""
    if status["reason"] == Phase.NODE_JOINED.value and status["node"]["ready"]:
        return Verdict.RIGHT
    following = status["monitoring"]
    only_the_source = following["status"] == FAILING and status["reason"] == following["code"]
    pull = wrong_with(status.get("pull", NO_PULL))
    only_pull = pull is not None and status["reason"] == pull[0]
    return Verdict.UNKNOWN if (only_the_source or only_pull) and status["node"]["ready"] else Verdict.WRONG


def fix_of(status: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """What to do about the reason; empty: nothing, or its message says it."""
    if state.get("fix") and status["reason"] == state.get("code"):
        return str(state["fix"])
    refused = status["config"].get("refused")
    if refused and status["reason"] == refused["code"]:
        what = some(refused.get("settings")) or "the configuration"
        place = refused.get("place") or "where the configuration comes from"
        return f"correct {what} {place}, then run playbook aks.flexnode.update again"
    return next((one.remedy for one in error_classes() if one.code == status["reason"]), "")


def fix_with_log(status: Mapping[str, Any]) -> str:
    """The same for people, with the log of a failure: its time is not for status.json, which is compared."""
    fix, refused = str(status.get("fix", "")), status["config"].get("refused")  # of an older release: none
    is_reason = bool(refused) and status["reason"] == refused["code"]
    if fix and is_reason and refused["code"] in (UnitFailed.code, NodeNotReady.code):
        until = int(moment(refused["since"])) + 1  # a unit that works again logs to the same place
        unit = CONTAINERD if CONTAINERD in refused.get("message", "") else KUBELET
        where = status["node"].get("name") or "the machine"
        fix += f". See the log of the failure on {where}: `journalctl -u {unit} -n 50 --until=@{until}`"
    return fix


def _phase(phase: str) -> Reason:
    return Reason(REASONS.get(phase, phase), PHASES.get(phase, ""))


def _wrong(status: Mapping[str, Any], state: Mapping[str, Any], failure: Reason | None) -> Iterator[Reason]:
    """From what stops the node, over what it does not follow, to what only differs."""
    node, phase, following = status["node"], status["phase"], status["monitoring"]
    if phase == Phase.RESETTING.value:
        yield _phase(phase)
    if phase == Phase.NOT_STARTED.value and status["left"]:
        yield Reason(LEFT, f"this machine left its cluster by itself; {'; '.join(status['left'])}")
    # A phase NodeFailed may be that of a node, too: only one that never joined has failed to join.
    lead = "the join failed: " if phase == Phase.NODE_FAILED.value and not node["joined"] else ""
    failed = Reason(state["code"], f"{lead}{state.get('message', '')}") if state.get("code") else None
    if failed and phase == Phase.VPN_FAILED.value and not node["ready"]:
        yield failed
    vpn = status["vpn"]
    if node["joined"] and vpn["status"] not in (NO_VPN, UP):
        # Before everything that only follows from it: the API server is behind it.
        yield Reason(VpnDown.code, f"the VPN tunnel is down: {vpn['message']}")
    if failed and not node["ready"]:
        yield failed
    if stopped := [unit for unit, active in node.get("units", {}).items() if not active]:
        # Before the Node's condition: that one stays Ready for 40 s after the kubelet stopped.
        log = " ".join(f"-u {unit}" for unit in stopped)
        yield Reason(UnitFailed.code, f"{', '.join(stopped)} not running: see journalctl {log}")
    if failure:
        yield failure
    if phase == Phase.NODE_JOINED.value and not node["ready"]:
        yield Reason(NodeNotReady.code, node.get("message") or NOT_READY[node["status"]])
    if refused := status["config"].get("refused"):
        yield Reason(refused["code"], _refused(refused))
    if following["status"] == BLOCKED and following.get("code"):
        yield Reason(following["code"], f"the configuration is not applied: {following['message']}")
    if items := [item for item in status["drift"] if not item["item"].startswith(ONLY_NOTED)]:
        yield _drift(items)
    rollout = status["rollout"]
    if rollout.get("state") in NEEDS_SOMEONE:
        yield Reason(rollout["code"], f"new software is not installed: {rollout['message']}")
    if failed:  # the last run failed, and the node works: its Node got Ready later
        yield failed
    if following["status"] == FAILING:
        message = f"polling the configuration has failed since {following['since']}: {following['message']}"
        yield Reason(following["code"], message, Verdict.UNKNOWN)
    if pull := wrong_with(status.get("pull", NO_PULL)):  # the node itself is as its configuration says
        yield Reason(pull[0], f"ansible-pull: {pull[1]}", Verdict.UNKNOWN)


def _refused(refused: Mapping[str, Any]) -> str:
    """Without the time: what is said here is compared with what was said before."""
    settings = refused.get("settings")
    what = (
        "the update failed and was rolled back"
        if refused["rolledBack"]
        else "a new configuration was refused"
    )
    lead = "With the new configuration" if settings and refused["rolledBack"] else "Cause:"
    text = f"{what}; this machine runs its earlier configuration. {lead} {refused['message']}"
    return f"{text}{changed_by(settings)}"


def changed_by(settings: Sequence[str] | None) -> str:
    """The settings of an update that failed, after its message."""
    return f" (settings changed by that update: {some(settings)})" if settings else ""


def some(names: Sequence[str] | None) -> str:
    """The first few names, in words."""
    more = f" and {len(names) - NAMES} more" if names and len(names) > NAMES else ""
    return ", ".join((names or ())[:NAMES]) + more


NOT_READY = {
    "NotRegistered": "the Node does not exist; a kubelet registers it when it starts: systemctl restart "
    "kubelet",
    "NotJoined": "the kubelet has no credential: run playbook aks.flexnode.bootstrap (with a new token, if "
    "it joins with one)",
    "NotConfigured": "there is no configuration: run playbook aks.flexnode.bootstrap",
}
# Listed, and no reason of its own: another owner's choice, and ansible-pull, whose reason has its own code.
ONLY_NOTED = ("drop-in:", "pull:")
SHOWN = 2  # items in the message; the document has them all
NAMES = 6  # settings in a message


def _drift(items: list[dict[str, str]]) -> Reason:
    contended = [item for item in items if item["state"] == "contended"]
    sentences = [item["what"] for item in contended or items]
    more = f"; and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return Reason(CONTENDED if contended else DRIFT, f"{'; '.join(sentences[:SHOWN])}{more}")
