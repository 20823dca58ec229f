# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates: conditions that must hold before a run counts as a success.

Only evidence that is younger than the processes that run now counts. A Node stays Ready for 40 s after its
kubelet died, and systemd calls a kubelet active that exits a second later.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..dataclass import dataclass, field
from ..errors import (
    ApiUnreachable,
    CaMismatch,
    FlexNodeError,
    Forbidden,
    NodeNotReady,
    TokenRefused,
)
from ..identity.errors import TokenSourceUnreachable
from ..machine.host import Host
from ..machine.layout import KUBELET
from ..resources.units import Process, processes
from .advice import NEW_TOKEN, UNAPPROVED
from .conditions import (
    UNKNOWN,
    heartbeat,
    kubelet_version,
    ready_condition,
    ready_status,
    renewed,
    runtime_version,
)
from .kubelet_log import (
    AGAIN,
    ANSWERED,
    explained_log,
    log_of_failure,
    refused,
    unit_failed,
    unit_log,
)
from .reporter import By, Ids, Looks, NodeOfAnother, conflict
from .rights import is_unauthorized
from .this_node import ThisNode

FIRST_PAUSE, LONGEST_PAUSE, SLOWER = 0.1, 1.0, 1.3  # seconds between two questions, and how they grow
READ_LOG_EVERY = 2.0
JUST_BEFORE = 5  # seconds: units are started right before their gate
STABLE = 5.0  # seconds that a process must have run
AFTER_CUT = 30.0  # seconds in which a kubelet reports, after the API server can be reached again
NOT_YET = "the kubelet has not reported since it was started"
REJECTED = "the API server does not accept the kubelet's certificate"
TOO_MANY_STARTS = 3  # a unit that was restarted this often within one gate will not stay up


@dataclass()
class Pause:
    """Waits between two questions: short ones first, so that a quick node is not kept waiting."""

    host: Host
    seconds: float = FIRST_PAUSE

    def sleep(self, at_most: float) -> None:
        """Sleep, a little longer each time."""
        self.host.clock.sleep(max(min(self.seconds, at_most), FIRST_PAUSE))
        self.seconds = min(self.seconds * SLOWER, LONGEST_PAUSE)


@dataclass()
class Starts:
    """Counts how often systemd restarts units from now on."""

    first: dict[str, int]

    def restarted(self, now: dict[str, Process]) -> str:
        """A unit that was restarted at all; empty: none."""
        return next((unit for unit in now if now[unit].restarts > self.first[unit]), "")

    def unstable(self, now: dict[str, Process]) -> str:
        """A unit that does not stay up; empty: none."""
        restarted = (unit for unit in now if now[unit].restarts - self.first[unit] >= TOO_MANY_STARTS)
        return next(restarted, "")


def not_the_server(error: CaMismatch) -> ApiUnreachable:
    """What distrust means where the same CA was right before: something else answers, and that may pass."""
    return ApiUnreachable(
        error.what,
        where=error.where,
        why=f"{error.why}. It was trusted before, and this change altered neither its address nor its CA",
        fix="let this machine reach the API server without a captive portal or a proxy that inspects TLS; if "
        "the cluster has a new CA, set it as node.kubelet.caCertData",
    )


@dataclass(frozen=True)
class UnitsActive:
    """systemd reports the units as active."""

    units: tuple[str, ...]
    seconds: float = 60

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "active units"

    def pass_(self, host: Host) -> None:
        """Wait until all units are active; a unit that failed or keeps exiting ends the wait at once."""
        deadline = host.clock.monotonic() + self.seconds
        since = host.clock.now() - JUST_BEFORE
        seen = processes(host, self.units)
        starts, pause = Starts({unit: seen[unit].restarts for unit in seen}), Pause(host)
        while True:
            waiting = [unit for unit in self.units if seen[unit].state != "active"]
            if not waiting:
                return
            failed = [unit for unit in waiting if seen[unit].state == "failed"]
            exits = starts.unstable(seen)
            if failed or exits or host.clock.monotonic() >= deadline:
                raise unit_failed(host, exits or (failed or waiting)[0], since)
            pause.sleep(deadline - host.clock.monotonic())
            seen = processes(host, self.units)


