# SPDX-License-Identifier: GPL-3.0-or-later
"""A photograph of a machine: every file to the byte, every setting we touch, units and programs."""

from __future__ import annotations

import json
from typing import Any

from testbed.machine import Machine

PLACES = ("/etc", "/usr/local", "/opt", "/var/lib")
# Not ours, and alive: what systemd, Debian and the resolver keep about themselves while a machine runs.
EXCLUDED = (
    "/var/lib/systemd",
    "/var/lib/private",
    "/var/lib/dbus",
    "/var/lib/sudo",
    "/etc/resolv.conf",
    "/etc/hosts",
)
# Directories there, by name and mode: what is in them changes all the time.
NAMED = ("/var/log", "/run")
# Until the next boot: docs/undo.md, "What stays". /run/sudo is of the login that looks.
PASSING = ("/run/aks-flex-node", "/run/netns", "/run/nri", "/run/sudo")
SYSCTLS = (
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.accept_redirects",  # the kernel resets these with ip_forward
    "net.ipv4.conf.default.forwarding",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "kernel.panic",
    "kernel.panic_on_oops",
    "kernel.keys.root_maxkeys",
    "kernel.keys.root_maxbytes",
)
# Runs on the machine, as root; the times of files count, those of directories do not: an entry that comes
# and goes must change them.
CAMERA = """
import hashlib, json, os, stat, subprocess, sys
OURS = ("flex-node", "kube", "containerd", "node-problem")
places, excluded, named, passing, sysctls, units = json.load(sys.stdin)
files = {}
for place in places:
    for directory, names, entries in os.walk(place):
        names[:] = [n for n in names if os.path.join(directory, n) not in excluded]
        for path in [directory, *(os.path.join(directory, n) for n in entries + names)]:
            if path in excluded:
                continue
            seen = os.lstat(path)
            facts = [stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid]
            if stat.S_ISLNK(seen.st_mode):
                facts.append(os.readlink(path))
            elif stat.S_ISREG(seen.st_mode):
                facts += [seen.st_mtime_ns, hashlib.sha256(open(path, "rb").read()).hexdigest()]
            files[path] = facts
entries = {}
for place in named:
    for entry in os.scandir(place):
        if entry.path not in passing and entry.is_dir(follow_symlinks=False):
            seen = entry.stat(follow_symlinks=False)
            entries[entry.path] = [stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid]
settings = {}
for name in sysctls:
    try:
        settings[name] = open("/proc/sys/" + name.replace(".", "/")).read().strip()
    except FileNotFoundError:
        settings[name] = None
states = {}
for unit in units:
    question = ["systemctl", "show", "-p", "LoadState,ActiveState,UnitFileState", unit]
    states[unit] = subprocess.run(question, capture_output=True, text=True).stdout.split()
kinds = ["--type=service,timer", "--state=active,failed"]
listed = ["systemctl", "list-units", "--plain", "--no-legend", *kinds]
lines = subprocess.run(listed, capture_output=True, text=True).stdout.splitlines()
# Others come and go: those of a login, what a timer starts.
active = [name for name in (line.split()[0] for line in lines) if any(word in name for word in OURS)]
programs = set()
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        program = os.readlink("/proc/%s/exe" % pid)  # also of a file that is gone
    except OSError:
        continue
    if program.startswith(("/opt/", "/usr/local/")):
        programs.add(program)
rows = [line.split() for line in open("/proc/swaps").read().splitlines()[1:]]
swaps = [[row[0], max(int(row[4]), -1)] for row in rows]  # a negative priority is the kernel's own counter
print(json.dumps({
    "files": files,
    "entries": entries,
    "sysctls": settings,
    "units": states,
    "active": active,
    "programs": sorted(programs),
    "swaps": swaps,
}))
"""
UNITS = ("containerd.service", "kubelet.service", "kubepods.slice")


def photograph(machine: Machine) -> dict[str, Any]:
    """The machine as it is now."""
    question = json.dumps([PLACES, EXCLUDED, NAMED, PASSING, SYSCTLS, UNITS])
    answer: dict[str, Any] = json.loads(machine.run(["python3", "-c", CAMERA], input=question).stdout)
    return answer


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not the same in two photographs, one line each."""
    return [
        f"{part}: {key}: {was.get(key)} -> {now.get(key)}"
        for part in before
        for was, now in [(_mapping(before[part]), _mapping(after[part]))]
        for key in sorted(was.keys() | now.keys())
        if was.get(key) != now.get(key)
    ]


def _mapping(part: Any) -> dict[str, Any]:
    return part if isinstance(part, dict) else {str(item): True for item in part}
