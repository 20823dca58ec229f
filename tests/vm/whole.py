# SPDX-License-Identifier: GPL-3.0-or-later
"""After a power cut: nothing of ours is empty or half-written, and the journal can be read."""

from __future__ import annotations

import json

from testbed.machine.vm import VirtualMachine
from tests.vm.acts import STATE, UNITS

# Runs on the machine: files of ours that are empty, or JSON that can't be read.
INSPECTOR = """
import hashlib, json, os, sys
places = json.loads(sys.argv[1])
def below(place):
    if os.path.isfile(place):
        yield place
    for directory, _names, files in os.walk(place):
        for name in files:
            yield os.path.join(directory, name)
for path in (path for place in places for path in below(place)):
    if os.path.islink(path) and not os.path.exists(path):
        print("leads nowhere:", path)
    half = os.path.basename(path).startswith(".") and not path.endswith("/.manifest.json")  # never used
    if not os.path.isfile(path) or half or "/cache/" in path:
        continue
    program = path.startswith(("/opt/", "/usr/local/"))
    content = open(path, "rb").read(4096 if program else -1)
    if not content.strip(b"\\0"):
        print("empty:", path)
    elif b"\\0" in content and not program:  # a text whose end never got to the disk
        print("half-written:", path)
    elif path.endswith(".json"):
        try:
            found = json.load(open(path))
        except ValueError as error:
            print("half-written:", path, error)
            continue
        for name, noted in found["files"].items() if path.endswith("/.manifest.json") else ():
            with open(os.path.join(os.path.dirname(path), name), "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != noted["sha256"]:
                    print("not what was verified:", path, name)
journal = "/var/lib/aks-flex-node/journal"
if os.path.lexists("/usr/local/bin/kubelet") and not os.path.exists(journal):
    print("no journal of what was placed")
if os.path.exists(journal):
    for line in open(journal, "rb").read().split(b"\\n")[:-1]:
        try:
            json.loads(line)
        except ValueError as error:
            print("journal:", line, error)
"""
# Runs on the machine: the content of the files at these places.
READER = """
import json, os, sys
places = json.loads(sys.argv[1])
walked = [step for place in places for step in os.walk(place)]
inside = [os.path.join(directory, name) for directory, _names, files in walked for name in files]
found = [path for path in (*places, *inside) if os.path.isfile(path)]
print(json.dumps({path: open(path, "rb").read().decode(errors="replace") for path in found}))
"""
OURS = (
    STATE,
    "/etc/aks-flex-node",
    "/etc/containerd",
    "/etc/cni",
    "/etc/default/kubelet",
    "/etc/default/kubelet-registration",
    "/etc/default/kubeletconfig.json",
    "/etc/fstab",
    "/etc/kubernetes",
    "/etc/modules-load.d/aks-flex-node.conf",
    "/etc/sysctl.d/99-zz-aks-flex-node.conf",
    f"{UNITS}/containerd.service",
    f"{UNITS}/containerd.service.d",
    f"{UNITS}/kubelet.service",
    f"{UNITS}/kubelet.service.d",
    f"{UNITS}/multi-user.target.wants",
    "/var/lib/kubelet/bootstrap-kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/opt/aks-flex-node",
    "/opt/cni",
    "/usr/local/bin",
    "/usr/local/sbin",
)


def whole(machine: VirtualMachine) -> dict[str, str]:
    """Nothing is empty, JSON can be read, binaries are what was verified; returns the texts."""
    found = machine.run(["python3", "-c", INSPECTOR, json.dumps(OURS)]).stdout
    assert found == "", found
    return texts(machine)


def texts(machine: VirtualMachine) -> dict[str, str]:
    """The content of each file of ours that is neither a program nor state, which grows by appending."""
    places = [place for place in OURS if not place.startswith(("/opt/", "/usr/local/", STATE))]
    found: dict[str, str] = json.loads(machine.run(["python3", "-c", READER, json.dumps(places)]).stdout)
    return found


def half_written(after_the_boot: dict[str, str], in_the_end: dict[str, str]) -> list[str]:
    """Files that held only the first part of what they are in the end."""
    return [
        path
        for path, text in after_the_boot.items()
        if (whole := in_the_end.get(path, "")) != text and whole.startswith(text)
    ]
