# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status for Prometheus: a file for node_exporter's textfile collector, where that is installed."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..machine.host import Host
from ..machine.layout import TEXTFILE_DIRECTORIES
from .reasons import Verdict, verdict_of

NAME = "aks_flex_node.prom"
HEADER = "# Written by aks-flex-node on change (node_textfile_mtime_seconds); unbootstrap removes it.\n"


def write_textfiles(host: Host, status: Mapping[str, Any]) -> None:
    """Write the file where a collector reads it and it differs. A file of that name by others stays."""
    content = (HEADER + "".join(metrics(status))).encode()
    for directory in present(host):
        path = f"{directory}/{NAME}"
        before = host.read(path)
        clear_half_written(host, directory)
        if before != content and (before is None or is_ours(before)):
            host.write(path, content, 0o644)


def has_textfiles(host: Host) -> bool:
    """Whether this collection wrote any, whole or half."""
    return any(
        is_ours(host.read(f"{directory}/{NAME}") or b"") or half_written(host, directory)
        for directory in present(host)
    )


def remove_textfiles(host: Host) -> None:
    """Remove the files that this collection wrote."""
    for directory in present(host):
        clear_half_written(host, directory)
        if is_ours(host.read(f"{directory}/{NAME}") or b""):
            host.remove(f"{directory}/{NAME}")


def present(host: Host) -> list[str]:
    """The directories that exist: a machine without a collector gets no file."""
    return [directory for directory in TEXTFILE_DIRECTORIES if host.stat(directory).is_ == "directory"]


def is_ours(content: bytes) -> bool:
    """Whether this collection wrote a file."""
    return content.startswith(HEADER.encode())


def half_written(host: Host, directory: str) -> list[str]:
    """Files of a run that was killed; a collector does not read them."""
    return [leftover for leftover, name in host.leftovers(directory).items() if name == NAME]


def clear_half_written(host: Host, directory: str) -> None:
    """Remove them."""
    for leftover in half_written(host, directory):
        host.remove(f"{directory}/{leftover}")


def metrics(status: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the file, without times: a file that is the same is not written."""
    node, config = status["node"], status["config"]
    labels = {
        "node": node.get("name", ""),
        "phase": status["phase"],
        "reason": status["reason"],
        "config_version": config["version"] or "",
        "applied_version": config["appliedVersion"] or "",
        "kubelet_version": node.get("kubeletVersion", ""),
    }
    shown = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    yield metric("info", "State of this node; the value is always 1", 1, shown)
    right = verdict_of(status) is Verdict.RIGHT
    yield metric("configured", "Whether the machine is as its configuration says", int(right))
    yield metric("ready", "Whether the Node was Ready at the last change of the status", int(node["ready"]))
    yield metric("drift_items", "Items that differ from the configuration", len(status["drift"]))
    refused = bool(config.get("refused")) or status["monitoring"].get("blockedVersion") is not None
    yield metric("config_refused", "Whether the last configuration was refused or rolled back", int(refused))
    if expires := (node.get("certificate") or {}).get("expires"):
        text = "When the kubelet's client certificate expires"
        yield metric("certificate_expiry_timestamp_seconds", text, epoch(expires))


def metric(name: str, text: str, value: int, labels: str = "") -> str:
    """One gauge."""
    full = f"aks_flex_node_{name}"
    shown = f"{{{labels}}}" if labels else ""
    return f"# HELP {full} {text}.\n# TYPE {full} gauge\n{full}{shown} {value}\n"


def escaped(value: object) -> str:
    """A label's value, as Prometheus reads it."""
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def epoch(stamp: str) -> int:
    """Seconds since the epoch."""
    return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S+00:00"))
