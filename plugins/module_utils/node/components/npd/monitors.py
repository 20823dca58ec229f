# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What node-problem-detector watches: the kernel's log, mounts, restarts, and the status of this collection.

Its rules have a fixed reason each, and two rules of one condition would undo each other's answer. So every
condition has the rules of one kind only: either messages of the kernel, or one program that looks at the
present state and says so with its exit status (0: no problem, 1: problem, else: unknown).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...config.model import NodeConfig
from ...machine.layout import BIN_DIR, CONTAINERD, KUBELET, NPD_DIR
from ...machine.program import COMMAND
from ..system_config import HEADER

Document = Mapping[str, Any]
FILESYSTEMS, RESTARTS = f"{NPD_DIR}/filesystems.awk", f"{NPD_DIR}/restarts.sh"
LOG_MONITOR, PROGRAM_MONITOR = "system-log-monitor", "custom-plugin-monitor"  # as its flags name them
LONGEST = 256  # characters of a message, as in the status of this collection
RESTARTED, MINUTES = 5, 20  # restarts in this time are a problem
RESTART_SCHEDULED = "5eb03494b6584870a536b337290809b3"  # systemd restarts a unit by itself

# Each message has to match up to its end.
EVENTS = {
    "OOMKilling": r"Killed process \d+ \(.+\) total-vm:.*",
    "TaskHung": r"task .+:\d+ blocked for more than \d+ seconds\..*",
    "SoftLockup": r"soft lockup - CPU#\d+ stuck for .*",
    "KernelOops": r"(BUG: unable to handle|BUG: kernel NULL pointer|Oops: |general protection fault).*",
    "UnregisterNetDevice": r"unregister_netdevice: waiting for .+ to become free.*",
    "FilesystemError": r"(EXT4-fs error|BTRFS (error|critical)|XFS .+(Corruption|Shutting down)).*",
    "FilesystemReadOnly": r"(Remounting filesystem read-only|forced readonly).*",
    "IOError": r"(Buffer I/O error|I/O error, dev) .*",
    "HardwareError": r"\[Hardware Error\].*",
}
# What only a reboot repairs, and what the containers of a node need.
HUNG = r"task (kubelet|containerd|containerd-shim|runc)\S*:\d+ blocked for more than \d+ seconds\..*"


def monitors(config: NodeConfig) -> dict[str, tuple[str, Document]]:
    """All monitors: name of the file -> its kind and its content."""
    return {
        "kernel.json": (LOG_MONITOR, kernel()),
        "filesystems.json": (PROGRAM_MONITOR, filesystems(config)),
        "restarts.json": (PROGRAM_MONITOR, restarts()),
        "flexnode.json": (PROGRAM_MONITOR, own_status()),
    }


def condition_types(config: NodeConfig) -> tuple[str, ...]:
    """The conditions that node-problem-detector reports at the Node; none if it is not installed."""
    if config.npd.version is None:
        return ()
    documents = (document for _kind, document in monitors(config).values())
    return tuple(condition["type"] for document in documents for condition in document["conditions"])


def rendered(document: Document) -> str:
    """A monitor as a file."""
    return json.dumps(document, indent=2) + "\n"


def kernel() -> Document:
    """Messages of the kernel: an event each; a task of the node that hangs is a condition."""
    return {
        "plugin": "kmsg",
        "logPath": "/dev/kmsg",
        # What was logged while it was not running: at boot, or during an update.
        "lookback": "5m",
        "bufferSize": 10,
        "source": "kernel-monitor",
        "conditions": [_no_problem("KernelDeadlock", "KernelHasNoDeadlock", "no task of this node hangs")],
        "rules": [
            *({"type": "temporary", "reason": reason, "pattern": text} for reason, text in EVENTS.items()),
            {
                "type": "permanent",
                "condition": "KernelDeadlock",
                "reason": "NodeTaskHung",
                "pattern": HUNG,
            },
        ],
    }


