# SPDX-License-Identifier: GPL-3.0-or-later
"""A command during which the power is cut, at a moment that the machine itself notices."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable
from select import select

from testbed.machine.vm import VirtualMachine
from tests.vm.acts import Moment

SECONDS = 900
# Written without a sync: one when the command starts, minutes before the cut, and one right before it.
EARLY, LATE = "/var/tmp/canary-early", "/var/tmp/canary-late"
PROBE, QUIET_SECONDS = "/var/tmp/canary-probe", 30
# A kernel writes to the disk by itself what nobody synced: after 5 to 30 seconds, or when a tenth of the
# memory waits to be written (an update fetches that much), the oldest first; a control group that wrote
# little has little of that tenth. A missing sync shows only until then. On this machine nothing gets there
# until a program asks for it, or memory is short.
LAZY = (
    "mount -o remount,commit=9999 /",
    "sysctl --quiet -w vm.dirty_writeback_centisecs=0 vm.dirty_ratio=90 vm.dirty_background_ratio=80",
)
SHARE, PERCENT = "/sys/class/bdi/{}/min_ratio", "90"  # what a disk has of those limits at least
# Runs on the machine: starts the command, and stops it (SIGSTOP) as soon as the moment has come. A power cut
# leaves what is on the disk then; what is only in memory is lost, such as the canaries.
WATCHER = """
import glob, json, os, signal, subprocess, sys, time
def canary(path):
    with open(path, "w") as file:
        file.write("not synced")
(moment, early, late), argv = json.loads(sys.argv[1]), sys.argv[2:]
kind, *where = moment
def text(path):
    try:
        return open(path).read()
    except OSError:
        return ""
def come():
    if kind == "exists":
        return bool(glob.glob(where[0]))
    if kind == "gone":
        return not os.path.lexists(where[0])
    if kind == "holds":
        return where[1] in text(where[0])
    if kind == "leads to":
        return where[1] in os.path.realpath(where[0])
    if kind in ("runs", "runs not"):
        return runs(*where) == (kind == "runs")
    return False
def runs(name, version=""):
    for pid in os.listdir("/proc"):
        try:
            program = os.readlink("/proc/%s/exe" % pid)
        except OSError:
            continue
        if os.path.basename(program) == name and version in program:
            return True
    return False
canary(early)
child = subprocess.Popen(argv, stdout=open("/run/cut.log", "w"), stderr=subprocess.STDOUT)
while child.poll() is None:
    if come():
        os.kill(child.pid, signal.SIGSTOP)
        canary(late)
        print("cut", flush=True)
        time.sleep(600)
    time.sleep(1 if kind == "ended" else 0.01)  # looking more often would slow the command itself
canary(late)
print("ended" if kind == "ended" else "missed", child.returncode, flush=True)
print(text("/run/cut.log"), flush=True)
time.sleep(600)
"""


def cut(
    machine: VirtualMachine,
    moment: Moment,
    argv: list[str],
    *,
    fails: bool = False,
    stops_pods: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Run a command, cut the power at a moment, and switch the machine on again.

    A command that is cut when it has ended must have succeeded, or failed if that is expected. One that stops
    pods unmounts their file systems, and then the kernel writes all that is on that disk: what was written
    before is not lost.
    """
    _make_lazy(machine)
    if not stops_pods:
        _until_quiet(machine)
    program = ["sudo", "-n", "--", "python3", "-c", WATCHER, _watched(moment), *argv]
    with subprocess.Popen(
        machine.ssh(shlex.join(program)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout
            assert select([running.stdout], [], [], SECONDS)[0], f"{moment.name}: no news in {SECONDS} s"
            said = running.stdout.readline()
            ended = "ended 0" if not fails else "ended 1"
            if not said.startswith(("cut", ended)):
                running.kill()
                log = machine.run(["cat", "/run/cut.log"], check=False).stdout
                raise AssertionError(f"{moment.name}: the moment did not come: {said}{log}")
            machine.stop()
        finally:
            running.kill()
    meanwhile()
    machine.start()
    canaries = [LATE] if stops_pods else [EARLY, LATE]
    kept = [path for path in canaries if machine.run(["cat", path], check=False).stdout]
    assert kept == [], f"this was no power cut: not synced, and still there: {', '.join(kept)}"
    machine.run(["rm", "--force", EARLY, LATE])


def _make_lazy(machine: VirtualMachine) -> None:
    for command in LAZY:
        machine.run(command.split())
    disk = machine.run(["mountpoint", "--fs-devno", "/"]).stdout.strip()
    machine.run(["tee", SHARE.format(disk)], input=PERCENT)


def _until_quiet(machine: VirtualMachine) -> None:
    """Wait until no pod starts: containerd unmounts overlays then, and with each the kernel writes all."""
    deadline = time.monotonic() + SECONDS
    while True:
        machine.run(["tee", PROBE], input="not synced")
        time.sleep(QUIET_SECONDS)
        found = machine.run(["filefrag", "-v", PROBE]).stdout
        machine.run(["rm", PROBE])  # one that is overwritten would be written to the disk at once
        if "delalloc" in found:  # it had no place on the disk yet
            return
        assert time.monotonic() < deadline, f"the kernel kept writing for {SECONDS} s"


def _watched(moment: Moment) -> str:
    return json.dumps([moment.condition, EARLY, LATE])
