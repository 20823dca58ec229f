# SPDX-License-Identifier: GPL-3.0-or-later
"""How end-to-end tests look at machines and Nodes: from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from testbed import Testbed
from testbed.machine import Machine
from testbed.playbooks import Play, join_document, play, write_inventory

__all__ = ["join_document", "play", "write_inventory"]

# Asked directly: kubectl needs ten times the processor for one question, and tests ask until something is so.
NODES = "/api/v1/nodes"


def succeeded(run: Play) -> Play:
    """The run, which must have worked; a failure shows what the user would have seen."""
    assert run.status == 0, run.output
    assert "Callback dispatch" not in run.output, "the output itself could not be shown"
    return run


def node(bed: Testbed, name: str) -> dict[str, Any]:
    """A Node as the API server has it."""
    return bed.cluster.api().get(f"{NODES}/{name}")


def node_names(bed: Testbed) -> set[str]:
    """All Nodes of the cluster."""
    return {one["metadata"]["name"] for one in bed.cluster.api().get(NODES)["items"]}


def is_ready(found: Mapping[str, Any]) -> bool:
    """Whether a Node says that it is Ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"]["conditions"])


def eventually(what: str, look: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true answer within a time limit; waits at least as long as it looks."""
    began = asked = time.monotonic()
    while not (answer := look()):
        now = time.monotonic()
        if now >= began + seconds:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(max(0.5, min(now - asked, 2)))
        asked = time.monotonic()
    return answer


def main_pids(machine: Machine) -> dict[str, str]:
    """The main process of each of our services."""
    units = ("containerd.service", "kubelet.service")
    shown = machine.run(["systemctl", "show", "--property=MainPID", "--value", *units]).stdout.split()
    return dict(zip(units, shown, strict=True))


# Everything a node's configuration touches. What daemons write by themselves is not configuration: their
# state below /var/lib/kubelet and /var/lib/containerd, and what systemd and Debian keep about themselves.
WATCHED = ("/etc", "/usr/local", "/opt", "/var/lib")
UNWATCHED = (
    "/var/lib/kubelet/*",
    "/var/lib/containerd/*",
    "/var/lib/cni/*",
    "/var/lib/systemd/*",
    "/var/lib/private/*",
    "/etc/resolv.conf",
    "*/__pycache__*",
)


def snapshot(machine: Machine) -> str:
    """Name, type, mode, owner, size, time and link target of every file that matters."""
    excluded = [word for pattern in UNWATCHED for word in ("-not", "-path", pattern)]
    listing = machine.run(
        ["find", *WATCHED, "-xdev", *excluded, "-not", "-type", "d", "-printf", "%p %y %m %U:%G %s %T@ %l\\n"]
    )
    return "\n".join(sorted(listing.stdout.splitlines()))
