# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine reports a Node. Two machines of one name share it: each runs its pods, and they take turns
in overwriting what the other one reported.

A kubelet reports the boot ID of its kernel and the machine ID. The boot ID is new after each boot, and the
same for all containers of one kernel. A clone keeps the machine ID: only a different one says something.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from ..dataclass import dataclass
from ..errors import FlexNodeError
from ..machine.facts import machine_id
from ..machine.host import Host
from ..machine.program import COMMAND
from .conditions import UNKNOWN, heartbeat, ready_status, seconds
from .this_node import ThisNode

BOOT_ID = "/proc/sys/kernel/random/boot_id"
CONTAINER = "/run/systemd/container"  # written by systemd if it runs in a container
AHEAD = 60.0  # seconds that the clock of another machine may be ahead of this one's
# A kubelet reports every ten seconds, and 4 % later at most: within this time each of two was seen.
ONE_REPORT = 12.0
PAUSE = 1.0
JUST_MADE = 2.0  # seconds between the first look and a Node that the kubelet of this machine has made
RENAME = (
    "give this machine a name of its own: if it has joined, first "
    f"`{COMMAND} unbootstrap` on it (that leaves the Node to the other machine); then set another host name "
    "or agent.nodeName, and join again"
)


class NodeOfAnother(FlexNodeError):
    """Each of the two would run the pods of the Node, and remove it when it leaves."""

    code, title = "FLEX-1512", "The Node of this machine is reported by another machine"
    remedy = RENAME


class By(enum.Enum):
    """Who reported a Node last."""

    THIS = "this machine"
    OTHER = "another machine"
    EARLIER = "this machine before its last boot"
    UNKNOWN = "nobody can tell"


@dataclass(frozen=True)
class Ids:
    """What tells a machine from others; empty: not known."""

    boot: str = ""
    machine: str = ""
    shares_kernel: bool = False  # it is a container: others have the same boot ID
    booted: float = 0.0  # when, by the clock of this machine as it is now
    now: float = 0.0

    @classmethod
    def of(cls, host: Host) -> Ids:
        """Those of this machine."""
        now = host.clock.now()
        return cls(
            host.text(BOOT_ID).strip(),
            machine_id(host),
            host.exists(CONTAINER),
            now - host.clock.monotonic(),
            now,
        )


def reported_by(node: Mapping[str, Any], ids: Ids) -> By:
    """Who reported a Node last. Pure.

    The same boot ID is proof of the same machine, but for containers. Its machine ID may have been changed
    since the kubelet read it.
    """
    info = node.get("status", {}).get("nodeInfo", {})
    boot, machine = str(info.get("bootID") or ""), str(info.get("machineID") or "")
    if not (boot and ids.boot):
        return By.UNKNOWN
    differs = bool(machine and ids.machine) and machine != ids.machine
    if boot == ids.boot:
        return By.OTHER if differs and ids.shares_kernel else By.THIS
    # This machine reports no other boot ID since it booted. A clock may have been set back since its reports.
    since_boot = ids.booted < heartbeat(node) <= ids.now + AHEAD
    return By.OTHER if differs or since_boot else By.EARLIER


def of_another(name: str, node: Mapping[str, Any]) -> str:
    """What is wrong, in one sentence, with the addresses of the other machine."""
    addresses = node.get("status", {}).get("addresses") or ()
    shown = ", ".join(str(one.get("address")) for one in addresses if one.get("type") != "Hostname")
    return f"Node {name} is reported by another machine{f' ({shown})' if shown else ''}"


def conflict(name: str, node: Mapping[str, Any]) -> NodeOfAnother:
    """The same as an error."""
    return NodeOfAnother(
        of_another(name, node),
        where=name,
        why="two machines have one name: each runs the pods of this Node, and overwrites its status",
    )


def other_reporter(
    node: ThisNode, longest: float = ONE_REPORT, say: Callable[[str], None] = lambda _line: None
) -> Mapping[str, Any] | None:
    """The Node as another machine reports it; None: nobody else did within this time, or nobody can tell.

    Two kubelets take turns, so the Node is looked at until each had its turn.
    """
    clock, ids, waits = node.host.clock, Ids.of(node.host), False
    deadline = clock.monotonic() + longest
    while True:
        try:
            found = node.read(attempts=1)
        except FlexNodeError:
            return None
        by = reported_by(found or {}, ids)
        if by is By.OTHER:
            return found
        # One that is Unknown is reported by nobody: the cluster has waited for 40 s.
        if by is By.UNKNOWN or ready_status(found or {}) == UNKNOWN or clock.monotonic() >= deadline:
            return None
        if not waits:
            say(f"checking for {longest:g} s that no other machine reports Node {node.name}")
        waits = True
        clock.sleep(PAUSE)


def left_to_other(node: ThisNode, say: Callable[[str], None]) -> str:
    """Why a machine that leaves must not touch the Node of its name, in words; empty: it is its own.

    A container is looked at once: a clone of it has the same IDs.
    """
    if not node.has_credential or node.is_cut_off:
        return ""
    found = other_reporter(node, 0 if Ids.of(node.host).shares_kernel else ONE_REPORT, say)
    return "" if found is None else f"{of_another(node.name, found)}: it is left to that machine"


@dataclass()
class Looks:
    """What a gate has seen so far of who reports the Node."""

    doubted: bool | None = None  # whether another machine may report it, too; None: not looked yet
    ours: float | None = None  # monotonic: when a report of this machine was seen first

    def see(self, node: Mapping[str, Any] | None, ids: Ids, moment: float, *, new: bool) -> By:
        """Take a look at the Node, at a monotonic time; returns who reported it last.

        new: this machine has joined just now, so that an older Node is, or was, one of another machine.
        """
        if node is None:
            self.doubted = bool(self.doubted)
            return By.UNKNOWN
        by = reported_by(node, ids)
        if by is By.OTHER and self.ours is not None:
            raise conflict(str(node["metadata"]["name"]), node)
        if by is By.THIS and self.ours is None:
            self.ours = moment
        if by is By.OTHER and ready_status(node) != UNKNOWN:  # the cluster has heard of it lately
            self.doubted = True
        elif self.doubted is None:
            made = seconds(node["metadata"].get("creationTimestamp"))
            self.doubted = by is By.THIS and new and 0 < made < ids.now - JUST_MADE
        return by

    def wait(self, moment: float) -> float:
        """Seconds until another machine would have reported; 0: none is expected, or none did."""
        return max(self.ours + ONE_REPORT - moment, 0.0) if self.doubted and self.ours is not None else 0.0
