# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure does one thing at a time on a cluster: how long changes of pools and machines wait for another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ....node.config.types.values import ArmId
from ....node.machine.clock import Clock, SystemClock
from ....node.sources.arm_answers import another_operation
from ...progress import Tell, silent
from ..errors import AzureRefuses, AzureUnavailable, PermissionMissing

if TYPE_CHECKING:  # it imports the Azure SDK, which whoever only plans does not need
    from ..arm import Arm

T = TypeVar("T")
# Of the cluster and its pools: states in which no operation runs.
SETTLED = ("succeeded", "failed", "canceled")
PAUSE, SECONDS = 5.0, 1200.0
TELL = 60.0  # seconds between two lines about the same operation


class Patience:
    """Tries changes again while Azure refuses them because another operation runs, an upgrade for example.

    All machines of a run share it: their time is over together, and there is one line for all of them.
    """

    def __init__(
        self,
        where: str,
        clock: Clock | None = None,
        *,
        pause: float = PAUSE,
        seconds: float = SECONDS,
        tell: Tell = silent,
    ) -> None:
        self._where, self._clock, self._tell = where, clock or SystemClock(), tell
        self._pause, self._seconds = max(pause, 0.1), seconds
        self._lock = threading.Lock()
        self._since: float | None = None  # when the first of the refusals came; None: nothing was refused
        self._told = float("-inf")

    def retried(self, change: Callable[[], T]) -> T:
        """Do a change, again if Azure says that another operation runs."""
        while True:
            try:
                done = change()
            except AzureRefuses as error:
                if not is_busy(error):
                    raise
                self._wait_for(error.why)
            else:
                self._since = None
                return done

    def pause(self) -> None:
        """Wait a moment."""
        self._clock.sleep(self._pause)

    def polled(self, left: Callable[[], T], seconds: float) -> T:
        """What is left after so many seconds at most; it is asked for until nothing is."""
        deadline = self._clock.monotonic() + seconds
        while (found := left()) and self._clock.monotonic() < deadline:
            self._clock.sleep(self._pause)
        return found

    def _wait_for(self, why: str) -> None:
        """One pause; an error after all of them."""
        with self._lock:
            now = self._clock.monotonic()
            self._since = now if self._since is None else self._since
            spent = now - self._since
            if spent >= self._seconds:
                raise self._late(why)
            if now - self._told >= TELL:
                self._told = now
                name = self._where.rpartition("/")[2]
                self._tell(
                    f"{name}: waiting for another operation ({why}), {spent:.0f} of {self._seconds:.0f} s"
                )
        self._clock.sleep(self._pause)

    def _late(self, why: str) -> AzureUnavailable:
        return AzureUnavailable(
            "another operation on the cluster does not finish",
            where=self._where,
            why=f"{why}, after {self._seconds:.0f} s",
            fix="wait until it has finished (az aks operation show-latest), then run this again; "
            "operation_timeout waits longer",
        )


class Idle(Patience):
    """Waits for the operation that runs on a cluster before a change: a pool can't be changed meanwhile."""

    def __init__(self, arm: Arm, cluster: ArmId, clock: Clock, *, pause: float, seconds: float) -> None:
        super().__init__(cluster.canonical(), clock, pause=pause, seconds=seconds)
        self._arm = arm

    def wait(self) -> None:
        """Wait until no operation runs. A login that may not read the cluster does not wait."""
        deadline = self._clock.monotonic() + self._seconds
        while (state := str(self._properties().get("provisioningState") or "")).lower() not in (*SETTLED, ""):
            if self._clock.monotonic() >= deadline:
                raise self._late(f"the cluster is {state}")
            self._clock.sleep(self._pause)

    def retried(self, change: Callable[[], T]) -> T:
        """Do a change when no operation runs, again if Azure says that another one does."""

        def when_idle() -> T:
            self.wait()
            return change()

        return super().retried(when_idle)

    def control_plane(self) -> str:
        """The version of the control plane; empty if the login may not read the cluster."""
        found = self._properties()
        return str(found.get("currentKubernetesVersion") or found.get("kubernetesVersion") or "")

    def _properties(self) -> Mapping[str, Any]:
        try:
            found = self._arm.get(self._where) or {}
        except PermissionMissing:
            return {}
        return found.get("properties") or {}


def is_busy(error: AzureRefuses) -> bool:
    """Whether Azure refused a change because another operation runs on the cluster, not for good."""
    return error.refusal is not None and another_operation(error.refusal.error)
