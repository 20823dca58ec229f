# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node-problem-detector at the API server: the gate that it reports, and conditions that outlive it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..components.npd.monitors import condition_types
from ..config.model import NodeConfig
from ..dataclass import dataclass
from ..errors import ApiUnreachable, CaMismatch, FlexNodeError, Forbidden
from ..identity.errors import TokenSourceUnreachable
from ..machine.host import Host
from ..machine.layout import NPD
from ..resources.units import Process, processes
from .conditions import heartbeat
from .gates import JUST_BEFORE, STABLE, Pause, Starts, not_the_server
from .kubelet_log import unit_failed
from .this_node import ThisNode

Note = Callable[..., None]  # writes down what was set at the Node


class ProblemsNotReported(FlexNodeError):
    """It does not exit if it is refused: that it runs says nothing."""

    code, title = "FLEX-1511", "node-problem-detector runs, but does not report to the API server"
    remedy = "journalctl -u node-problem-detector; remove npd.version to go on without it"


@dataclass(frozen=True)
class ProblemsReported:
    """All conditions were reported by the process that runs now, and it has run for at least five seconds."""

    node: ThisNode
    seconds: float = 120

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "node-problem-detector"

    def pass_(self, host: Host) -> None:
        """Wait for its reports; a process that keeps exiting ends the wait at once."""
        deadline, since = host.clock.monotonic() + self.seconds, host.clock.now() - JUST_BEFORE
        seen = processes(host, (NPD,))
        starts, pause = Starts({NPD: seen[NPD].restarts}), Pause(host)
        while True:
            waiting_for = self._missing(seen[NPD])
            if waiting_for is None:
                if seen[NPD].age >= STABLE:
                    return
                waiting_for = f"it must run for {STABLE:g} s without a restart"
            if seen[NPD].state == "failed" or starts.unstable(seen):
                raise unit_failed(host, NPD, since)
            if host.clock.monotonic() >= deadline:
                raise self._out_of_time(host, since, waiting_for, starts.restarted(seen))
            pause.sleep(deadline - host.clock.monotonic())
            seen = processes(host, (NPD,))

    def _missing(self, process: Process) -> str | ApiUnreachable | None:
        """What is not reported yet; None: nothing."""
        if process.state != "active":
            return f"it is {process.state}"
        try:
            node = self.node.read(attempts=1) or {}
        except ApiUnreachable as error:
            return error
        except CaMismatch as error:  # it was trusted a moment ago, by the gate before this one
            return not_the_server(error)
        except TokenSourceUnreachable as error:  # without a token nobody can ask
            return ApiUnreachable(error.what, where=error.where, why=error.why, fix=error.fix)
        except Forbidden as error:
            return f"{error.what}: {error.why}"
        wanted = condition_types(self.node.config)
        # It first reports a second after its start: a time of the very second of the start is an older one.
        late = [name for name in wanted if heartbeat(node, name) <= process.started]
        return f"it has not reported {', '.join(late)} since it was started" if late else None

    def _out_of_time(
        self, host: Host, since: float, waiting_for: str | ApiUnreachable, restarted: str
    ) -> FlexNodeError:
        if isinstance(waiting_for, ApiUnreachable):
            return waiting_for
        if restarted or waiting_for.startswith("it is "):
            return unit_failed(host, NPD, since)
        return ProblemsNotReported(
            f"node-problem-detector has not reported within {self.seconds:g} s",
            where=self.node.name,
            why=f"{waiting_for}; its log: {unit_failed(host, NPD, since).why}",
        )


def expect_conditions(config: NodeConfig, known: Sequence[str], note: Note) -> None:
    """Write down which conditions will be reported: those of a run that is killed are removed, too."""
    if not set(condition_types(config)) <= set(known):
        note(conditions=sorted({*known, *condition_types(config)}))


def leftover_conditions(config: NodeConfig, known: Collection[str], node: Mapping[str, Any]) -> list[str]:
    """Conditions at the Node that were reported once, and that nobody reports any more.

    Only those that this machine reported: another node-problem-detector, in a pod, uses the same names.
    """
    wanted = condition_types(config)
    present = (condition.get("type") for condition in node.get("status", {}).get("conditions") or ())
    return [name for name in present if name in known and name not in wanted]


def settle_conditions(node: ThisNode, known: Sequence[str], note: Note) -> list[str]:
    """Remove what is left of a node-problem-detector that was removed; returns what was done, in words.

    An API server that does not answer is asked again by the next run, or by the check for drift.
    """
    wanted = condition_types(node.config)
    if set(known) == set(wanted):
        return []
    try:
        gone = leftover_conditions(node.config, known, node.read() or {})
        if gone:
            patch = [{"$patch": "delete", "type": name} for name in gone]
            node.api().patch_node_status(node.name, {"status": {"conditions": patch}})
    except FlexNodeError:
        return []
    note(conditions=sorted(wanted) or None)
    return [f"remove condition {name}" for name in gone]
