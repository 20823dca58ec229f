# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's control groups: pure v2, or v1 hierarchies that nodes must find complete."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.basics import files
from testbed.basics.process import run

ROOT = Path("/sys/fs/cgroup")
# What container runtimes and the kubelet look for on v1 besides the controllers that are always there.
NEEDED_ON_V1 = (("net_cls", "net_prio"), ("perf_event",), ("hugetlb",))


def is_v2(root: Path = ROOT) -> bool:
    """Whether the machine has the unified hierarchy only."""
    return (root / "cgroup.controllers").is_file()


def unmounted(proc_cgroups: str, mounts: str) -> list[str]:
    """The needed v1 controllers (as mount options) that the kernel has and that are mounted nowhere.

    A hierarchy that still has members outlives its mount: only the mounts tell.
    """
    rows = [line.split() for line in proc_cgroups.splitlines() if not line.startswith("#")]
    mounted = {
        option
        for fields in (line.split() for line in mounts.splitlines())
        if len(fields) > 3 and fields[2] == "cgroup"
        for option in fields[3].split(",")
    }
    free = {fields[0] for fields in rows if len(fields) == 4 and fields[3] == "1"} - mounted
    groups = (tuple(name for name in group if name in free) for group in NEEDED_ON_V1)
    return [",".join(group) for group in groups if group]


def complete(record: Path) -> None:
    """Mount the missing v1 controllers and remember which, so that the last testbed can take them back."""
    if is_v2():
        return
    kernel = Path("/proc/cgroups").read_text(encoding="ascii")
    for names in unmounted(kernel, Path("/proc/self/mounts").read_text(encoding="utf-8")):
        target = ROOT / names
        target.mkdir(exist_ok=True)
        mounted = _recorded(record)
        files.write(record, json.dumps(sorted({*mounted, names})))
        run(["mount", "-t", "cgroup", "-o", names, "cgroup", target])


def restore(record: Path) -> None:
    """Unmount what complete() mounted; a hierarchy that still has members stays until they are gone."""
    left = []
    for names in _recorded(record):
        target = ROOT / names
        if target.is_mount() and run(["umount", target], check=False).returncode != 0:
            left.append(names)
        elif target.is_dir():
            target.rmdir()
    if left:
        files.write(record, json.dumps(left))
    else:
        record.unlink(missing_ok=True)


def _recorded(record: Path) -> list[str]:
    try:
        return list(json.loads(record.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []
