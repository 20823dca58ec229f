# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates: conditions that must hold before a run counts as a success."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import (
    ApiUnreachable,
    FlexNodeError,
    Forbidden,
    NodeNotReady,
    TokenRefused,
)
from ..machine.host import Host
from ..machine.layout import KUBELET
from ..resources.units import unit_states
from .conditions import kubelet_version, ready_condition
from .kubelet_log import ANSWERED, RENEW, explained_log, refused, unit_failed, unit_log
from .this_node import ThisNode

POLL_EVERY = 0.1
READ_LOG_EVERY = 2.0
JUST_BEFORE = 5  # seconds: units are started right before their gate
TOO_MANY_STARTS = 3  # a kubelet that was restarted this often within one gate will not stay up


@dataclass(frozen=True, slots=True)
class UnitsActive:
    """systemd reports the units as active."""

    units: tuple[str, ...]
    seconds: float = 60

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "active units"

    def pass_(self, host: Host) -> None:
        """Wait until all units are active; a failed unit ends the wait at once."""
        deadline = host.clock.monotonic() + self.seconds
        since = host.clock.now() - JUST_BEFORE
        while True:
            states = unit_states(host, self.units)
            waiting = [unit for unit in self.units if states[unit]["ActiveState"] != "active"]
            if not waiting:
                return
            failed = [unit for unit in waiting if states[unit]["ActiveState"] == "failed"]
            if failed or host.clock.monotonic() >= deadline:
                raise unit_failed(host, (failed or waiting)[0], since)
            host.clock.sleep(POLL_EVERY)


@dataclass(frozen=True, slots=True)
class NodeReady:
    """The API server reports the Node as Ready, with the configured kubelet version."""

    node: ThisNode
    seconds: float = 120

    @property
    def condition(self) -> str:
        """For progress lines."""
        return "Node Ready"

    def pass_(self, host: Host) -> None:
        """Poll the API server as the kubelet until the Node is Ready; fail early when waiting can't help."""
        node, deadline = self.node, host.clock.monotonic() + self.seconds
        began = math.ceil(host.clock.now())  # errors that an earlier kubelet process logged do not count
        since = began - JUST_BEFORE
        starts = kubelet_restarts(host)
        read_log = host.clock.monotonic() + READ_LOG_EVERY
        while True:
            waiting_for = self._missing()
            if waiting_for is None:
                return
            now = kubelet_restarts(host)
            # A kubelet whose certificate request is refused does not exit: it keeps asking.
            due = host.clock.monotonic() >= read_log and not node.has_credential
            if (due or now > starts) and (hopeless := refused(host, node.name, began, node.azure_method)):
                raise hopeless
            if due:
                read_log = host.clock.monotonic() + READ_LOG_EVERY
            if now - starts >= TOO_MANY_STARTS:
                raise self._explained(host, since) or unit_failed(host, KUBELET, since)
            if host.clock.monotonic() >= deadline:
                explained = self._explained(host, since) or self._used_up(host, since)
                raise explained or self._not_ready(waiting_for)
            host.clock.sleep(POLL_EVERY)

    def _explained(self, host: Host, since: float) -> FlexNodeError | None:
        return explained_log(host, self.node.name, since, self.node.azure_method)

    def _missing(self) -> str | ApiUnreachable | None:
        """What the Node still lacks; None: it is Ready."""
        if not self.node.has_credential:
            return "the kubelet has no certificate yet: its request is not approved, or was not received"
        try:
            node = self.node.read(attempts=1)
        except ApiUnreachable as error:
            return error
        except Forbidden as error:
            return f"{error.what}: {error.why}"
        if node is None:
            return "the Node is not registered yet"
        ready, message = ready_condition(node)
        if not ready:
            return message
        version = kubelet_version(node)
        configured = str(self.node.config.kubernetes.version)
        return None if version == configured else f"the Node still reports kubelet {version}"

    def _used_up(self, host: Host, since: float) -> TokenRefused | None:
        """A token is valid for one join: a token that was used without getting a certificate is spent."""
        if self.node.azure_method or self.node.has_credential:
            return None
        if not ANSWERED.search("\n".join(unit_log(host, KUBELET, since))):
            return None
        return TokenRefused(
            "the bootstrap token is used up, and the kubelet has no certificate",
            where=self.node.name,
            why=f"its request was not approved within {self.seconds:g} s",
            fix=f"check that the cluster approves such requests (`kubectl get csr`), then {RENEW}",
        )

    def _not_ready(self, waiting_for: str | ApiUnreachable) -> FlexNodeError:
        if isinstance(waiting_for, ApiUnreachable):  # more precise than NodeNotReady
            return waiting_for
        fix = "read `journalctl -u kubelet -n 50`, fix the cause, then run this again"
        if "cni" in waiting_for.lower() and self.node.config.cni.mode == "none":
            fix = (
                "cni.mode is `none`, so the cluster must provide a CNI plugin that runs on this node (those "
                "of AKS do not): install one, or set cni.mode: bridge and a cni.podCIDR of its own"
            )
        return NodeNotReady(
            f"Node {self.node.name} is not Ready after {self.seconds:g} s",
            where=self.node.name,
            why=waiting_for,
            fix=fix,
        )


def kubelet_restarts(host: Host) -> int:
    """How often systemd has restarted the kubelet since it was started."""
    return int(unit_states(host, (KUBELET,))[KUBELET]["NRestarts"] or 0)