@dataclass(frozen=True)
class NodeReady:
    """The API server reports the Node as Ready, as its kubelet reported it since all units have started.

    The versions are the configured ones, and every unit has run as one process for at least five seconds. No
    other machine reports the same Node.
    """

    node: ThisNode
    seconds: float = 120
    units: tuple[str, ...] = (KUBELET,)
    # When something changed that no process start shows: monotonic, as the clock may be set meanwhile.
    changed: list[float] = field(default_factory=list)
    versions: bool = True  # whether the Node must report the configured versions
    new: bool = False  # this machine was no node before: it joins now
    server_known: bool = False  # the node has worked with this API server and CA: distrust decides nothing

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "Node Ready"

    def pass_(self, host: Host) -> None:
        """Ask the API server as the kubelet until the Node is Ready; fail early when waiting can't help."""
        node, deadline = self.node, host.clock.monotonic() + self.seconds
        began = math.ceil(host.clock.now())  # errors that an earlier kubelet process logged do not count
        since = began - JUST_BEFORE
        seen, read_log = processes(host, self.units), host.clock.monotonic() + READ_LOG_EVERY
        starts, pause, blind = Starts({unit: seen[unit].restarts for unit in seen}), Pause(host), False
        looks = Looks()
        while True:
            waiting_for = self._missing(seen, looks)
            if blind and not isinstance(waiting_for, ApiUnreachable):
                # The line was cut and is back: the kubelet has to get through first, too.
                deadline = max(deadline, host.clock.monotonic() + AFTER_CUT)
            blind = isinstance(waiting_for, ApiUnreachable)
            if waiting_for is None:
                young = STABLE - min(process.age for process in seen.values())
                alone = looks.wait(host.clock.monotonic())
                if young <= 0 and alone <= 0:
                    return
                deadline = max(deadline, host.clock.monotonic() + alone)
                waiting_for = f"{' and '.join(self.units)} must run for {STABLE:g} s without a restart"
            # A kubelet whose certificate request is refused does not exit: it keeps asking.
            due = host.clock.monotonic() >= read_log and not node.has_credential
            restarted = seen[KUBELET].restarts > starts.first[KUBELET]
            if due or (restarted and not blind):
                hopeless = refused(host, node.name, began, node.azure_method, node.token_id)
                if hopeless and not (self.server_known and isinstance(hopeless, CaMismatch)):
                    raise hopeless
            if due:
                read_log = host.clock.monotonic() + READ_LOG_EVERY
            if unit := starts.unstable(seen):
                raise self._explained(host, since) or unit_failed(host, unit, since)
            if host.clock.monotonic() >= deadline:
                raise self._out_of_time(host, since, waiting_for, starts.restarted(seen))
            pause.sleep(deadline - host.clock.monotonic())
            seen = processes(host, self.units)

    def noting(self, starting: Callable[[], None]) -> Callable[[], None]:
        """`starting`, and note when all was in place: a change without a restart needs a report, too."""

        def also_noting() -> None:
            starting()
            self.changed.append(self.node.host.clock.monotonic())

        return also_noting

    def _out_of_time(
        self, host: Host, since: float, waiting_for: str | FlexNodeError, restarted: str
    ) -> FlexNodeError:
        if isinstance(waiting_for, NodeOfAnother):
            return waiting_for
        explained = self._explained(host, since) or self._used_up(host, since)
        if isinstance(waiting_for, ApiUnreachable):
            # Nobody can tell, whatever the log says: one line of it may be about a client of this kubelet, or
            # about a moment that has passed. Only the kubelet's own words for the cut line are better.
            return explained if isinstance(explained, ApiUnreachable) else waiting_for
        if isinstance(explained, ApiUnreachable) and self.node.has_credential:
            # The API server answers this gate: it is the kubelet that does not get through.
            return self._not_ready(host, since, f"{waiting_for}: {explained.what}: {explained.why}")
        if restarted and not explained:
            return unit_failed(host, restarted, since)
        return explained or self._not_ready(host, since, waiting_for)

    def _explained(self, host: Host, since: float) -> FlexNodeError | None:
        found = explained_log(host, self.node.name, since, self.node.azure_method, self.node.token_id)
        if not (self.server_known and isinstance(found, CaMismatch)):
            return found
        # With a certificate this gate asks the API server itself: then it is a client that is not trusted.
        return None if self.node.has_credential else not_the_server(found)

    def _missing(self, seen: dict[str, Process], looks: Looks) -> str | ApiUnreachable | NodeOfAnother | None:
        """What the Node still lacks; None: it is Ready."""
        if idle := [unit for unit in self.units if seen[unit].state != "active"]:
            return f"{idle[0]} is {seen[idle[0]].state}"
        if not self.node.has_credential:
            return "the kubelet has no certificate yet: its request is not approved, or was not received"
        try:
            node, host = self.node.read(attempts=1), self.node.host
            by = looks.see(node, Ids.of(host), host.clock.monotonic(), new=self.new)
            if node is None:
                return "the Node is not registered yet"
            since = max((*(process.started for process in seen.values()), *self._changes()))
            if by in (By.OTHER, By.EARLIER):
                alive = by is By.OTHER and heartbeat(node) > since and ready_status(node) != UNKNOWN
                return conflict(self.node.name, node) if alive else NOT_YET
            ready, message = ready_condition(node)
            if not ready:
                return message
            if not self._is_fresh(heartbeat(node), since):
                return NOT_YET
        except ApiUnreachable as error:
            return error
        except CaMismatch as error:
            if not self.server_known:
                raise
            return not_the_server(error)
        except TokenSourceUnreachable as error:  # without a token nobody can ask
            return ApiUnreachable(error.what, where=error.where, why=error.why, fix=error.fix)
        except Forbidden as error:
            rejected = is_unauthorized(error) and not self.node.uses_tokens
            return f"{REJECTED if rejected else error.what}: {error.why}"
        if not self.versions:
            return None
        config = self.node.config
        reported = {"kubelet": kubelet_version(node), "containerd": runtime_version(node)}
        wanted = {"kubelet": str(config.kubernetes.version), "containerd": str(config.containerd.version)}
        old = [name for name in wanted if reported[name] != wanted[name]]
        return f"the Node still reports {old[0]} {reported[old[0]]}" if old else None

    def _changes(self) -> list[float]:
        """When something changed, by this machine's clock as it is now, which is also the kubelet's."""
        clock = self.node.host.clock
        return [clock.now() - (clock.monotonic() - moment) for moment in self.changed]

    def _is_fresh(self, beat: float, started: float) -> bool:
        """Whether the kubelet reported after all processes had started.

        A heartbeat has whole seconds. One of the very second of the start may be of the process before, so
        the Lease decides: it has microseconds. One of the future is of a clock that was set back since.
        """
        if beat > self.node.host.clock.now() + 1:
            return False
        if beat > started or beat < math.floor(started):
            return beat > started
        return renewed(self.node.api(attempts=1).lease(self.node.name) or {}) > started

    def _used_up(self, host: Host, since: float) -> TokenRefused | None:
        """A token is used for one join: one that was used and brought no certificate is not tried again."""
        if self.node.azure_method or self.node.has_credential:
            return None
        if not ANSWERED.search("\n".join(unit_log(host, KUBELET, since))):
            return None
        return TokenRefused(
            f"the kubelet asked for a certificate with bootstrap token {self.node.token_id}, and got none",
            where=self.node.name,
            why=f"the cluster did not approve its request within {self.seconds:g} s",
            fix=UNAPPROVED,
        )

    def _not_ready(self, host: Host, since: float, waiting_for: str | FlexNodeError) -> FlexNodeError:
        if isinstance(waiting_for, FlexNodeError):  # more precise than NodeNotReady
            return waiting_for
        fix = f"{log_of_failure(host, KUBELET)}{AGAIN}"
        if "cni" in waiting_for.lower() and self.node.config.cni.mode == "none":
            fix = (
                "cni.mode is `none`, so the cluster must provide a CNI plugin that runs on this node (those "
                "of AKS do not): install one, or set cni.mode: bridge and a cni.podCIDR of its own"
            )
        if waiting_for.startswith(REJECTED):
            means = "run this again" if self.node.azure_method else NEW_TOKEN
            fix = f"if this does not pass, {means}; the kubelet then requests a new certificate"
        return NodeNotReady(
            f"Node {self.node.name} is not Ready after {self.seconds:g} s",
            where=self.node.name,
            why=waiting_for,
            fix=fix,
        )
