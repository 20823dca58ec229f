# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's work for a fleet: its part of bootstrap for 200 hosts, without any machine.

python -m tests.bench.controller [HOSTS [SLICES]] measures it alone; no testbed is needed. With slices: as a
sliced job of AWX on one machine, where each slice is a run of its own with a part of the hosts, all at once.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from testbed.basics.errors import TestbedError
from testbed.playbooks import ROOT, play

HOSTS = 200
EXAMPLE = ROOT / "docs" / "examples" / "edge_hosts"
PLAYBOOK = Path(__file__).with_name("controller.yml")


def fleet(count: int) -> dict[str, Any]:
    """The example inventory (source inline) with so many hosts: one configuration, a pod CIDR per host."""
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["aks_flexnode"]["vars"]
    hosts = {
        f"edge-{number}": {
            "ansible_host": f"192.0.2.{number % 250 + 1}",
            "flexnode_host_config": {"cni": {"podCIDR": f"10.{100 + number // 250}.{number % 250}.0/24"}},
        }
        for number in range(count)
    }
    return {"aks_flexnode": {"vars": example, "hosts": hosts}}


def seconds(directory: Path, count: int = HOSTS) -> float:
    """How long the controller's plays take for so many hosts, in check mode."""
    inventory = directory / "fleet.yml"
    inventory.write_text(yaml.safe_dump(fleet(count)), encoding="utf-8")
    done = play(str(PLAYBOOK), inventory, "--check")
    if done.status != 0:
        raise TestbedError(f"the controller's plays failed:\n{done.output[-3000:]}")
    return done.seconds


def sliced_seconds(directory: Path, count: int, slices: int) -> float:
    """How long they take in so many runs at once; the last one counts."""
    places = [directory / f"slice-{number}" for number in range(slices)]
    for place in places:
        place.mkdir()
    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=slices) as pool:
        list(pool.map(lambda place: seconds(place, count // slices), places))
    return time.monotonic() - start


def main(arguments: list[str]) -> int:
    """Print how long it took."""
    count, slices = ([int(word) for word in arguments] + [HOSTS, 1][len(arguments) :])[:2]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        found = sliced_seconds(Path(directory), count, slices)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    print(f"controller, {count} hosts, {slices} at once: {found:.2f} s, {processor:.2f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
