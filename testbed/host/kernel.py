# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings that are not per machine here: every node machine shares the kernel of this one.

A real node sets them for itself and restores them when it leaves. Here that would change them for the other
machines too (a kubelet refuses to start with other values), so they are set once for all machines, before any
of them starts, and restored with the last testbed.
"""

from __future__ import annotations

import json
from pathlib import Path

from testbed.basics import files
from testbed.basics.progress import say

SHARED = {
    "kernel.keys.root_maxbytes": "25000000",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "net.ipv4.ip_forward": "1",  # of this machine, which routes between its nodes
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
}


# Each kubelet, containerd and systemd takes a few of these, and Debian's default is for one machine.
AT_LEAST = {"fs.inotify.max_user_instances": 1024, "fs.inotify.max_user_watches": 524288}


def settle(record: Path) -> None:
    """Set the values that nodes need, and record the prior ones."""
    wanted = {name: value for name, value in SHARED.items() if _read(name) != value}
    wanted |= {name: str(least) for name, least in AT_LEAST.items() if int(_read(name)) < least}
    if not wanted:
        return
    say(f"... set {', '.join(f'{name}={value}' for name, value in wanted.items())}: nodes share this kernel")
    files.write(record, json.dumps({**{name: _read(name) for name in wanted}, **_recorded(record)}))
    for name, value in wanted.items():
        _path(name).write_text(value, encoding="ascii")


def restore(record: Path) -> None:
    """Restore what settle() changed."""
    for name, value in _recorded(record).items():
        _path(name).write_text(value, encoding="ascii")
    record.unlink(missing_ok=True)


def _path(name: str) -> Path:
    return Path("/proc/sys") / name.replace(".", "/")


def _read(name: str) -> str:
    return _path(name).read_text(encoding="ascii").strip()


def _recorded(record: Path) -> dict[str, str]:
    try:
        return dict(json.loads(record.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