def filesystems(config: NodeConfig) -> Document:
    """A file system that the node has to write, and that is mounted read-only."""
    paths = config.paths
    needed = ("/", "/var/lib/containerd", "/var/log", paths.kubernetes.kubelet_dir, paths.data_dir)
    wanted = f"directories={' '.join(dict.fromkeys(needed))}"
    return _program(
        "filesystem-monitor",
        5,
        [_no_problem("ReadonlyFilesystem", "FilesystemIsNotReadOnly", "file systems are writable")],
        [
            _rule(
                "ReadonlyFilesystem", "FilesystemIsReadOnly", "/usr/bin/awk", "-v", wanted, "-f", FILESYSTEMS
            )
        ],
    )


def restarts() -> Document:
    """A service of the node that does not stay up."""
    shell = "/bin/sh"
    return _program(
        "systemd-monitor",
        60,
        [
            _no_problem("FrequentKubeletRestart", "NoFrequentKubeletRestart", "the kubelet stays up"),
            _no_problem("FrequentContainerdRestart", "NoFrequentContainerdRestart", "containerd stays up"),
        ],
        [
            _rule("FrequentKubeletRestart", "FrequentKubeletRestart", shell, RESTARTS, KUBELET),
            _rule("FrequentContainerdRestart", "FrequentContainerdRestart", shell, RESTARTS, CONTAINERD),
        ],
    )


def own_status() -> Document:
    """What the status of this collection says; its reason code begins the message."""
    return _program(
        "aks-flex-node",
        30,
        [_no_problem("FlexNodeProblem", "NoFlexNodeProblem", "this machine is as its configuration says")],
        [_rule("FlexNodeProblem", "FlexNodeNotAsConfigured", f"{BIN_DIR}/{COMMAND}", "problem")],
    )


def _no_problem(condition: str, reason: str, message: str) -> Document:
    """A condition as it is while nothing is wrong."""
    return {"type": condition, "reason": reason, "message": message}


def _rule(condition: str, reason: str, program: str, *arguments: str) -> Document:
    return {
        "type": "permanent",
        "condition": condition,
        "reason": reason,
        "path": program,
        "args": [*arguments, "/proc/1/mountinfo"] if program.endswith("awk") else [*arguments],
    }


def _program(source: str, seconds: int, conditions: list[Document], rules: list[Document]) -> Document:
    return {
        "plugin": "custom",
        "pluginConfig": {
            "invoke_interval": f"{seconds}s",
            "timeout": "20s",
            "max_output_length": LONGEST,
            "concurrency": 1,
            # Another reason code is another problem, with an event of its own.
            "enable_message_change_based_condition_update": True,
        },
        "source": source,
        "conditions": conditions,
        "rules": rules,
    }


# Of process 1, because node-problem-detector itself sees everything read-only.
AWK = f"""{HEADER}# Reads /proc/1/mountinfo; prints the mounts of `directories` that can't be written.
BEGIN {{ count = split(directories, directory, " ") }}
{{
  point = $5
  for (dash = 7; dash < NF && $dash != "-"; dash++) ;
  options = "," $6 "," $(dash + 3) ","
  above = point == "/" ? "/" : point "/"
  for (i = 1; i <= count; i++)
    if (index(directory[i] "/", above) == 1 && length(point) >= length(place[i])) {{
      place[i] = point
      closed[i] = options ~ /,(ro|emergency_ro),/
    }}
}}
END {{
  for (i = 1; i <= count; i++)
    if (closed[i] && !(place[i] in named)) {{
      named[place[i]] = 1
      list = list (list == "" ? "" : ", ") place[i]
    }}
  if (list == "") exit 0
  print "mounted read-only: " list
  exit 1
}}
"""

SHELL = f"""#!/bin/sh
{HEADER}# How often systemd restarted a unit by itself: restarts by people and by updates do not count.
command -v journalctl >/dev/null || exit 2
scheduled=MESSAGE_ID={RESTART_SCHEDULED}
times=$(journalctl --quiet --since=-{MINUTES}min --output=cat "$scheduled" "UNIT=$1" | wc -l)
[ "$times" -ge {RESTARTED} ] || exit 0
echo "$1 was restarted $times times in {MINUTES} minutes: journalctl -u $1"
exit 1
"""
