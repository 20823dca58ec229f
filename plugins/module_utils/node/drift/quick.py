# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every tick looks at: kubelet, containerd, VPN. A few files are read, and no process is started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from ..engine.records.checked import is_due
from ..engine.records.state import Phase, Store
from ..errors import FlexNodeError, counted
from ..machine.host import Host
from ..machine.layout import BIN_DIR, CONTAINERD, KUBELET, KUBELET_DEFAULTS, UNIT_DIR, VPN, enabled
from ..machine.running import age_of, main_process, runs_installed

BINARIES = {CONTAINERD: "containerd", KUBELET: "kubelet"}
WORKING = (
    Phase.NODE_JOINED.value,
    Phase.NODE_FAILED.value,
    Phase.NODE_BOOTSTRAPPING.value,
    Phase.VPN_FAILED.value,  # of a node whose new profile does not work
)
# Of a node whose registration was checked or made again: that stops neither its kubelet nor its containerd.
OF_ARC = (Phase.ARC_REGISTERING.value, Phase.ARC_FAILED.value)


def looks_wrong(host: Host, store: Store) -> str:
    """Why a repair is needed, in one sentence; empty: kubelet and containerd run, and are the installed ones.

    Only with drift.mode `repair`. What is contended is left alone, and a failed repair has its pause.
    """
    if _policy(store)["mode"] != "repair":
        return ""
    for key, sentence, down in (*wrong_services(host), *wrong_tunnel(host, store)):
        from .record import DriftRecord  # only if there is something to look up

        record = DriftRecord.of(store)
        pauses = record.waits(host.clock.now()) and not (down and record.waits_for_others)
        if not pauses and key not in record.left_alone:
            return sentence
    return ""


def check_due(host: Host, store: Store) -> bool:
    """Whether it is time to compare the whole machine with its configuration."""
    policy = _policy(store)
    return policy["mode"] != "off" and is_due(host, policy["interval"])


def _policy(store: Store) -> dict[str, Any]:
    """drift.mode and drift.interval of the applied configuration; a machine that is no node has no drift."""
    with contextlib.suppress(FlexNodeError):  # damaged: the poll reports it
        state = store.state()
        if state["phase"] in WORKING or only_arc_failed(state):
            return state.get("drift") or {"mode": "off"}  # only a machine that has joined has one
    return {"mode": "off"}


def only_arc_failed(state: Mapping[str, Any]) -> bool:
    """Whether the last run got no further than Azure Arc, and not after a leave that was interrupted.

    A machine that has joined is still a node then.
    """
    return state["phase"] in OF_ARC and not state.get("leaving")


def wrong_services(host: Host) -> Iterator[tuple[str, str, bool]]:
    """Each item that is wrong: its key, what is wrong in one sentence, and whether the service is down."""
    for unit, name in BINARIES.items():
        unit_file, link = f"{UNIT_DIR}/{unit}", enabled(unit)[0]
        if (state := host.stat(unit_file)).is_ != "file":
            how = "masked" if state.target == "/dev/null" else f"replaced by a {state.is_}"
            yield f"file:{unit_file}", f"{unit} is {'missing' if state.absent else how}", False
        if host.stat(link).absent:
            yield f"link:{link}", f"{unit} is disabled", False
        pid = main_process(host, unit, name) or _known_to_systemd(host, unit)
        if pid is None:
            yield f"unit:{unit}", f"{unit} does not run", True
        elif pid and not runs_installed(host, pid, f"{BIN_DIR}/{name}"):
            yield f"unit:{unit}", f"{unit} does not run {BIN_DIR}/{name}", False


def unsteady_services(host: Host) -> Iterator[str]:
    """Each service that runs now and does not keep running, in one sentence. A repair would not help.

    systemd is asked only about young processes.
    """
    pids = {unit: main_process(host, unit, name) for unit, name in BINARIES.items()}
    ages = {unit: age_of(host, pid) if pid else None for unit, pid in pids.items()}
    from ..resources.units import STEADY, processes

    young = tuple(unit for unit, age in ages.items() if age is None or age < STEADY)
    for unit, process in processes(host, young).items():
        if process.exits:
            count = counted(process.restarts, "time")
            yield f"{unit} exits after its start, and was restarted {count}: journalctl -u {unit} -n 50"


def wrong_tunnel(host: Host, store: Store) -> Iterator[tuple[str, str, bool]]:
    """The client of the VPN does not run, or the gateway has assigned another address to this node.

    Then the kubelet has to announce that one: the API server reaches the node by it.
    """
    if host.stat(f"{UNIT_DIR}/{VPN}").is_ != "file":
        return
    if not main_process(host, VPN, "openvpn") and _known_to_systemd(host, VPN) is None:
        yield f"unit:{VPN}", f"{VPN} does not run", True
        return
    from ..net.tunnel import tunnel_of

    tunnel, known = tunnel_of(host), (store.state().get("facts") or {}).get("tunnel_address")
    if tunnel and tunnel.address and known and tunnel.address != known:
        announced = f"--node-ip={known}" in host.text(KUBELET_DEFAULTS)
        if announced:
            yield (
                f"file:{KUBELET_DEFAULTS}",
                f"the VPN has assigned {tunnel.address} instead of {known}",
                True,
            )


def _known_to_systemd(host: Host, unit: str) -> int | None:
    """The main process of a unit that has none of the expected name; 0: it starts; None: it is stopped."""
    from ..resources.units import RUNNING, unit_states

    state = unit_states(host, (unit,))[unit]
    return int(state["MainPID"] or 0) if state["ActiveState"] in RUNNING else None
